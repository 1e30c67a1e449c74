"""Groups of four cores that meet: values and times against a few lines of event simulation.

A logical core of four does not exist: it is one here, so that groups may be parts of a launch.
"""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.arch import NEURONCORE_V3
from trnsim.errors import DataRace, Deadlock, IllegalInstruction
from trnsim.facts import count
from trnsim.hazards import RaceDetector
from trnsim.program import Team, current_core
from trnsim.timing import choose_order, policy_of, replay

CORES = 4
CORE = replace(NEURONCORE_V3, logical_core_max=count(CORES, "made up for this test"))
MEETINGS = ("core_barrier", "sendrecv")
SHAPE = (4, 8)


def launched(body, cores=CORES, core=CORE, *, has_values=True):
    """`body(rank)` on each core of a launch: its results, and the cores' programs."""
    team = Team(core, cores, has_values=has_values, watcher=RaceDetector(cores))
    results = team.run(lambda: body(current_core().peer.rank))
    return results, [context.program for context in team.contexts]


def scheduled(programs, policy="issued"):
    return replay(programs, CORE, choose_order(programs, CORE, policy_of(policy)))


def shared():
    return nl.ndarray(SHAPE, dtype=nl.float32, buffer=nl.shared_hbm)


def tile():
    return nl.ndarray(SHAPE, dtype=nl.float32, buffer=nl.sbuf)


def exchange(src, dst, to_rank, from_rank):
    nisa.sendrecv(src, dst, to_rank, from_rank, 0, nisa.dma_engine.gpsimd_dma)


@st.composite
def events(draw):
    """Meetings in an order of the whole launch: what, of whom, after how much work of each."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(MEETINGS))
        least = 2 if kind == "core_barrier" else 1
        group = draw(st.lists(st.integers(0, CORES - 1), min_size=least, unique=True))
        work = draw(st.lists(st.integers(0, 5), min_size=len(group), max_size=len(group)))
        found.append((kind, group, dict(zip(group, work, strict=True))))
    return found


def body_of(events):
    """The program of each core: in each event that it is part of, work, a value, the meeting."""

    def body(rank):
        data, received = shared(), []
        for number, (kind, group, work) in enumerate(events):
            if rank not in group:
                continue
            mine, scratch = tile(), tile()
            for _ in range(work[rank]):
                nisa.memset(scratch, 0.0, engine=nisa.engine.gpsimd)
            nisa.memset(mine, float(100 * number + rank), engine=nisa.engine.gpsimd)
            if kind == "core_barrier":
                nisa.core_barrier(data, tuple(sorted(group)))
            else:
                place, dst = group.index(rank), tile()
                exchange(mine, dst, group[(place + 1) % len(group)], group[place - 1])
                received.append(dst)
        return [
            float(dst.array[0, 0]) if dst.storage.data is not None else None for dst in received
        ]

    return body


def simulated(events, work, meeting):
    """When each core's meetings start and what it receives: clocks, one event after another."""
    clock, starts, received = [0.0] * CORES, [[] for _ in range(CORES)], [[] for _ in range(CORES)]
    for number, (kind, group, amount) in enumerate(events):
        for core in group:
            clock[core] += (amount[core] + 1) * work.interval_s
        waits_for_value_s = work.latency_s if kind == "sendrecv" else 0.0
        start_s = max(clock[core] for core in group) + waits_for_value_s
        for place, core in enumerate(group):
            starts[core].append(start_s)
            clock[core] = start_s + meeting[kind].interval_s
            if kind == "sendrecv":
                received[core].append(100.0 * number + group[place - 1])
    return starts, received


def meetings(program):
    """Where in a program its meetings are."""
    return [i for i in range(len(program)) if program.instruction(i).opcode in MEETINGS]


@pytest.fixture(scope="module")
def costs():
    """What an instruction of work and each meeting cost, from a launch of their own."""
    programs = launched(body_of([(kind, [0, 1], {0: 1, 1: 1}) for kind in MEETINGS]))[1]
    cost = {checked.opcode: checked.cost for checked in programs[0].checked}
    return cost.pop("memset"), cost


@pytest.mark.slow
@settings(max_examples=60)
@given(events=events())
def test_each_group_waits_for_its_own_cores_alone(costs, events):
    results, programs = launched(body_of(events))
    starts, received = simulated(events, *costs)
    assert results == received
    for program, schedule, expected in zip(programs, scheduled(programs), starts, strict=True):
        found = [schedule.start_s[index] for index in meetings(program)]
        assert found == pytest.approx(expected, rel=1e-9)


@settings(max_examples=15)
@given(events=events())
def test_without_values_the_groups_meet_at_the_same_times(events):
    results, programs = launched(body_of(events))
    without, bare = launched(body_of(events), has_values=False)
    assert [len(result) for result in without] == [len(result) for result in results]
    for with_values, shapes in zip(scheduled(programs), scheduled(bare), strict=True):
        assert with_values.start_s == shapes.start_s


@pytest.mark.parametrize("first", [(0, 1), (2, 3)])
@pytest.mark.parametrize("counts", [(1, 1), (1, 4), (3, 2)])
def test_two_pairs_interleave_in_both_orders(costs, first, counts):
    """One pair works long before its meetings, the other not at all, in different numbers."""
    pairs = {(0, 1): counts[0], (2, 3): counts[1]}
    order = sorted(pairs, key=lambda pair: pair != first)
    events = [
        ("core_barrier", list(pair), {pair[0]: 5 * (pair == first), pair[1]: 0})
        for pair in order
        for _ in range(pairs[pair])
    ]
    _, programs = launched(body_of(events))
    starts, _ = simulated(events, *costs)
    schedules = scheduled(programs)
    for core in range(CORES):
        found = [schedules[core].start_s[index] for index in meetings(programs[core])]
        assert found == pytest.approx(starts[core])
    slow, fast = (0, 2) if first == (0, 1) else (2, 0)
    assert starts[slow][0] > starts[fast][0]


def test_a_core_that_exchanges_with_itself_waits_for_nobody(costs):
    """Core 0 alone exchanges, while core 1 works long before a barrier of both."""
    events = [("sendrecv", [0], {0: 0}), ("core_barrier", [0, 1], {0: 0, 1: 5})]
    (received, _), programs = launched(body_of(events), 2, NEURONCORE_V3.paired())
    assert received == [0.0]
    starts, _ = simulated(events, *costs)
    schedule = scheduled(programs)[0]
    assert [schedule.start_s[i] for i in meetings(programs[0])] == pytest.approx(starts[0])


# What is wrong


def test_a_missing_member_is_a_deadlock_of_its_group_alone():
    def body(rank):
        data = shared()
        if rank in (0, 2):
            nisa.core_barrier(data, (0, 1, 2))
        for _ in range(3):
            nisa.core_barrier(data, (1, 3)) if rank in (1, 3) else None

    with pytest.raises(Deadlock) as caught:
        launched(body)
    reason = caught.value.reason
    for core in (0, 2):
        where = f"core {core} waits for core 1 in core_barrier(cores=(0, 1, 2)) at {__file__}:"
        assert where in reason
    assert reason.endswith("core 1 has ended; core 3 has ended")
    assert caught.value.line.file == __file__


def test_an_exchange_without_its_other_side_names_the_pipe():
    def body(rank):
        src, dst = tile(), tile()
        nisa.memset(src, 0.0)
        exchange(src, dst, 1, 1) if rank == 0 else None

    with pytest.raises(Deadlock, match=r"core 0 waits for core 1 in sendrecv\(pipe_id=0\) at "):
        launched(body, 2)


@pytest.mark.parametrize("rank", [2, 3])
def test_a_barrier_is_for_the_cores_that_it_names(rank):
    def body(here):
        nisa.core_barrier(shared(), (0, 1)) if here in (0, 1, rank) else None

    with pytest.raises(IllegalInstruction, match=rf"cores=\(0, 1\) on core {rank}; legal: groups"):
        launched(body)


@pytest.mark.parametrize("beyond", [2, 3])
@pytest.mark.parametrize("make", ["core_barrier", "sendrecv"])
def test_a_group_is_of_cores_of_the_launch(make, beyond):
    def body(rank):
        src, dst = tile(), tile()
        nisa.memset(src, 0.0)
        if make == "core_barrier":
            nisa.core_barrier(shared(), (0, 1, beyond))
        else:
            exchange(src, dst, beyond, 1 - rank)

    message = f"core {beyond} in a kernel launched on 2 cores; legal: 0 to 1"
    with pytest.raises(IllegalInstruction, match=message):
        launched(body, 2)


@pytest.mark.parametrize("cores", [(0,), (1, 0), (0, 4), (0, 0, 1), ()])
def test_a_part_of_a_logical_core_is_two_or_more_of_it_in_order(cores):
    legal = r"legal: two or more, in ascending order, of \(0, 1, 2, 3\)"
    with pytest.raises(IllegalInstruction, match=legal):
        launched(lambda _: nisa.core_barrier(shared(), cores))


# Races


def handed_on(*groups, writer, reader, rows):
    """One core writes a tensor, groups meet at rows of it in turn, another core reads the rest."""

    def body(rank):
        box, local = shared(), tile()
        nisa.memset(local, 1.0)
        nisa.dma_copy(dst=box[1:4], src=local[1:4]) if rank == writer else None
        for group in groups:
            nisa.core_barrier(box[0:rows], group) if rank in group else None
        nisa.dma_copy(dst=local[1:4], src=box[1:4]) if rank == reader else None

    return body


@pytest.mark.parametrize(
    ("groups", "writer", "reader"),
    [
        ([(0, 1)], 0, 1),
        ([(0, 1), (1, 2)], 0, 2),
        ([(2, 3), (1, 2), (0, 1)], 3, 0),
        ([(0, 1), (2, 3), (0, 3)], 1, 3),
        ([(0, 1, 2, 3)], 2, 3),
    ],
)
@pytest.mark.parametrize("rows", [1, 4])
def test_a_chain_of_groups_orders_what_its_ends_do(groups, writer, reader, rows):
    """A barrier is of a tensor, also where it names some rows of it."""
    launched(handed_on(*groups, writer=writer, reader=reader, rows=rows))


@pytest.mark.parametrize(
    ("groups", "writer", "reader"),
    [
        ([(0, 1), (2, 3)], 0, 2),
        ([(2, 3), (0, 1)], 3, 1),
        ([(1, 2), (0, 1)], 0, 2),
        ([(0, 1, 2)], 0, 3),
        # Core 2 met core 3 before core 3 met core 0: it has not heard of core 1.
        ([(0, 1), (2, 3), (0, 3)], 1, 2),
    ],
)
@pytest.mark.parametrize("rows", [1, 4])
def test_a_meeting_of_others_orders_nothing(groups, writer, reader, rows):
    with pytest.raises(DataRace, match="nothing orders the two") as caught:
        launched(handed_on(*groups, writer=writer, reader=reader, rows=rows))
    pair = tuple(sorted((writer, reader)))
    assert f"nisa.core_barrier(data, {pair})" in caught.value.fix


@pytest.mark.parametrize("is_told", [True, False])
def test_exchanges_of_two_pairs_on_one_pipe_order_each_pair(is_told):
    """Core 0 writes, reads back and tells core 1; to core 2 it says nothing, on the same pipe."""

    def body(rank):
        box, mine, theirs = shared(), tile(), tile()
        nisa.memset(mine, 1.0)
        if rank == 0:
            nisa.dma_copy(dst=box, src=mine)
            nisa.dma_copy(dst=mine, src=box)
        exchange(mine, theirs, rank ^ 1, rank ^ 1)
        if rank == (1 if is_told else 2):
            nisa.dma_copy(dst=theirs, src=box)

    if is_told:
        launched(body)
    else:
        with pytest.raises(DataRace):
            launched(body)


def test_an_exchange_after_a_barrier_says_nothing_of_the_barriers_tensor():
    def body(rank):
        box, local, other = shared(), tile(), tile()
        nisa.memset(local, 1.0)
        nisa.core_barrier(box, (0, 1))
        nisa.dma_copy(dst=box, src=local) if rank == 0 else None
        exchange(local, other, 1 - rank, 1 - rank)
        nisa.dma_copy(dst=local, src=box) if rank == 1 else None

    with pytest.raises(DataRace):
        launched(body, 2)


def test_who_waits_at_a_barrier_is_not_heard_of_before_the_other_comes():
    def body(rank):
        box, local = shared(), tile()
        nisa.memset(local, 1.0)
        if rank == 0:
            nisa.dma_copy(dst=box, src=local)
            nisa.core_barrier(box, (0, 1))
        else:
            for _ in range(9):
                nisa.memset(local, 2.0)
            nisa.dma_copy(dst=local, src=box)
            nisa.core_barrier(box, (0, 1))

    with pytest.raises(DataRace, match=r"one core reads .* while the other writes"):
        launched(body, 2)


def test_what_was_read_stays_the_value_of_its_turn():
    """Three exchanges of a pair: a slow partner gets the values in order, not the last one."""

    def body(rank):
        found = []
        for turn in range(3):
            src, dst = tile(), tile()
            for _ in range(4 * rank):
                nisa.memset(src, 9.0)
            nisa.memset(src, float(10 * rank + turn))
            exchange(src, dst, 1 - rank, 1 - rank)
            found.append(dst.array[0, 0])
        return found

    results, _ = launched(body, 2)
    np.testing.assert_array_equal(results, [[10, 11, 12], [0, 1, 2]])
