"""Greenlets in turn: order, barriers, exchanges, deadlocks, failures."""

from contextvars import ContextVar
from functools import partial

import numpy as np
import pytest

from trnsim.errors import Deadlock
from trnsim.isa.language.meeting import Meeting, meeting_of
from trnsim.program.lockstep import Lockstep, Meetings, Mirror

_SETTING = ContextVar("setting", default="of nobody")


def test_cores_take_turns_by_rank():
    lockstep, seen = Lockstep(3), []

    def body(core):
        def run():
            for step in range(2):
                seen.append((step, core))
                lockstep.hand_over()
            return core * 10

        return run

    assert lockstep.run([body(core) for core in range(3)]) == [0, 10, 20]
    assert seen == [(step, core) for step in range(2) for core in range(3)]


def test_a_core_that_ends_early_leaves_the_others_running():
    lockstep, seen = Lockstep(2), []

    def long():
        for step in range(4):
            seen.append(step)
            lockstep.hand_over()
        return "long"

    assert lockstep.run([long, lambda: "short"]) == ["long", "short"]
    assert seen == [0, 1, 2, 3]


def test_handing_over_outside_a_run_does_nothing():
    lockstep = Lockstep(2)
    lockstep.hand_over()
    assert lockstep.run([lambda: 1, lambda: 2]) == [1, 2]


def test_settings_of_the_caller_hold_on_every_core():
    token = _SETTING.set("of the caller")
    try:
        assert Lockstep(2).run([_SETTING.get, _SETTING.get]) == ["of the caller"] * 2
    finally:
        _SETTING.reset(token)


def test_what_a_core_sets_stays_its_own():
    lockstep = Lockstep(2)

    def body(name):
        def run():
            _SETTING.set(name)
            lockstep.hand_over()
            return _SETTING.get()

        return run

    assert lockstep.run([body("first"), body("second")]) == ["first", "second"]
    assert _SETTING.get() == "of nobody"


def quiet(_, __):
    """Hears of meetings, and does nothing."""


def barrier(link, *cores):
    """A barrier of some cores."""
    link.meet(meeting_of(cores, link.core, f"barrier{cores}"))


def exchange(link, pipe, to_rank, from_rank, bits):
    """What `from_rank` sends on a pipe."""
    return link.meet(Meeting(f"pipe {pipe}", from_rank, to_rank), np.asarray(bits)).tolist()


def run(cores, program, met=quiet):
    """`program(link)` on each core; the results by rank."""
    lockstep = Lockstep(cores)
    meetings = Meetings(lockstep, met)
    return lockstep.run([partial(program, meetings.link(core)) for core in range(cores)])


@pytest.mark.parametrize("early", [0, 1])
def test_nobody_passes_a_barrier_before_all_are_there(early):
    lockstep, seen, met = Lockstep(2), [], []
    meetings = Meetings(lockstep, lambda group, _: met.append(sorted(group)))

    def body(core):
        def run():
            for _ in range(0 if core == early else 5):
                lockstep.hand_over()
            seen.append(("arrives", core))
            barrier(meetings.link(core), 0, 1)
            seen.append(("passes", core))

        return run

    lockstep.run([body(0), body(1)])
    assert seen[:2] == [("arrives", early), ("arrives", 1 - early)]
    assert sorted(seen[2:]) == [("passes", 0), ("passes", 1)]
    assert met == [[0, 1]]


def test_barriers_at_one_line_are_no_deadlock_while_they_advance():
    def program(link):
        for _ in range(10):
            barrier(link, 0, 1)
        return link.core

    assert run(2, program) == [0, 1]


def test_an_exchange_swaps_in_the_order_of_sending():
    def program(link):
        other = 1 - link.core
        return [exchange(link, 0, other, other, [link.core, turn]) for turn in range(3)]

    assert run(2, program) == [[[1 - core, turn] for turn in range(3)] for core in (0, 1)]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_ring_passes_on_to_each_its_neighbours_bits(step):
    """The step of 4 is an exchange of each core with itself, that of 2 two pairs on one pipe."""

    def program(link):
        return exchange(link, 0, (link.core + step) % 4, (link.core - step) % 4, link.core)

    assert run(4, program) == [(core - step) % 4 for core in range(4)]


def test_a_core_that_exchanges_with_one_and_then_another_gets_what_each_sent():
    """The second exchange on the pipe is core 1's second and core 2's first."""

    def program(link):
        others = {0: [1], 1: [0, 2], 2: [1]}[link.core]
        return [exchange(link, 0, other, other, 10 * link.core + other) for other in others]

    assert run(3, program) == [[10], [1, 21], [12]]


@pytest.mark.parametrize("late", [0, 1])
def test_groups_advance_at_their_own_pace(late):
    """Two pairs, of which one has come together five times before the other has once."""
    passed, lockstep = [], Lockstep(4)
    meetings = Meetings(lockstep, quiet)

    def program(core):
        pair, link = core // 2, meetings.link(core)
        for _ in range(40 if pair == late else 0):
            lockstep.hand_over()
        for turn in range(1 if pair == late else 5):
            barrier(link, 2 * pair, 2 * pair + 1)
            passed.append((pair, turn))

    lockstep.run([partial(program, core) for core in range(4)])
    early = 1 - late
    assert passed == [(early, turn) for turn in range(5) for _ in (0, 1)] + [(late, 0)] * 2


def test_overlapping_groups_follow_each_other():
    met = []

    def program(link):
        for cores in ((0, 1), (1, 2), (0, 1, 2, 3)):
            if link.core in cores:
                barrier(link, *cores)

    run(4, program, lambda group, _: met.append(sorted(group)))
    assert met == [[0, 1], [1, 2], [0, 1, 2, 3]]


def test_a_group_of_one_waits_for_nobody():
    def program(link):
        barrier(link, link.core)
        return exchange(link, 0, link.core, link.core, link.core)

    assert run(3, program) == [0, 1, 2]


def test_pipes_are_apart():
    def program(link):
        exchange(link, 7 + link.core, 1 - link.core, 1 - link.core, link.core)

    with pytest.raises(Deadlock, match="core 0 waits for core 1 in pipe 7 at") as caught:
        run(2, program)
    assert "core 1 waits for core 0 in pipe 8 at" in caught.value.reason


def test_who_waits_is_listed_by_number_whoever_came_first():
    lockstep = Lockstep(2)
    meetings = Meetings(lockstep, quiet)

    def program(core):
        for _ in range(0 if core else 3):
            lockstep.hand_over()
        barrier(meetings.link(core), core, 2 + core)

    with pytest.raises(Deadlock, match=r"core 0 waits for core 2 .*core 1 waits for core 3"):
        lockstep.run([partial(program, core) for core in (0, 1)])


def test_a_barrier_that_the_other_core_never_reaches_is_a_deadlock():
    def program(link):
        if link.core == 1:
            barrier(link, 0, 1)

    message = r"core 1 waits for core 0 in barrier\(0, 1\) at .*; core 0 has ended"
    with pytest.raises(Deadlock, match=message):
        run(2, program)


def test_a_barrier_against_an_exchange_is_a_deadlock():
    def program(link):
        barrier(link, 0, 1) if link.core == 0 else exchange(link, 0, 0, 0, 0)

    message = r"core 0 waits for core 1 in barrier.*core 1 waits for core 0 in pipe 0"
    with pytest.raises(Deadlock, match=message) as caught:
        run(2, program)
    assert caught.value.line is not None
    assert caught.value.line.file == __file__
    assert "core_barrier" in caught.value.source
    assert "same order" in caught.value.fix


@pytest.mark.parametrize("to_rank", [0, 1])
@pytest.mark.parametrize("from_rank", [0, 1])
def test_who_sends_to_whom_must_be_who_receives_from_whom(to_rank, from_rank):
    """Core 1 sends to core 0 and receives from it; what core 0 does has to match."""

    def program(link):
        neighbours = (0, 0) if link.core == 1 else (to_rank, from_rank)
        exchange(link, 0, *neighbours, link.core)

    if to_rank == from_rank == 1:
        run(2, program)
    else:
        with pytest.raises(Deadlock, match="core 1 waits for core 0"):
            run(2, program)


def test_a_deadlock_of_one_group_is_found_when_the_others_have_ended():
    """Core 1 ends early; cores 2 and 3 meet five times more and are no part of it."""

    def program(link):
        if link.core < 2:
            barrier(link, 0, 1) if link.core == 0 else None
        else:
            for _ in range(5):
                barrier(link, 2, 3)

    with pytest.raises(Deadlock) as caught:
        run(4, program)
    assert "core 0 waits for core 1 in barrier(0, 1) at" in caught.value.reason
    assert "core 1 has ended; core 2 has ended; core 3 has ended" in caught.value.reason


def test_a_chain_of_waits_names_the_core_that_each_misses():
    """Core 3 never comes: core 2 waits for it, core 1 for core 2, core 0 for core 1."""

    def program(link):
        if link.core < 3:
            barrier(link, link.core, link.core + 1)

    with pytest.raises(Deadlock) as caught:
        run(4, program)
    for core in range(3):
        assert f"core {core} waits for core {core + 1} in" in caught.value.reason


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_on_one_core_ends_the_run_and_unwinds_the_other(failing):
    unwound = []

    def program(link):
        if link.core == failing:
            raise KeyError("kernel")
        try:
            barrier(link, 0, 1)
        finally:
            unwound.append(True)

    with pytest.raises(KeyError, match="kernel"):
        run(2, program)
    # A core that had not started has nothing to unwind.
    assert unwound == ([True] if failing == 1 else [])


def test_a_mirror_sends_what_it_is_sent():
    sent = np.zeros((2, 3), np.void)
    meeting = meeting_of((0, 1), 0, "core_barrier")
    assert (Mirror.core, Mirror.cores) == (0, 2)
    assert Mirror().meet(meeting, sent) is sent
