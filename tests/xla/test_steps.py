"""The end of a step: what runs then, in which order, and what is counted."""

import pytest

from trnsim.device.steps import steps
from trnsim.xla.steps import ClosureRefused, StepClosures


def test_closures_run_once_in_order_at_the_end_of_the_step():
    closures, seen = StepClosures(), []
    closures.add(seen.append, (1,))
    closures.add(seen.append, (2,))
    assert seen == []
    closures.end_step()
    assert seen == [1, 2]
    closures.end_step()
    assert seen == [1, 2]


def test_a_closure_that_a_closure_adds_waits_for_the_next_step():
    closures, seen = StepClosures(), []
    closures.add(lambda: closures.add(seen.append, (3,)), ())
    closures.end_step()
    assert seen == []
    closures.end_step()
    assert seen == [3]


def test_a_closure_that_fails_ends_the_step_and_the_others_do_not_run_later():
    closures, seen = StepClosures(), []
    closures.add(lambda: 1 / 0, ())
    closures.add(seen.append, (1,))
    with pytest.raises(ZeroDivisionError) as raised:
        closures.end_step()
    (note,) = raised.value.__notes__
    assert f"added at {__file__}:" in note
    closures.end_step()
    assert seen == []


def test_a_step_is_a_step_of_the_device_where_no_optimizer_counts_them():
    before = steps.number
    StepClosures().end_step()
    assert steps.number == before + 1
    steps.note_optimizer_step()
    number = steps.number
    StepClosures().end_step()
    assert steps.number == number


def test_a_closure_is_a_function():
    with pytest.raises(ClosureRefused, match="a step closure 'f'; legal: a function") as refused:
        StepClosures().add("f", ())
    assert refused.value.line.file == __file__
    for arguments in (5, None, "ab"):
        with pytest.raises(ClosureRefused, match=r"with args=.*; legal: a tuple of arguments"):
            StepClosures().add(print, arguments)
