"""Greenlets in turn: order, barriers, exchanges, deadlocks, failures."""

from contextvars import ContextVar

import numpy as np
import pytest

from trnsim.errors import Deadlock
from trnsim.program.lockstep import Lockstep, Meeting

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


@pytest.mark.parametrize("early", [0, 1])
def test_nobody_passes_a_barrier_before_all_are_there(early):
    lockstep, seen, joins = Lockstep(2), [], []
    meeting = Meeting(lockstep, lambda *met: joins.append(met))

    def body(core):
        def run():
            for _ in range(0 if core == early else 5):
                lockstep.hand_over()
            seen.append(("arrives", core))
            meeting.barrier(core, None)
            seen.append(("passes", core))

        return run

    lockstep.run([body(0), body(1)])
    assert seen[:2] == [("arrives", early), ("arrives", 1 - early)]
    assert sorted(seen[2:]) == [("passes", 0), ("passes", 1)]
    assert len(joins) == 2


def test_barriers_at_one_line_are_no_deadlock_while_they_advance():
    lockstep = Lockstep(2)
    meeting = Meeting(lockstep, lambda *_: None)

    def body(core):
        def run():
            for _ in range(10):
                meeting.barrier(core, None)
                lockstep.hand_over()
            return core

        return run

    assert lockstep.run([body(0), body(1)]) == [0, 1]


def test_an_exchange_swaps_in_the_order_of_sending():
    lockstep = Lockstep(2)
    meeting = Meeting(lockstep, lambda *_: None)

    def body(core):
        def run():
            link = meeting.link(core)
            sent = [np.array([core, turn]) for turn in range(3)]
            return [link.exchange(0, 1 - core, 1 - core, bits).tolist() for bits in sent]

        return run

    assert lockstep.run([body(0), body(1)]) == [
        [[1, turn] for turn in range(3)],
        [[0, turn] for turn in range(3)],
    ]


def test_pipes_are_apart():
    lockstep = Lockstep(2)
    meeting = Meeting(lockstep, lambda *_: None)

    def body(core, pipe):
        return lambda: meeting.link(core).exchange(pipe, 1 - core, 1 - core, np.array([core]))

    with pytest.raises(Deadlock, match="for core 1 to send on pipe 7") as caught:
        lockstep.run([body(0, 7), body(1, 8)])
    assert "for core 0 to send on pipe 8" in caught.value.reason


def test_a_barrier_that_the_other_core_never_reaches_is_a_deadlock():
    lockstep = Lockstep(2)
    meeting = Meeting(lockstep, lambda *_: None)
    with pytest.raises(Deadlock, match=r"core 1 waits at a core_barrier at .*; core 0 has ended"):
        lockstep.run([lambda: None, lambda: meeting.link(1).barrier(None)])


def test_a_barrier_against_an_exchange_is_a_deadlock():
    lockstep = Lockstep(2)
    meeting = Meeting(lockstep, lambda *_: None)
    with pytest.raises(Deadlock, match=r"core 0 waits at a core_barrier .*core 1 waits for") as it:
        lockstep.run(
            [
                lambda: meeting.link(0).barrier(None),
                lambda: meeting.link(1).exchange(0, 0, 0, np.zeros(1)),
            ]
        )
    assert it.value.line is not None
    assert it.value.line.file == __file__
    assert "core_barrier" in it.value.source
    assert "same order" in it.value.fix


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_on_one_core_ends_the_run_and_unwinds_the_other(failing):
    lockstep, unwound = Lockstep(2), []
    meeting = Meeting(lockstep, lambda *_: None)

    def fails():
        raise KeyError("kernel")

    def waits():
        try:
            meeting.barrier(1 - failing, None)
        finally:
            unwound.append(True)

    bodies = [waits, waits]
    bodies[failing] = fails
    with pytest.raises(KeyError, match="kernel"):
        lockstep.run(bodies)
    # A core that had not started has nothing to unwind.
    assert unwound == ([True] if failing == 1 else [])
