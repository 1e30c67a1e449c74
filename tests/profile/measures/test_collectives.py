"""Hidden and exposed time by its definition, and who met whom."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from made_world import X, world

import trnsim
from trnsim.isa import Engine
from trnsim.profile.measures.collectives import meetings, subtract, timed_collectives, times_of
from trnsim.profile.measures.intervals import Intervals, union


def reduced(run):
    """The span of the all-reduce of a run's first core."""
    return next(s for s in run.timelines[0].spans() if s.opcode == "all_reduce")


def by_steps(timelines, step_s=1e-9):
    """Exposed seconds, counted in steps of a nanosecond."""
    spans = [span for timeline in timelines for span in timeline.spans()]
    quiet = (Engine.dma, Engine.collective, Engine.sync)
    times_s = np.arange(0, max(s.end_s for s in spans), step_s)
    works, exchanges = np.zeros(len(times_s), bool), np.zeros(len(times_s), bool)
    for span in spans:
        covers = (times_s >= span.start_s) & (times_s < span.busy_until_s)
        exchanges |= covers & (span.engine is Engine.collective)
        works |= covers & (span.engine not in quiet)
    return float((exchanges & ~works).sum() * step_s)


@pytest.mark.parametrize(
    ("given", "is_hidden"),
    [({}, False), ({"loads": 8}, False), ({"computes": 8}, True), ({"late": (1,)}, False)],
)
def test_only_compute_hides_a_collective(given, is_hidden):
    for run in world(**given).runs:
        times, span = times_of(run.timelines), reduced(run)
        assert times.total_s == pytest.approx(span.busy_until_s - span.start_s)
        assert times.exposed_s == pytest.approx(by_steps(run.timelines), abs=5e-9)
        assert (times.hidden_s > 1e-7) == is_hidden


def test_the_other_core_of_a_rank_hides_a_collective_too():
    @nki.jit
    def kernel(x):
        src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=src, src=x)
        nisa.core_barrier(src, (0, 1))
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
        if nl.program_id(0) == 1:
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            for _ in range(8):
                nisa.memset(dst=tile, value=1)
        return x

    run = trnsim.run(kernel[2], X, ranks=2).runs[0]
    alone, both = times_of(run.timelines[:1]), times_of(run.timelines)
    assert alone.hidden_s == 0
    assert both.hidden_s > 1e-7
    assert both.exposed_s == pytest.approx(by_steps(run.timelines), abs=5e-9)
    (first,), (second,) = timed_collectives(run.timelines)
    assert first.exposed_s == pytest.approx(second.exposed_s) == pytest.approx(both.exposed_s)


def test_each_collective_has_its_own_part():
    ran = world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,), computes=4)
    for rank, run in enumerate(ran.runs):
        ((one,),) = timed_collectives(run.timelines)
        times = times_of(run.timelines)
        assert (one.hidden_s, one.exposed_s) == pytest.approx((times.hidden_s, times.exposed_s))
        assert (one.waited_s > 1e-6) == (rank == 2)


def test_who_met_whom_the_last_to_come_first():
    ran = world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,))
    found = meetings([run.timelines for run in ran.runs])
    assert [[(one.rank, one.core) for one in members] for members in found] == [
        [(0, 0), (1, 0)],
        [(3, 0), (2, 0)],
    ]
    on_both = meetings([run.timelines for run in world(lnc=2).runs])
    assert sorted((one.rank, one.core) for one in on_both[0]) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def spans(*pairs):
    return union(*np.array(pairs, np.float64).reshape(-1, 2).T)


@pytest.mark.parametrize(
    ("intervals", "others", "left"),
    [
        ([(0, 4)], [], [(0, 4)]),
        ([], [(0, 4)], []),
        ([(0, 4)], [(0, 4)], []),
        ([(0, 4)], [(1, 2)], [(0, 1), (2, 4)]),
        ([(1, 2), (3, 4)], [(0, 1), (1.5, 3.5)], [(1, 1.5), (3.5, 4)]),
        ([(1, 2)], [(5, 6)], [(1, 2)]),
    ],
)
def test_what_is_left_of_intervals_without_others(intervals, others, left):
    found = subtract(spans(*intervals), spans(*others))
    assert isinstance(found, Intervals)
    assert list(zip(*(side.tolist() for side in found), strict=True)) == left
