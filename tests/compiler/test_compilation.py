"""A graph's time as one program."""

import pytest
from graphs_by_chance import Chance
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim import disk_cache
from trnsim.compiler import Flags
from trnsim.compiler import compile as compile_graph
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllReduce
from trnsim.graph.ops.control_flow import If
from trnsim.graph.ops.reductions import Sort, TopK
from trnsim.lower import costs


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
    assert found.bound_ratio == found.device_time_s / found.bound.seconds
    assert found.programs == 1


def test_products_in_float32_that_are_cast_are_faster():
    graph, weights = mlp(rows=512, dtype="float32")
    plain = compile_graph(graph, weights=weights)
    cast = compile_graph(graph, weights=weights, flags=Flags(auto_cast="matmult"))
    assert cast.device_time_s < 0.6 * plain.device_time_s
    assert cast.bound.seconds < plain.bound.seconds


def test_it_is_remembered_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    graph, weights = mlp(rows=8)
    first = compile_graph(graph, weights=weights)
    assert list(tmp_path.rglob("*.json"))
    monkeypatch.setattr("trnsim.compiler.program_times.trace_without_values", None)
    assert compile_graph(graph, weights=weights) == first


def test_a_file_that_was_cut_off_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
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


@pytest.mark.slow_cases("trn3")
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_two_cores_take_little_more_than_half_of_the_time_of_one(target):
    graph, weights = mlp(rows=2048, width=1024)
    one = compile_graph(graph, target, weights=weights)
    two = compile_graph(graph, target, lnc=2, weights=weights)
    assert 0.5 < two.device_time_s / one.device_time_s < 0.65
    assert two.bound.seconds == pytest.approx(one.bound.seconds / 2)
    assert two.device_time_s > two.bound.seconds
    assert (one.lnc, two.lnc) == (1, 2)
    assert two.notes == ()


@pytest.mark.slow
def test_what_one_core_reads_alone_is_read_by_half_the_time():
    graph, weights = mlp(rows=1, width=2048, hidden=8192)
    one, two = (compile_graph(graph, lnc=lnc, weights=weights) for lnc in (1, 2))
    assert two.device_time_s < 0.65 * one.device_time_s
    assert any("all_reduce between cores" in one.operation for one in two.shares)


def test_what_has_no_halves_is_done_by_one_core_and_said():
    graph, weights = mlp(rows=3, width=129, hidden=257)
    one, two = (compile_graph(graph, lnc=lnc, weights=weights) for lnc in (1, 2))
    assert two.device_time_s == one.device_time_s
    (said,) = two.notes
    assert said == "one of the two cores does all of: dot_general, gelu, add"


def test_a_graph_without_operations_has_nothing_that_one_core_does():
    graph = Graph()
    graph.outputs = [graph.input((2, 3), "float32")]
    assert compile_graph(graph, lnc=2).notes == ()


def test_one_core_is_taken_where_two_would_be_slower(monkeypatch):
    monkeypatch.setattr("trnsim.compiler.sharding.costs.SplitCosts.move_s", lambda *_: 0.0)
    graph, weights = mlp(rows=8, width=128, hidden=256)
    one, two = (compile_graph(graph, lnc=lnc, weights=weights) for lnc in (1, 2))
    assert two.device_time_s == one.device_time_s
    assert two.notes[0].startswith("one of the two cores does all of: ")


@pytest.mark.slow
def test_what_both_cores_do_alike_is_said():
    graph = Graph()
    x, w = graph.input((1, 3001), "float32"), graph.input((256, 3001), "bfloat16")
    (ordered,) = graph.apply_to_all(Sort(1), [x])
    short = graph.elementwise("convert", ordered, dtype="bfloat16")
    graph.outputs = [graph.dot_general(short, w, (1, 1))]
    found = compile_graph(graph, lnc=2, weights={w.number})
    assert found.notes == ("not split, so that both cores compute all of: sort",)


def test_each_piece_between_branches_is_split_for_itself():
    graph, weights = mlp(rows=2048, width=1024)
    inner = Graph()
    inner.outputs = [inner.elementwise("negate", inner.input((2048, 1024), "bfloat16"))]
    said = graph.input((), "bool")
    graph.outputs = [graph.apply(If((inner, inner)), said, graph.outputs[0])]
    one, two = (compile_graph(graph, lnc=lnc, weights=weights) for lnc in (1, 2))
    assert one.programs == two.programs == 2
    assert two.device_time_s < 0.9 * one.device_time_s
    assert two.notes == ("one of the two cores does all of: if",)


@pytest.mark.parametrize("target", ["trn1", "inf2"])
def test_chips_before_trainium2_have_no_logical_cores(target):
    reason = f"lnc=2 on {target}; legal: 1, as only trn2 and trn3 join two"
    with pytest.raises(BadInput, match=reason) as caught:
        compile_graph(mlp()[0], target, lnc=2)
    assert "logical-neuroncore-config.rst" in str(caught.value)


@pytest.mark.parametrize("lnc", [0, 3, -1, True, 1.0, "2"])
def test_a_logical_core_is_of_one_or_two(lnc):
    with pytest.raises(BadInput, match=f"lnc={lnc} on trn2; legal: 1 or 2"):
        compile_graph(mlp()[0], lnc=lnc)


def test_the_flag_of_the_compiler_says_how_many_cores_and_is_not_contradicted():
    graph, weights = mlp(rows=8)
    flags = Flags(logical_nc_config=2)
    assert compile_graph(graph, flags=flags, weights=weights).lnc == 2
    assert compile_graph(graph, lnc=2, flags=flags, weights=weights).lnc == 2
    with pytest.raises(BadInput, match="lnc=1 with --logical-nc-config=2; legal: the same number"):
        compile_graph(graph, lnc=1, flags=flags)


@pytest.mark.slow
@settings(max_examples=12)
@given(st.randoms(use_true_random=False), st.integers(4, 12))
def test_two_cores_are_never_slower_than_one_nor_faster_than_the_bound(random, operations):
    made = Chance(random)
    graph = made.made(operations)
    weights = frozenset(made.weights)
    one, two = (compile_graph(graph, lnc=lnc, weights=weights) for lnc in (1, 2))
    assert two.bound.seconds <= two.device_time_s <= one.device_time_s


def test_an_operation_without_instructions_is_named():
    g = Graph()
    g.outputs = [g.apply(TopK(20000), g.input((1, 400000), "float32"))]
    with pytest.raises(NotModelled, match="the 20000 largest"):
        compile_graph(g)


@pytest.mark.parametrize("lnc", [1, 2])
def test_what_is_too_large_for_the_chip_is_priced_by_kernels_and_says_so(monkeypatch, lnc):
    def refuse(*_, **__):
        raise OutOfMemory("SBUF is full")

    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    monkeypatch.setattr("trnsim.compiler.program_times.trace_without_values", refuse)
    graph, weights = mlp()
    found = compile_graph(graph, lnc=lnc, weights=weights)
    waits = "one of the two cores does all of: dot_general, gelu, add"
    assert found.notes == ("not one program: SBUF is full", waits)[:lnc]
    assert found.device_time_s == pytest.approx(sum(one.device_time_s for one in costs(graph)))
