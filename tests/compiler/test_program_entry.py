"""Compiled programs on disk: equal to what was compiled, and read for the same graph alone."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from layered_graphs import layered
from spoiled_cache import OTHER_FIELDS, spoil
from test_layers import stack

from trnsim import disk_cache
from trnsim.compiler import Flags, compilation
from trnsim.compiler import compile as compile_graph
from trnsim.errors import SourceLine
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.control_flow import If
from trnsim.graph.rewriting import observe_patterns


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def compiles(monkeypatch):
    """Counts the graphs that are not read."""
    graphs = []
    compiled = compilation._compile_graph

    def counted(graph, *arguments):
        graphs.append(graph)
        return compiled(graph, *arguments)

    monkeypatch.setattr(compilation, "_compile_graph", counted)
    return graphs


def with_lines(graph, *, moved_by=0):
    """The graph with a line of the user's program for every second operation."""
    nodes = [
        replace(node, origin=replace(node.origin, line=SourceLine("model.py", at + moved_by)))
        if at % 2
        else node
        for at, node in enumerate(graph.nodes)
    ]
    return Graph(graph.inputs, nodes, graph.outputs)


@pytest.mark.parametrize(("count", "lnc"), [(2, 1), (2, 2), (10, 1)])
def test_what_is_read_equals_what_was_compiled(folder, compiles, count, lnc):
    graph, weights = layered(count, width=256)
    graph = with_lines(graph)
    first = compile_graph(graph, weights=weights, lnc=lnc)
    assert compile_graph(graph, weights=weights, lnc=lnc) == first
    assert len(compiles) == 1
    assert any(share.line for share in first.shares)
    assert any(share.module for share in first.shares)
    stored = "".join(file.read_text() for file in folder.rglob("*.json"))
    assert "model.py" not in stored
    assert "net" not in stored


def test_lines_that_moved_are_those_of_today(folder, compiles):
    graph, weights = layered(2, width=256)
    first = compile_graph(with_lines(graph), weights=weights)
    moved = compile_graph(with_lines(graph, moved_by=7), weights=weights)
    assert len(compiles) == 1
    pairs = [(a.line, b.line) for a, b in zip(first.shares, moved.shares, strict=True)]
    assert all(b.line == a.line + 7 for a, b in pairs if a is not None)
    assert any(folder.rglob("*.json"))


def test_a_graph_with_exchanges_is_read_with_them(compiles, folder):
    graph = Graph()
    x = graph.input((128, 512), "bfloat16")
    graph.outputs = [graph.apply(AllReduce(((0, 1),), "add"), graph.elementwise("tanh", x))]
    plain, apart = (compile_graph(graph, is_linked=linked) for linked in (True, False))
    assert compile_graph(graph) == plain
    assert compile_graph(graph, is_linked=False) == apart
    assert len(compiles) == 2
    assert apart.exchanges
    assert any(folder.rglob("*.json"))


OTHERS = {
    "chip": {"target": "trn1"},
    "cores": {"lnc": 2},
    "weights": {"weights": frozenset()},
    "casts": {"flags": Flags(auto_cast="all")},
    "level": {"flags": Flags(optlevel=1)},
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", OTHERS)
def test_another_question_is_another_entry(compiles, name):
    graph, weights = stack(1, width=128)
    asked = {"weights": weights}
    compile_graph(graph, **asked)
    compile_graph(graph, **asked | OTHERS[name])
    assert len(compiles) == 2


@pytest.mark.parametrize("changes", OTHER_FIELDS)
def test_a_program_that_lacks_fields_is_compiled_again(folder, compiles, changes):
    graph, weights = layered(2, width=128)
    first = compile_graph(graph, weights=weights)
    spoil(folder, changes)
    assert compile_graph(graph, weights=weights) == first
    assert len(compiles) == 2


@pytest.mark.usefixtures("folder")
def test_other_operations_of_a_line_are_another_entry(compiles, monkeypatch):
    graph, weights = layered(2, width=256)
    nodes = [
        replace(node, origin=replace(node.origin, line=SourceLine("model.py", 3)))
        for node in graph.nodes
    ]
    of_one_line = Graph(graph.inputs, nodes, graph.outputs)
    compile_graph(with_lines(graph), weights=weights)
    second = compile_graph(of_one_line, weights=weights)
    assert len(compiles) == 2
    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    assert second == compile_graph(of_one_line, weights=weights)
    assert {share.line for share in second.shares if share.line} == {SourceLine("model.py", 3)}


@pytest.mark.usefixtures("folder")
def test_other_modules_and_omitted_patterns_are_other_entries(compiles):
    graph, weights = layered(2, width=128)
    compile_graph(graph, weights=weights)
    compile_graph(layered(2, path="net.other.{}", width=128)[0], weights=weights)
    with observe_patterns(["attention"]):
        compile_graph(graph, weights=weights)
    assert len(compiles) == 3


@pytest.mark.usefixtures("folder")
def test_what_flags_say_is_of_the_flags_that_were_given(compiles):
    graph, weights = stack(1, width=128)
    compile_graph(graph, weights=weights)
    flags = Flags.parse("--verbose=info")
    assert compile_graph(graph, weights=weights, flags=flags).flags is flags
    assert len(compiles) == 1


@pytest.mark.usefixtures("folder")
def test_control_flow_is_compiled_each_time(compiles):
    inner = Graph()
    inner.outputs = [inner.elementwise("tanh", inner.input((4, 8), "float32"))]
    graph = Graph()
    choice, x = graph.input((), "bool"), graph.input((4, 8), "float32")
    graph.outputs = [graph.apply(If((inner, inner)), choice, x)]
    assert compile_graph(graph) == compile_graph(graph)
    assert len(compiles) == 2


def test_an_entry_that_was_cut_off_is_compiled_anew(folder, compiles):
    graph, weights = stack(1, width=128)
    first = compile_graph(graph, weights=weights)
    for file in folder.rglob("*.json"):
        file.write_text(file.read_text()[:-1])
    assert compile_graph(graph, weights=weights) == first
    assert compile_graph(graph, weights=weights) == first
    assert len(compiles) == 2


PROGRAM = """
import json, sys
from trnsim.compiler import compile
from trnsim.graph import Graph
g = Graph()
x = g.input((128, 256), "bfloat16")
for _ in range(3):
    x = g.elementwise("gelu", g.dot_general(x, g.input((256, 256), "bfloat16"), (1, 1)))
g.outputs = [x]
program = compile(g, weights=frozenset(v.number for v in g.inputs[1:]))
print(json.dumps([program.device_time_s, program.instructions, program.bound.seconds]))
"""


@pytest.mark.slow
def test_two_processes_at_once_and_one_after_them_agree(folder):
    command = [sys.executable, "-c", PROGRAM]
    own = os.environ | {disk_cache.VARIABLE: str(folder)}
    pair = [subprocess.Popen(command, env=own, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    texts = [process.communicate()[0] for process in pair]
    after = subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout
    assert texts == [after, after]
    assert json.loads(after)[0] > 0
    assert all(len(Path(file).stem) == 32 for file in folder.rglob("*.json"))
