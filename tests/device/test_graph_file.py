import hashlib
import json

import pytest

from trnsim.compiler.ncc.calls import CallTensor, FrameworkCall
from trnsim.device.graph_file import GraphFile, graph_bytes, is_graph_file, parse_graph_file
from trnsim.device.model_report import Subject
from trnsim.errors import BadInput, SourceLine
from trnsim.graph import Graph
from trnsim.graph.origin import Origin

LINE = SourceLine("/home/user/train.py", 24)


def subject():
    graph = Graph()
    graph.current_origin = Origin("mlp", "aten::mm", LINE)
    x, w = graph.input((4, 8), "float32"), graph.input((8, 2), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    tensor = CallTensor((4, None), "float32")
    call = FrameworkCall(
        "aten::mm",
        "mm",
        {"self": tensor, "k": 2, "scale": 1.5, "list": [tensor, None], "odd": object()},
        (tensor,),
        LINE,
    )
    lost = FrameworkCall("aten::nonzero", "nonzero", {}, reason="no fixed shape")
    model = GraphFile(
        graph,
        frozenset({w.number}),
        {0: "x", 1: "w"},
        ("aten::mm", "aten::nonzero"),
        ("aten::nonzero: no fixed shape",),
        (call, lost),
        {graph.outputs[0].number: call},
    )
    return Subject("a model", model, ("tokens", 8))


STORED = graph_bytes(subject())


def test_a_model_is_read_back():
    found, wanted = parse_graph_file(STORED, "x"), subject()
    assert is_graph_file(STORED)
    assert (found.title, found.items) == ("a model", ("tokens", 8))
    one, two = found.model_graph, wanted.model_graph
    assert one.graph == two.graph
    assert [node.origin for node in one.graph.nodes] == [Origin("mlp", "aten::mm", LINE)]
    assert (one.weights, one.names, one.operators) == (two.weights, two.names, two.operators)
    assert one.missing == two.missing
    assert one.origins[2] is one.calls[0]
    assert [call.reason for call in one.calls] == ["", "no fixed shape"]
    arguments = dict(two.calls[0].arguments)
    arguments.pop("odd")  # no value of JSON
    assert one.calls[0].arguments == arguments
    assert (one.calls[0].line, one.calls[0].results) == (LINE, two.calls[0].results)


def test_the_same_model_gives_the_same_bytes():
    assert graph_bytes(subject()) == STORED


def changed(change):
    values = json.loads(STORED.split(b"\n", 2)[2])
    change(values)
    body = json.dumps(values).encode()
    return b"trnsim graph 1\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.pop("graph"),
        lambda values: values.update(weights=["x"]),
        lambda values: values.update(weights=[-1]),
        lambda values: values.update(origins=[1]),
        lambda values: values.update(items=["tokens", 1 << 40]),
        lambda values: values.update(names=[]),
        lambda values: values["graph"].update(outputs=[77]),
        lambda values: values["calls"][0].pop(),
    ],
)
def test_values_that_are_no_model_are_refused(change):
    with pytest.raises(BadInput, match=r"^m(: | holds no graph: )"):
        parse_graph_file(changed(change), "m")


@pytest.mark.parametrize("content", [STORED[:-1], STORED + b" ", b"trnsim graph 1\n", STORED[:40]])
def test_a_file_that_was_cut_off_or_changed_is_refused(content):
    with pytest.raises(BadInput, match=r"^m: the graph was cut off or changed"):
        parse_graph_file(content, "m")


def test_another_version_is_named():
    with pytest.raises(BadInput, match=r"in format b'2'; this one reads 1"):
        parse_graph_file(STORED.replace(b"graph 1", b"graph 2", 1), "m")


def test_nesting_without_an_end_is_refused():
    body = b'{"graph":' * 100_000
    content = b"trnsim graph 1\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    with pytest.raises(BadInput, match=r"^m holds no graph"):
        parse_graph_file(content, "m")
