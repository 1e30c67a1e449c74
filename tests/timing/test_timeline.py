"""Timelines: spans, the critical path, what engines did, and the interval of the estimate."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import Work, program_of

from trnsim.arch.draws import sample_core
from trnsim.dtypes import BFLOAT16
from trnsim.facts import Evidence
from trnsim.isa import DmaCopy, Engine, Memset, NcMatmul, TensorCopy
from trnsim.memory import Memory
from trnsim.timing import EnginePlacement, replay, timelines

HBM, PSUM = Memory.HBM, Memory.PSUM


def matmul_kernel(work, tiles=3, N=256):
    """Load, multiply, evict and store, `tiles` times."""
    stationary = work.empty((128, 128), BFLOAT16)
    work.issue(DmaCopy(stationary, work.tile(np.ones((128, 128)), BFLOAT16, HBM)))
    for _ in range(tiles):
        moving, dst = work.empty((128, N), BFLOAT16), work.empty((128, N), memory=PSUM)
        work.issue(DmaCopy(moving, work.tile(np.ones((128, N)), BFLOAT16, HBM)))
        work.issue(NcMatmul(dst, stationary, moving))
        result = work.issue(TensorCopy(work.empty((128, N), BFLOAT16), dst))
        work.issue(DmaCopy(work.empty((128, N), BFLOAT16, HBM), result))
    return work.timeline


def test_an_empty_program_takes_the_launch(bench, core_v3):
    timeline = bench().timeline
    assert len(timeline) == 0
    assert timeline.device_time_s == 0
    assert timeline.total_time_s == timeline.launch_s == core_v3.launch_s
    assert timeline.critical_path() == []
    assert timeline.busy_s() == {}
    assert list(timeline.spans()) == []


def test_the_time_without_values_is_the_time_with_them(bench, core):
    with_values = matmul_kernel(bench(core))
    without = matmul_kernel(bench(core, has_values=False))
    times = [
        [
            (span.start_s, span.busy_until_s, span.end_s, span.waited_for)
            for span in timeline.spans()
        ]
        for timeline in (with_values, without)
    ]
    assert times[0] == times[1]
    assert with_values.total_time_s == without.total_time_s


def test_the_first_core_at_a_meeting_waits_for_the_last(core_v3):
    meeting = (Work(Engine.gpsimd, 1, 0, group=(0, 1)), {0}, ())
    early, late = (
        program_of(core_v3, [(Work(Engine.gpsimd, units, 0), (), ()), meeting]) for units in (3, 30)
    )
    first, last = timelines([early, late])
    wait_s = last.span(0).end_s - first.span(0).end_s
    assert [first.meeting_wait_s(index) for index in (0, 1)] == pytest.approx([0, wait_s])
    assert [last.meeting_wait_s(index) for index in (0, 1)] == [0, 0]


def test_the_same_program_takes_the_same_time(bench):
    one, two = (matmul_kernel(bench(has_values=False)) for _ in range(2))
    assert one.total_time_s == two.total_time_s
    assert one.interval() == two.interval()


@given(st.integers(1, 5), st.sampled_from([1, 64, 128, 500]))
def test_more_tiles_and_longer_tiles_take_longer(bench, tiles, N):
    def time_s(t, n):
        return matmul_kernel(bench(has_values=False), t, n).device_time_s

    assert 0 < time_s(tiles, N) < time_s(tiles + 1, N)
    assert time_s(tiles, N) <= time_s(tiles, N + 12)


def test_a_span_says_what_ran_where_and_for_whom(bench):
    work = bench()
    timeline = matmul_kernel(work, tiles=1)
    span = timeline.span(2)
    assert (span.index, span.opcode, span.engine) == (2, "nc_matmul", Engine.tensor)
    assert span.line.file == work.program.line(2).file
    assert "stationary=SBUF [128, 128] bfloat16" in span.operands
    assert span.waited_for == 1
    assert timeline.span(0).waited_for is None


def test_an_engine_never_overlaps_itself_and_starts_after_its_cause(bench):
    spans = list(matmul_kernel(bench(has_values=False), tiles=5).spans())
    busy = {}
    for span in spans:
        assert 0 <= span.start_s < span.busy_until_s <= span.end_s
        busy.setdefault(span.engine, []).append((span.start_s, span.busy_until_s))
        if span.waited_for is None:
            assert span.start_s == 0
            continue
        cause = spans[span.waited_for]
        assert span.start_s >= min(cause.end_s, cause.busy_until_s)
    for engine, intervals in busy.items():
        if engine is Engine.dma:  # its queues do not wait for each other
            intervals.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(intervals))


def test_the_critical_path_ends_last_and_each_step_waited_for_the_one_before(bench):
    timeline = matmul_kernel(bench(has_values=False), tiles=4)
    path = timeline.critical_path()
    assert timeline.span(path[0]).waited_for is None
    assert timeline.span(path[-1]).end_s == timeline.device_time_s
    for earlier, later in pairwise(path):
        assert timeline.span(later).waited_for == earlier


def test_engines_are_busy_for_their_intervals_and_never_longer_than_the_program(bench):
    timeline = matmul_kernel(bench(has_values=False), tiles=4)
    busy = timeline.busy_s()
    assert set(busy) == {Engine.dma, Engine.tensor, Engine.vector}
    assert all(0 < seconds <= timeline.device_time_s for seconds in busy.values())
    costs = [timeline.program.instruction(i) for i in range(len(timeline))]
    for engine, seconds in busy.items():
        total = sum(c.cost.interval_s for c in costs if c.engine is engine)
        limit = 2 if engine is Engine.tensor else 1  # which starts at half of its rate
        assert total * (1 - 1e-9) <= seconds <= limit * total * (1 + 1e-9)


def test_the_interval_surrounds_the_estimate(bench, core):
    timeline = matmul_kernel(bench(core, has_values=False))
    interval = timeline.interval()
    assert 0 < interval.p10 < interval.p50 < interval.p90
    assert interval.p50 == timeline.total_time_s


def test_several_sets_of_constants_give_the_times_of_replays(bench, core_v3):
    timeline = matmul_kernel(bench())
    draws = [core_v3, sample_core(core_v3, 1), sample_core(core_v3, 2)]
    times_s = timeline.device_times_on_s(draws).tolist()
    assert times_s[0] == timeline.device_time_s
    each = [replay([timeline.program], core, timeline.order)[0].device_time_s for core in draws]
    assert times_s == each


def test_what_is_changed_is_timed_in_the_kept_order_and_anew(bench):
    timeline = matmul_kernel(bench(), tiles=6)
    program = timeline.program
    own = [EnginePlacement(checked.engine, checked.cost) for checked in program.checked]
    for time_s in (timeline.same_order_time_s, timeline.new_order_time_s):
        assert time_s(lambda index: own[program.which[index]]) == timeline.device_time_s
    assert timeline.undisturbed_new_order_s == timeline.undisturbed_s == timeline.device_time_s
    assert 0 < timeline.overlapped_halves_s() <= timeline.device_time_s


def test_the_facts_of_an_estimate_are_those_of_its_core(bench, core):
    work = bench(core)
    work.issue(Memset(work.empty((4, 4)), 0))
    facts = work.timeline.facts()
    assert set(facts) == set(Evidence)
    assert sum(map(len, facts.values())) == len(core.facts())
    for kind, named in facts.items():
        assert all(fact.provenance.kind is kind for _, fact in named)


def test_programs_that_take_the_same_time_have_one_key_and_one_schedule(bench):
    one, two, longer = (matmul_kernel(bench(has_values=False), tiles) for tiles in (3, 3, 4))
    assert one.program.timing_key() == two.program.timing_key() != longer.program.timing_key()
    assert one.for_program(one.program) is one
    twin = one.for_program(two.program)
    assert twin.program is two.program
    assert list(twin.spans()) == list(two.spans())
    assert twin.interval() == two.interval()
