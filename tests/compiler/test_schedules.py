"""The search for a schedule: what is tried, what is kept, and that it goes on where it was."""

import numpy as np
import pytest
from made_graphs import Made
from test_layers import stack

from trnsim import disk_cache
from trnsim.compiler import Flags, program_times
from trnsim.compiler import compile as compile_graph
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.program import legalize_graph
from trnsim.compiler.schedules import CompileOptions, alternative_schedules, fastest_schedule
from trnsim.graph import Graph
from trnsim.lower.emit.schedule import FIRST_SCHEDULE, RING, ROOM, SbufSchedule
from trnsim.lower.program import trace


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv(disk_cache.VARIABLE, str(tmp_path))


def wide(rows=1024, width=256, between=16384):
    """An MLP whose states find no room in SBUF, and whose weights wait for one another."""
    graph = Graph()
    x = graph.input((rows, width), "bfloat16")
    up, down = (
        graph.input((between, width), "bfloat16"),
        graph.input((width, between), "bfloat16"),
    )
    made = graph.elementwise("gelu", graph.dot_general(x, up, (1, 1)))
    graph.outputs = [graph.elementwise("add", x, graph.dot_general(made, down, (1, 1)))]
    return graph, frozenset({up.number, down.number})


def test_what_lacks_nothing_is_not_searched():
    for level in (1, 2, 3):
        assert not alternative_schedules(level, frozenset(), 100)
    assert not alternative_schedules(1, frozenset({ROOM, RING}), 100)


def test_levels_try_more_and_more():
    both = frozenset({ROOM, RING})
    few, all_of_them = alternative_schedules(2, both, 100), alternative_schedules(3, both, 100)
    assert not alternative_schedules(2, frozenset({RING}), 100)
    assert alternative_schedules(2, frozenset({ROOM}), 100) == few
    assert 0 < len(few) < len(all_of_them)
    assert FIRST_SCHEDULE not in all_of_them
    assert set(few) <= set(all_of_them)
    assert len(set(all_of_them)) == len(all_of_them)
    assert not alternative_schedules(2, both, 10**6)
    assert alternative_schedules(3, both, 10**6) == all_of_them
    assert all(one.ring_bytes < one.passing_bytes for one in all_of_them)


@pytest.mark.parametrize(("times", "wanted"), [([3, 2], 1), ([1, 1], None), ([0.5, 0.5], 0)])
def test_the_first_of_the_fastest_is_kept(times, wanted):
    tried = [SbufSchedule(40 * 1024), SbufSchedule(56 * 1024)]
    told = []
    asked = CompileOptions("trn2", tell=told.append)
    price = dict(zip(tried, times, strict=True))
    first_s = 2.5 if wanted == 1 else 1.0
    assert fastest_schedule(first_s, tried, price.__getitem__, asked) == (
        FIRST_SCHEDULE if wanted is None else tried[wanted]
    )
    assert told == [
        "schedule 2 of 3: 40 KiB passing, 32 KiB ahead",
        "schedule 3 of 3: 56 KiB passing, 32 KiB ahead",
    ]


@pytest.mark.slow
def test_an_interrupted_search_goes_on_where_it_was_and_more_search_is_no_slower(monkeypatch):
    """Levels share what was tried: each after the first pays for what it tries besides."""
    graph, weights = wide()
    whole, calls = program_times.trace_without_values, []

    def counted(*args, **options):
        calls.append(options["schedule"])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(*args, **options)

    monkeypatch.setattr(program_times, "trace_without_values", counted)
    with pytest.raises(KeyboardInterrupt):
        compile_graph(graph, weights=weights, flags=Flags(optlevel=3))
    tried = calls[:3]
    found = compile_graph(graph, weights=weights, flags=Flags(optlevel=3))
    again = calls[4:]
    assert not set(tried) & set(again)
    assert {*tried, *again} >= {FIRST_SCHEDULE, *alternative_schedules(3, frozenset({ROOM}), 0)}
    monkeypatch.setattr(program_times, "trace_without_values", None)
    assert compile_graph(graph, weights=weights, flags=Flags(optlevel=3)) == found
    monkeypatch.setattr(program_times, "trace_without_values", whole)
    first_s, second_s = (
        compile_graph(graph, weights=weights, flags=Flags(optlevel=level)).device_time_s
        for level in (1, 2)
    )
    assert first_s >= second_s >= found.device_time_s
    assert found.device_time_s < first_s


@pytest.mark.slow
def test_the_layers_of_a_model_have_the_schedule_of_the_fewest(monkeypatch):
    graph, weights = stack(8, width=2048, rows=2048)
    whole, calls = program_times.trace_without_values, []

    def counted(*args, **options):
        calls.append(options["schedule"])
        return whole(*args, **options)

    monkeypatch.setattr(program_times, "trace_without_values", counted)
    compile_graph(graph, weights=weights)
    searched = 1 + len(alternative_schedules(2, frozenset({ROOM, RING}), 0))
    assert len(calls) <= searched + 2
    assert len(set(calls[searched:])) <= 1


@pytest.mark.parametrize("schedule", alternative_schedules(3, frozenset({ROOM}), 0)[::4])
def test_values_are_those_of_any_schedule(schedule):
    made = Made("bfloat16")
    x = made.given(64, 256)
    made.graph.outputs = [made.layer_norm(made.linear(made.linear(x, 512), 256))]
    step = prepare_graph(made.graph, made.weights)
    graph, weights = legalize_graph(step.step, step.weights)
    known = dict(zip((v.number for v in made.graph.inputs), made.arrays, strict=True))
    ahead = step.ahead.reference([known[v.number] for v in step.ahead.inputs])
    known |= dict(zip((v.number for v in step.ahead.outputs), ahead, strict=True))
    given = [known[v.number] for v in step.step.inputs]
    first, other = (
        trace(graph, given, "trn2", weights, numerics=True, schedule=one).run.outputs
        for one in (FIRST_SCHEDULE, schedule)
    )
    np.testing.assert_array_equal(first, other)
