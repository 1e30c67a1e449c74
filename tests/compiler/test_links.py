"""Exchanges inside a program: what hides them, what they take, where their ranks lie."""

import pytest

from trnsim import disk_cache
from trnsim.compiler import compile as compile_graph
from trnsim.compiler.links import RankExchange, RankLinks, links_of
from trnsim.compiler.program_times import time_graph
from trnsim.compiler.reports.reported_run import reported_run
from trnsim.compiler.schedules import CompileOptions
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
)
from trnsim.isa import Engine, Instruction
from trnsim.lower import exchange
from trnsim.place.links.program import program_time

FOUR = (tuple(range(4)),)
KINDS = {
    "all_reduce": (AllReduce(FOUR, "add"), "all_reduce"),
    "all_gather": (AllGather(FOUR, 0), "all_gather"),
    "reduce_scatter": (ReduceScatter(FOUR, "add", 0), "reduce_scatter"),
    "all_to_all": (AllToAll(FOUR, 0, 0), "all_to_all"),
    "collective_permute": (CollectivePermute(((0, 1), (1, 2))), "permute"),
}


def chain(layers=2, groups=FOUR, size=256):
    """Products, each summed over ranks before the next."""
    g, weights = Graph(), []
    x = g.input((8, size), "bfloat16")
    for _ in range(layers):
        weights.append(g.input((size, size), "bfloat16"))
        x = g.apply(AllReduce(groups, "add"), g.dot_general(x, weights[-1], (1, 1)))
    g.outputs = [x]
    return g, frozenset(weight.number for weight in weights)


def beside(operation, products=8, size=512):
    """An exchange and products that do not depend on each other."""
    g = Graph()
    x, y = g.input((64, size), "bfloat16"), g.input((128, size), "bfloat16")
    w = g.input((size, size), "bfloat16")
    exchanged = g.apply(operation, x)
    for _ in range(products):
        y = g.elementwise("tanh", g.dot_general(y, w, (1, 1)))
    g.outputs = [exchanged, y]
    return g, frozenset({w.number})


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_what_depends_on_an_exchange_waits_for_it(target):
    graph, weights = chain()
    alone = compile_graph(graph, target, weights=weights, is_linked=False)
    made = compile_graph(graph, target, weights=weights)
    each_s = program_time("all_reduce", 8 * 256 * 2, FOUR, target, 1).time_s
    assert made.exchanged_s == pytest.approx(2 * each_s)
    assert made.exposed_s == pytest.approx(2 * each_s)
    # Written to HBM and read again either way; beside the exchange transfers are slower.
    longer_s = made.device_time_s - alone.device_time_s
    assert 2 * each_s <= longer_s < 2 * each_s + 1e-6
    assert (made.exchanges, alone.exchanged_s) == ((), 0)
    assert alone.exchanges == (exchange(graph.nodes[1]),) * 2


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_depend_on_an_exchange_hides_it(kind):
    operation, name = KINDS[kind]
    graph, weights = beside(operation)
    alone = compile_graph(graph, weights=weights, is_linked=False)
    made = compile_graph(graph, weights=weights)
    asked = exchange(graph.nodes[0])
    taken_s = program_time(name, asked.nbytes, asked.groups, "trn2", 1).time_s
    assert made.exchanged_s == pytest.approx(taken_s)
    assert made.exposed_s == 0
    assert made.device_time_s - alone.device_time_s < taken_s / 4


def test_of_equal_layers_each_has_its_exchange():
    graph, weights = chain(12)
    made = compile_graph(graph, weights=weights)
    assert made.layers == 12
    each_s = program_time("all_reduce", 8 * 256 * 2, FOUR, "trn2", 1).time_s
    assert made.exchanged_s == pytest.approx(12 * each_s)
    assert made.device_time_s > made.exposed_s > 11 * each_s


def test_on_the_first_generation_exchanges_are_added():
    graph, weights = chain()
    assert links_of("trn1", 1, 1) is None
    made = compile_graph(graph, "trn1", weights=weights)
    assert made == compile_graph(graph, "trn1", weights=weights, is_linked=False)
    assert len(made.exchanges) == 2


def test_ranks_lie_where_groups_and_the_instance_say(monkeypatch, tmp_path):
    def exchanged_s(groups):
        return compile_graph(*chain(1, groups)[:1], weights=chain(1, groups)[1]).exchanged_s

    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    on_a_chip, apart = exchanged_s(FOUR), exchanged_s(((0, 8, 16, 24),))
    assert apart > on_a_chip
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    wide = tuple(range(128))
    named = exchanged_s((wide,))
    monkeypatch.setenv("TRNSIM_INSTANCE", "Trn2 UltraServer (u-trn2x64)")
    assert exchanged_s((wide,)) == pytest.approx(
        program_time("all_reduce", 8 * 256 * 2, (wide,), "trn2", 1).time_s
    )
    monkeypatch.delenv("TRNSIM_INSTANCE")
    assert exchanged_s((wide,)) == named


@pytest.mark.parametrize(("cores", "nbytes"), [(1, 2**20), (2, 2**21)])
def test_each_of_two_cores_exchanges_its_part(cores, nbytes):
    graph, _ = chain(1, size=2**16)
    graph.outputs = [graph.outputs[0]]
    links = RankLinks("trainium2", 2, cores, "")
    issued = []

    class Core:
        @staticmethod
        def issue(one):
            issued.append(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trnsim.compiler.links.current_core", Core)
        links.issue(None, None, graph.nodes[1])
    (one,) = issued
    assert one.nbytes() == nbytes
    assert one.setting.is_joint == (cores == 1)
    assert one.setting.fabric.lnc == 2


def test_programs_are_remembered_by_their_links(monkeypatch, tmp_path):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    graph, weights = chain()
    linked, apart = (
        time_graph(graph, weights, CompileOptions("trn2", is_linked=one)).figures
        for one in (True, False)
    )
    assert linked.is_linked
    assert not apart.is_linked
    assert time_graph(graph, weights, CompileOptions("trn2")).figures == linked
    assert time_graph(graph, weights, CompileOptions("trn2", is_linked=False)).figures == apart


def test_a_report_shows_exchanges_on_the_cc_core():
    graph, weights = chain()
    run = reported_run(graph, compile_graph(graph, weights=weights), "chain", weights)
    spans = [span for span in run.timeline.spans() if span.engine is Engine.collective]
    assert [span.opcode for span in spans] == ["all_reduce"] * 2
    named = {name for facts in run.timeline.facts().values() for name, _ in facts}
    assert "collective_start_s" in named


def test_no_kernel_can_issue_a_ranks_exchange():
    assert not any(issubclass(one, RankExchange) for one in Instruction.registry.values())
