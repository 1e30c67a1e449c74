from dataclasses import dataclass, field

import pytest

from trnsim.compiler.ncc.refusals import CompilerRefusal
from trnsim.device.answer import Subject, answer
from trnsim.device.fallback_policy import state
from trnsim.errors import OutOfMemory
from trnsim.graph import Graph


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


def free(*_):
    return 0.0, 0.0


def test_a_graph_of_no_framework_is_answered():
    found = answer(Subject("it", product(16, 32), ("rows", 16)), "trn2", free, lnc=1)
    lines = found.text().splitlines()
    assert lines[0] == "it on trn2"
    assert lines[1].endswith("rows/s")
    assert "8 KiB of weights, 4 KiB of inputs" in lines[8]
    assert found.whole.flop == 2 * 16 * 64 * 32


def test_what_aws_refuses_is_an_error_under_the_policy_chip(monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    with pytest.raises(CompilerRefusal):
        answer(Subject("it", beyond()), "trn2", free)


def test_what_aws_refuses_is_said_under_the_policy_host(monkeypatch):
    monkeypatch.setattr(state, "policy", "host")
    assert answer(Subject("it", beyond()), "trn2", free).said


def test_a_graph_over_hbm_is_refused():
    with pytest.raises(OutOfMemory, match=r"it needs [\d.]+ GiB of HBM at its peak; a NeuronCore"):
        answer(Subject("it", product(1 << 17, 1 << 17)), "trn2", free)
