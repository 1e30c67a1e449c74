"""Scheduling: in-order engines, semaphores between them, and nothing before its cause."""

from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim import facts
from trnsim.isa import Activation, Cost, Engine, Memset, TensorCopy
from trnsim.memory import Memory
from trnsim.timing import Scheduler, replay
from trnsim.timing.compiler_policy import DEFAULT, Policy
from trnsim.timing.schedule import SharedBandwidth

V, S, G, T, DMA = Engine.vector, Engine.scalar, Engine.gpsimd, Engine.tensor, Engine.dma
SEMAPHORE_S = 60e-9


COMPUTE = (V, S, G, T)


@st.composite
def streams(draw, engines=(*COMPUTE, DMA)):
    """Instructions as (engine, cost, predecessors)."""
    stream = []
    for index in range(draw(st.integers(1, 14))):
        earlier = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        cost = Cost(draw(st.floats(1e-9, 1e-6)), draw(st.floats(0, 1e-6)))
        stream.append((draw(st.sampled_from(engines)), cost, sorted(earlier)))
    return stream


def schedule(core, stream, policy=DEFAULT):
    scheduler = Scheduler(core, policy)
    for index, (engine, cost, predecessors) in enumerate(stream):
        scheduler.place(index, engine, cost, predecessors)
    return scheduler


def test_an_instruction_occupies_its_engine_and_is_read_a_latency_later(core_v3):
    placed = schedule(core_v3, [(V, Cost(2e-9, 3e-9), []), (V, Cost(5e-9, 1e-9), [])])
    assert list(placed.start_s) == pytest.approx([0, 2e-9])
    assert list(placed.busy_until_s) == pytest.approx([2e-9, 7e-9])
    assert list(placed.end_s) == pytest.approx([5e-9, 8e-9])
    assert list(placed.waited_for) == [-1, 0]


def test_another_engine_costs_a_semaphore(core_v3):
    one = Cost(1e-6, 1e-6)
    placed = schedule(core_v3, [(V, one, []), (S, one, [0]), (V, one, [0])])
    assert core_v3.engine_semaphore_s == SEMAPHORE_S
    assert list(placed.start_s) == pytest.approx([0, 2e-6 + SEMAPHORE_S, 2e-6])
    assert list(placed.waited_for) == [-1, 0, 0]


@pytest.mark.parametrize(("generation", "waits"), [(2, True), (3, False)])
def test_engines_that_share_a_port_take_turns_before_v3(bench, generation, waits, core_v2, core_v3):
    work = bench({2: core_v2, 3: core_v3}[generation], has_values=False)
    for engine in (V, G):
        work.issue(Memset(work.empty((128, 512)), 0.0, engine))
    psum = work.empty((128, 512), memory=Memory.PSUM)
    for engine in (V, S):
        copy = work.empty((128, 512))
        if engine is V:
            work.issue(TensorCopy(copy, psum, V))
        else:
            work.issue(Activation(copy, "copy", psum))
    spans = list(work.timeline.spans())
    for first, second in (spans[:2], spans[2:]):
        assert (second.start_s >= first.busy_until_s) is waits
        assert (second.waited_for == first.index) is waits


def test_the_last_of_several_causes_is_the_one_waited_for(core_v3):
    stream = [(V, Cost(1e-6, 0), []), (S, Cost(9e-6, 0), []), (G, Cost(2e-6, 0), [])]
    placed = schedule(core_v3, [*stream, (T, Cost(1e-6, 0), [0, 1, 2])])
    assert placed.waited_for[3] == 1


@given(streams())
def test_nothing_starts_before_its_causes_or_on_a_busy_engine(core_v3, stream):
    placed = schedule(core_v3, stream)
    busy = {}
    for index, (engine, cost, predecessors) in enumerate(stream):
        start = placed.start_s[index]
        for earlier in predecessors:
            semaphore = 0 if stream[earlier][0] is engine else SEMAPHORE_S
            assert start >= placed.end_s[earlier] + semaphore
        took = placed.busy_until_s[index] - start
        slowest = 2 if engine is T else 1  # the Tensor Engine after a pause
        assert cost.interval_s * (1 - 1e-9) <= took <= slowest * cost.interval_s * (1 + 1e-9)
        assert placed.end_s[index] == placed.busy_until_s[index] + cost.latency_s
        busy.setdefault(engine, []).append((start, placed.busy_until_s[index]))
    for engine, intervals in busy.items():
        # Compute engines keep their order; the DMA queues take turns in any.
        ordered = sorted(intervals) if engine is DMA else intervals
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


def test_a_transfer_that_is_ready_does_not_wait_for_one_that_is_not(core_v3):
    one = Cost(1e-6, 0)
    stream = [(V, Cost(5e-6, 0), []), (DMA, one, [0]), (DMA, one, []), (DMA, one, [])]
    placed = schedule(core_v3, stream)
    assert list(placed.start_s) == pytest.approx([0, 5e-6 + SEMAPHORE_S, 0, 1e-6])
    assert list(placed.waited_for) == [-1, 0, -1, 2]


def test_a_transfer_that_fits_no_gap_goes_behind_what_closes_it(core_v3):
    stream = [
        (V, Cost(5e-6, 0), []),
        (DMA, Cost(1e-6, 0), [0]),
        (DMA, Cost(3e-6, 0), []),
        (DMA, Cost(3e-6, 0), []),
    ]
    placed = schedule(core_v3, stream)
    assert list(placed.start_s[2:]) == pytest.approx([0, 6e-6 + SEMAPHORE_S])
    assert placed.waited_for[3] == 1


@pytest.mark.parametrize(
    ("queues", "starts_us", "causes"),
    [(1, [0, 1, 2, 3], [-1, 0, 1, 2]), (2, [0, 0.1, 1, 1.1], [-1, 0, 0, 2])],
)
def test_a_queue_issues_one_transfer_at_a_time(core_v3, queues, starts_us, causes):
    core = replace(core_v3, dma_queues=facts.count(queues, "of the test"))
    transfer = Cost(0.1e-6, 5e-6, issue_s=1e-6)
    placed = schedule(core, [(DMA, transfer, [])] * 4)
    assert list(placed.start_s) == pytest.approx([us * 1e-6 for us in starts_us])
    assert list(placed.waited_for) == causes


def test_long_transfers_are_bound_by_the_engines_however_many_queues(core_v3):
    core = replace(core_v3, dma_queues=facts.count(16, "of the test"))
    placed = schedule(core, [(DMA, Cost(3e-6, 0, issue_s=1e-6), [])] * 3)
    assert list(placed.start_s) == pytest.approx([0, 3e-6, 6e-6])


def test_a_transfer_that_is_ready_is_issued_before_one_that_is_not(core_v3):
    transfer = Cost(0.1e-6, 0, issue_s=1e-6)
    placed = schedule(core_v3, [(V, Cost(5e-6, 0), []), (DMA, transfer, [0]), (DMA, transfer, [])])
    assert list(placed.start_s[1:]) == pytest.approx([5e-6 + SEMAPHORE_S, 0])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5)), max_size=40))
def test_each_transfer_takes_the_first_gap_that_is_long_enough(transfers):
    shared, busy = SharedBandwidth(), set()
    for user, (ready, length) in enumerate(transfers):
        expected = next(at for at in count(ready) if busy.isdisjoint(range(at, at + length)))
        start, waited_for = shared.reserve(ready, length, user)
        assert start == expected
        assert (waited_for == -1) == (start == ready)
        busy.update(range(expected, expected + length))


@given(streams())
def test_every_start_is_explained_by_what_it_waited_for(core_v3, stream):
    placed = schedule(core_v3, stream)
    for index, (engine, _, predecessors) in enumerate(stream):
        cause = placed.waited_for[index]
        if cause == -1:
            assert placed.start_s[index] == 0
            continue
        same = stream[cause][0] is engine
        moments = [placed.busy_until_s[cause]] if same else []
        if cause in predecessors:
            moments.append(placed.end_s[cause] + (0 if same else SEMAPHORE_S))
        assert placed.start_s[index] in moments


@given(streams(), streams())
def test_more_work_behind_a_program_never_ends_it_sooner(core_v2, core_v3, core_v4, stream, more):
    later = [(e, c, [len(stream) + p for p in predecessors]) for e, c, predecessors in more]
    for core in (core_v2, core_v3, core_v4):
        before, after = schedule(core, stream), schedule(core, [*stream, *later])
        assert after.end_s[: len(stream)] == before.end_s
        assert max(after.end_s) >= max(before.end_s)


# With one DMA queue: where transfers overtake, delaying one may let another go first. On v2, or
# without the Tensor Engine: from v3 on more work may keep it from slowing down, as is documented.
@given(streams(), streams((V, S, G, DMA)), st.data())
def test_longer_work_never_ends_sooner(core_v2, core_v3, core_v4, any_engine, lanes, data):
    in_order = Policy(transfers_overtake=False)
    for core, stream in ((core_v2, any_engine), (core_v3, lanes), (core_v4, lanes)):
        slow = data.draw(st.integers(0, len(stream) - 1))
        engine, cost, predecessors = stream[slow]
        longer = (engine, Cost(cost.interval_s * 2, cost.latency_s * 1.5), predecessors)
        changed = [*stream[:slow], longer, *stream[slow + 1 :]]
        before, after = schedule(core, stream, in_order), schedule(core, changed, in_order)
        assert all(b >= a for a, b in zip(before.start_s, after.start_s, strict=True))
        assert max(after.end_s) >= max(before.end_s)


# As above, in-order engines on v2.
@given(streams(COMPUTE), st.data())
def test_a_further_cause_never_makes_an_instruction_earlier(core_v2, stream, data):
    at = data.draw(st.integers(0, len(stream) - 1))
    if at == 0:
        return
    engine, cost, predecessors = stream[at]
    cause = data.draw(st.integers(0, at - 1))
    changed = [*stream]
    changed[at] = (engine, cost, sorted({*predecessors, cause}))
    before, after = schedule(core_v2, stream), schedule(core_v2, changed)
    assert all(b >= a for a, b in zip(before.start_s, after.start_s, strict=True))


@given(streams(), streams())
def test_independent_engines_do_not_see_each_others_place_in_the_stream(core_v3, one, two):
    left = [(V if e in (V, G, DMA) else T, c, p) for e, c, p in one]
    right = [(S if e in (V, G) else DMA, c, p) for e, c, p in two]
    shifted = [(e, c, [p + len(left) for p in ps]) for e, c, ps in right]
    moved = [(e, c, [p + len(right) for p in ps]) for e, c, ps in left]
    first = schedule(core_v3, [*left, *shifted])
    second = schedule(core_v3, [*right, *moved])
    assert list(first.start_s[: len(left)]) == list(second.start_s[len(right) :])
    assert list(first.end_s[len(left) :]) == list(second.end_s[: len(right)])


@given(streams())
def test_the_same_stream_gives_the_same_schedule(core_v3, stream):
    one, two = schedule(core_v3, stream), schedule(core_v3, stream)
    assert (one.start_s, one.end_s, one.waited_for) == (two.start_s, two.end_s, two.waited_for)


def chain(work, length=6):
    tile = work.empty((32, 64))
    work.issue(Memset(tile, 1.0))
    for index in range(length):
        engine = (Engine.vector, Engine.gpsimd, Engine.scalar)[index % 3]
        tile = work.issue(TensorCopy(work.empty((32, 64)), tile, engine))
    return work


def test_replaying_a_program_gives_the_schedule_that_was_made_at_issue(bench, core_v3):
    work = chain(bench())
    again = replay(work.program, core_v3)
    assert again.start_s == work.scheduler.start_s
    assert again.end_s == work.scheduler.end_s
    assert again.waited_for == work.scheduler.waited_for


def test_a_program_can_be_replayed_with_the_constants_of_another_core(bench, core_v3, core_v4):
    work = chain(bench(core_v3))
    assert max(replay(work.program, core_v4).end_s) < max(work.scheduler.end_s)
    assert replay(work.program, core_v4).start_s == chain(bench(core_v4)).scheduler.start_s
