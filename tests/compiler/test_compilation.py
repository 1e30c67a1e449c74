"""A graph's time as one program."""

import pytest

from trnsim.compiler import Flags
from trnsim.compiler import compile as compile_graph
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.reductions import TopK
from trnsim.lower import cache, costs


def mlp(rows=128, width=256, hidden=1024, dtype="bfloat16"):
    g = Graph()
    x = g.input((rows, width), dtype)
    up, down = g.input((hidden, width), dtype), g.input((width, hidden), dtype)
    made = g.elementwise("gelu", g.dot_general(x, up, (1, 1)))
    g.outputs = [g.elementwise("add", x, g.dot_general(made, down, (1, 1)))]
    return g, frozenset({up.number, down.number})


@pytest.mark.parametrize("target", ["inf2", "trn1", "trn2", "trn3"])
def test_a_program_takes_longer_than_its_bound_and_less_than_its_kernels(target):
    graph, weights = mlp()
    found = compile_graph(graph, target, weights=weights)
    assert found.bound.seconds < found.device_time_s
    assert found.device_time_s < sum(one.device_time_s for one in costs(graph, target))
    assert found.over_bound == found.device_time_s / found.bound.seconds
    assert found.programs == 1


def test_its_operations_share_its_time_and_its_products():
    graph, weights = mlp()
    found = compile_graph(graph, weights=weights)
    parts = found.costs()
    assert sum(one.device_time_s for one in parts) == pytest.approx(found.device_time_s)
    assert sum(one.instructions for one in parts) == found.instructions
    assert sum(one.flop for one in parts) == pytest.approx(2 * 2 * 128 * 256 * 1024)
    assert any("dot_general" in one.name and "gelu" in one.name for one in parts)


def test_products_in_float32_that_are_cast_are_faster():
    graph, weights = mlp(rows=512, dtype="float32")
    plain = compile_graph(graph, weights=weights)
    cast = compile_graph(graph, weights=weights, flags=Flags(auto_cast="matmult"))
    assert cast.device_time_s < 0.6 * plain.device_time_s
    assert cast.bound.seconds < plain.bound.seconds


def test_it_is_remembered_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    graph, weights = mlp(rows=8)
    first = compile_graph(graph, weights=weights)
    assert list(tmp_path.rglob("*.json"))
    monkeypatch.setattr("trnsim.compiler.compilation.trace", None)
    assert compile_graph(graph, weights=weights) == first


def test_a_file_that_was_cut_off_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    graph, weights = mlp(rows=8)
    first = compile_graph(graph, weights=weights)
    for file in tmp_path.rglob("*.json"):
        file.write_text(file.read_text()[:20])
    assert compile_graph(graph, weights=weights) == first


def test_an_exchange_writes_and_reads_hbm():
    graph, weights = mlp(rows=8)
    alone = compile_graph(graph, weights=weights)
    graph.outputs = [graph.apply(AllReduce(((0, 1),), "add"), graph.outputs[0])]
    assert compile_graph(graph, weights=weights).device_time_s > alone.device_time_s


def test_a_logical_core_of_two_is_refused():
    with pytest.raises(BadInput, match="lnc=2; legal: 1"):
        compile_graph(mlp()[0], lnc=2)


def test_an_operation_without_instructions_is_named():
    g = Graph()
    g.outputs = [g.apply(TopK(20000), g.input((1, 400000), "float32"))]
    with pytest.raises(NotModelled, match="the 20000 largest"):
        compile_graph(g)


def test_what_is_too_large_for_the_chip_is_priced_by_kernels_and_says_so(monkeypatch):
    def refuse(*_, **__):
        raise OutOfMemory("SBUF is full")

    monkeypatch.setenv(cache.VARIABLE, "off")
    monkeypatch.setattr("trnsim.compiler.compilation.trace", refuse)
    graph, weights = mlp()
    found = compile_graph(graph, weights=weights)
    assert found.said == ("not one program: SBUF is full",)
    assert found.device_time_s == pytest.approx(sum(one.device_time_s for one in costs(graph)))
