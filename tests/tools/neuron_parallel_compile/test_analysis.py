import json

import pytest

from trnsim import arch
from trnsim.compiler import Flags
from trnsim.compiler.compile_cache import CacheEntry
from trnsim.compiler.ncc.calls import CallTensor, CompileTarget, FrameworkCall
from trnsim.device.graph_file import GraphFile, graph_bytes
from trnsim.device.model_report import Subject
from trnsim.errors import SourceLine
from trnsim.graph import Graph
from trnsim.graph.ops.reductions import TopK
from trnsim.tools.neuron_parallel_compile.analysis import Analysis, analysis_of, instruction_text

F32 = CallTensor((4,), "float32")
C64 = CallTensor((4,), "complex64")


def subject():
    graph = Graph()
    x = graph.input((4,), "float32")
    graph.outputs = [graph.elementwise("add", x, x), graph.elementwise("multiply", x, x)]
    line = SourceLine("/home/user/test2_unsup.py", 24)
    add = FrameworkCall("aten::add.Tensor", "add", {"self": F32}, (F32,))
    refused = FrameworkCall("aten::mul.Tensor", "mul", {"self": C64}, (C64,), line)
    lost = FrameworkCall("aten::nonzero", "nonzero", {"self": F32}, (), line, "its size varies")
    calls = (add, add, refused, lost)
    origins = {graph.outputs[0].number: add}
    return Subject("m", GraphFile(graph, frozenset(), {0: "x"}, (), (), calls, origins))


@pytest.fixture
def stored(tmp_path):
    entry = CacheEntry(tmp_path / "MODULE_1+01234567")
    entry.store_graph(graph_bytes(subject()), ["--target=trn2", "--logical-nc-config=2"])
    return entry


def test_the_report_has_awss_form(stored):
    assert analysis_of([stored]).as_dict(2) | {
        "torch_neuronx_version": "",
        "neuronx_cc_version": "",
    } == {
        "torch_neuronx_version": "",
        "neuronx_cc_version": "",
        "support_percentage": "50.00%",
        "supported_operators": {"aten": {"aten::add": 1}},
        "unsupported_operators": {
            "aten": [
                {"kind": "aten::mul", "failureAt": "neuronx-cc", "call": "test2_unsup.py 24"},
                {
                    "kind": "aten::nonzero",
                    "failureAt": "Lowering to HLO",
                    "call": "test2_unsup.py 24",
                },
            ]
        },
    }


def test_instructions_of_xla_stand_in_the_longer_one(stored):
    report = analysis_of([stored]).as_dict(1)
    assert report["supported_operators"]["xla"] == [
        "f32[4]{0} add(f32[4]{0}, f32[4]{0})",
        "f32[4]{0} multiply(f32[4]{0}, f32[4]{0})",
    ]
    assert report["unsupported_operators"]["xla"] == []
    json.dumps(report)


def test_a_graph_that_cannot_be_read_is_named(stored, tmp_path):
    stored.graph_file.write_bytes(b"trnsim graph 1\nx\n")
    unnamed = CacheEntry(tmp_path / "MODULE_2+01234567")
    unnamed.store_graph(b"x", [])
    unread = analysis_of([stored, unnamed]).as_dict(2)["unread_graphs"]
    assert "the graph was cut off or changed" in unread[0]
    assert unread[1].endswith("its flags name no --target")


def test_an_instruction_is_written_as_hlo_does():
    graph = Graph()
    value = graph.reduce("add", graph.input((2, 3), "bfloat16"), [1])
    assert instruction_text(graph.producer(value)) == "bf16[2]{0} reduce(bf16[2,3]{1,0})"
    added = graph.elementwise("add", value, 10.0)
    assert instruction_text(graph.producer(added)) == "bf16[2]{0} add(bf16[2]{0}, 10)"
    narrow = graph.input((2,), "float8_e4m3fn")
    total = graph.elementwise("add", narrow, narrow)
    assert instruction_text(graph.producer(total)).startswith("f8e4m3fn[2]{0} add(f8e4m3fn[2]{0}")


def test_a_call_of_a_refused_type_fails_in_the_compiler_even_without_a_lowering(tmp_path):
    call = FrameworkCall("aten::mul.Tensor", "mul", {"self": C64}, (C64,), None, "complex numbers")
    model = GraphFile(Graph(), frozenset(), {}, (), (), (call,))
    entry = CacheEntry(tmp_path / "MODULE_1+01234567")
    entry.store_graph(graph_bytes(Subject("m", model)), ["--target=trn2"])
    refused = analysis_of([entry]).as_dict(2)["unsupported_operators"]["aten"]
    assert refused == [{"kind": "aten::mul", "failureAt": "neuronx-cc", "call": ""}]


def test_a_graph_whose_origins_are_no_calls_is_checked_by_its_nodes():
    graph = Graph()
    graph.outputs = list(graph.apply_to_all(TopK(2), [graph.input((4,), "int32")]))
    named = FrameworkCall("jax::top_k", "top_k", {}, ())
    model = GraphFile(graph, names={0: "x"}, origins={graph.nodes[-1].result.number: named})
    found = Analysis()
    found.add(Subject("m", model), CompileTarget(arch.target("trn2"), Flags()))
    assert [row["kind"] for row in found.refused] == ["jax::top_k"]
