"""The time that a graph's program takes, and the cache on disk."""

import json

import pytest
from spoiled_cache import OTHER_FIELDS, spoil
from test_layers import stack

from trnsim import disk_cache
from trnsim.compiler import program_times
from trnsim.compiler.program_times import (
    NoFasterProgramError,
    ProgramFigures,
    program_figures,
    time_graph,
)
from trnsim.compiler.schedules import CompileOptions, SbufSchedule
from trnsim.errors import OutOfMemory
from trnsim.graph import Graph
from trnsim.graph.ops.control_flow import If
from trnsim.profile.measures.parts import PartCost


def test_figures_are_stored_and_restored():
    part = PartCost(2, {"dma": 1.0}, {"waiting": 2.0}, {"weights": 3.0})
    figures = ProgramFigures(
        1.0,
        2.0,
        3,
        {("add", 4): part},
        ("a note",),
        (2, 4),
        SbufSchedule(1024, 512),
        frozenset({"room"}),
    )
    assert ProgramFigures.from_json(json.loads(json.dumps(figures.as_json()))) == figures


def test_figures_of_two_programs_add_up_and_are_launched_once():
    first = ProgramFigures(1.0, 5.0, 2, {("add", 0): PartCost(2)}, ("one",))
    both = first.plus(ProgramFigures(3.0, 7.0, 4, {("add", 0): PartCost(4)}, ("one", "other")))
    assert (both.device_time_s, both.launch_s, both.instructions) == (4.0, 5.0, 6)
    assert both.work == {("add", 0): PartCost(6)}
    assert both.notes == ("one", "other")
    assert ProgramFigures().plus(first).launch_s == 5.0


@pytest.mark.parametrize(("count", "layers"), [(2, 0), (8, 8)])
def test_the_graph_of_the_program_that_was_compiled(count, layers):
    graph, weights = stack(count, width=256)
    found = time_graph(graph, weights, CompileOptions("trn2"))
    assert found.layers == layers
    compiled = found.figures.compiled_layers[0] if layers else count
    assert len(found.compiled().nodes) == 3 * compiled + len(graph.nodes) - 3 * count


def test_what_is_remembered_is_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    graph, weights = stack(8, width=256)
    first = time_graph(graph, weights, CompileOptions("trn2"))
    monkeypatch.setattr(program_times, "trace_without_values", None)
    assert time_graph(graph, weights, CompileOptions("trn2")) == first
    with pytest.raises(TypeError):
        time_graph(graph, weights, CompileOptions("trn1"))


@pytest.mark.parametrize("changes", OTHER_FIELDS)
@pytest.mark.parametrize("time", [time_graph, program_figures])
def test_what_is_remembered_with_other_fields_is_found_again(tmp_path, monkeypatch, time, changes):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))
    graph, weights = stack(2, width=128)
    first = time(graph, weights, CompileOptions("trn2"))
    spoil(tmp_path, changes)
    assert time(graph, weights, CompileOptions("trn2")) == first


def test_a_graph_whose_busiest_engine_works_longer_than_the_limit_is_left():
    for count in (2, 8):
        graph, weights = stack(count, width=256)
        whole = time_graph(graph, weights, CompileOptions("trn2"))
        with pytest.raises(NoFasterProgramError):
            time_graph(
                graph, weights, CompileOptions("trn2", limit_s=0.2 * whole.figures.device_time_s)
            )
        limited = CompileOptions("trn2", limit_s=0.999 * whole.figures.device_time_s)
        assert time_graph(graph, weights, limited) == whole  # it may yet be faster


def test_kernels_cannot_stand_for_the_half_of_two_cores(monkeypatch):
    def refuse(*_, **__):
        raise OutOfMemory("SBUF is full")

    monkeypatch.setenv(disk_cache.VARIABLE, "off")
    monkeypatch.setattr(program_times, "trace_without_values", refuse)
    graph, weights = stack(2, width=256)
    assert program_figures(graph, weights, CompileOptions("trn2")).notes == (
        "not one program: SBUF is full",
    )
    with pytest.raises(OutOfMemory):
        program_figures(graph, weights, CompileOptions("trn2", cores=2))


def test_a_branch_is_a_program_of_its_own():
    inner = Graph()
    inner.outputs = [inner.elementwise("tanh", inner.input((4, 8), "float32"))]
    graph = Graph()
    choice, x = graph.input((), "bool"), graph.input((4, 8), "float32")
    graph.outputs = [graph.apply(If((inner, inner)), choice, x)]
    found = time_graph(graph, frozenset(), CompileOptions("trn2"))
    assert found.graph is graph
    assert {place for _, place in found.figures.work} == {0}
    assert found.figures.device_time_s > 0


@pytest.mark.parametrize(("counts", "layers"), [((4, 4), 0), ((5, 5), 0), ((9, 9), 9), ((4, 9), 9)])
def test_fewer_layers_are_compiled_where_their_programs_are_smaller_together(counts, layers):
    graph = Graph()
    weights = [graph.input((128, 128), "bfloat16") for _ in range(sum(counts))]
    x = graph.input((64, 128), "bfloat16")
    for place, weight in enumerate(weights):
        x = graph.dot_general(x, weight, (1, 1))
        x = graph.elementwise("gelu" if place < counts[0] else "tanh", x)
        if place == counts[0] - 1:
            for _ in range(3):
                x = graph.elementwise("exponential", graph.elementwise("negate", x))
    graph.outputs = [x]
    numbers = frozenset(value.number for value in weights)
    found = time_graph(graph, numbers, CompileOptions("trn2"))
    assert found.layers == layers
    whole = program_figures(graph, numbers, CompileOptions("trn2"))
    assert found.figures.device_time_s == pytest.approx(whole.device_time_s, rel=0.02)
