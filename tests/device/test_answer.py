from dataclasses import dataclass, field

import pytest

from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.device.answer import Subject, answer, exchange_time
from trnsim.device.fallback_policy import state
from trnsim.errors import NotModelled, OutOfMemory
from trnsim.fabric.collective_time import collective_time
from trnsim.graph import Graph
from trnsim.lower import Exchange


@dataclass(frozen=True)
class Made:
    graph: Graph
    weights: frozenset = frozenset()
    names: dict = field(default_factory=dict)
    operators: tuple = ("dot",)
    missing: tuple = ()
    calls: tuple = ()
    origins: dict = field(default_factory=dict)


def product(rows, columns):
    graph = Graph()
    x, w = graph.input((rows, 64), "float32"), graph.input((64, columns), "float32")
    graph.outputs = [graph.dot_general(x, w, (1, 0))]
    return Made(graph, frozenset([w.number]), {x.number: "x", w.number: "w"})


def beyond():
    """A graph that counts past the end of a table."""
    graph = Graph()
    graph.outputs = [graph.gather(graph.input((3, 4), "float32"), graph.iota((5,), 0))]
    return Made(graph)


def test_a_graph_of_no_framework_is_answered():
    found = answer(Subject("it", product(16, 32), ("rows", 16)), "trn2", lnc=1)
    lines = found.text().splitlines()
    assert lines[0] == "it on trn2"
    assert lines[1].endswith("rows/s")
    assert "8 KiB of weights, 4 KiB of inputs" in lines[8]
    assert found.whole.flop == 2 * 16 * 64 * 32


def test_a_limit_that_binds_is_said_beside_the_time(monkeypatch):
    monkeypatch.setattr("trnsim.compiler.compilation.crowded", lambda *_: "room in SBUF: none")
    found = answer(Subject("it", product(16, 32)), "trn2", lnc=1)
    assert found.text().splitlines()[2] == "  limit       room in SBUF: none"
    assert found.whole.said == ("room in SBUF: none",)


def test_what_aws_refuses_is_an_error_under_the_policy_chip(monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    with pytest.raises(CompilerRefusal):
        answer(Subject("it", beyond()), "trn2")


def test_what_aws_refuses_is_said_under_the_policy_host(monkeypatch):
    monkeypatch.setattr(state, "policy", "host")
    assert answer(Subject("it", beyond()), "trn2").said


def test_a_graph_over_hbm_is_refused():
    with pytest.raises(OutOfMemory, match=r"it needs [\d.]+ GiB of HBM at its peak; a NeuronCore"):
        answer(Subject("it", product(1 << 17, 1 << 17)), "trn2")


def test_an_exchange_takes_what_the_fabric_says():
    exchange = Exchange("all_reduce", 1 << 20, (tuple(range(8)),))
    found = exchange_time(exchange, "trn2", 2)
    assert found == collective_time("all_reduce", 1 << 20, 8, "trn2", lnc=2)
    assert found.time_s > found.least_s > 0
    alone = exchange_time(Exchange("all_reduce", 1 << 20, ((0,),)), "trn2", 2)
    assert (alone.time_s, alone.least_s) == (0.0, 0.0)


def test_an_exchange_that_the_fabric_does_not_know_is_named():
    with pytest.raises(NotModelled, match="swap has no time; all_gather, reduce_scatter"):
        exchange_time(Exchange("swap", 8, ((0, 1),)), "trn2", 2)
