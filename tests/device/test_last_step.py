"""Which calls are the last step: by an optimizer, by a repeated program, on several cores."""

import pytest

from trnsim.device.call_log import Recording, note, recording
from trnsim.device.last_step import LastStep, last_step, step_span


def recorded(made_up, at, *calls):
    """A recording of calls: a name, a core, seconds, and perhaps a phase."""
    with recording() as found:
        for name, core, seconds, *phase in calls:
            note(made_up(name, (seconds,)), core, at(phase=phase[0]) if phase else at())
    return found


def names(step):
    return [event.call.operation for event in step.events]


def test_the_last_step_is_whole_and_ends_with_the_optimizer(made_up, at):
    one = [("x::dot", 0, 2e-3), ("x::grad", 0, 4e-3, "backward"), ("x::add", 0, 5e-4, "optimizer")]
    step = last_step(recorded(made_up, at, *one * 3, ("x::evaluate", 0, 1e-3)), "trn2")
    assert names(step) == ["dot", "grad", "add"]
    assert step.text == ""


def test_without_an_optimizer_and_a_program_everything_is_the_step(made_up, at):
    step = last_step(recorded(made_up, at, ("x::dot", 0, 1e-3), ("x::dot", 0, 1e-3)), "trn2")
    assert names(step) == ["dot", "dot"]
    assert last_step(Recording(), "trn2") == LastStep(())
    assert step_span([]) == (0, 0)


def test_a_program_that_is_repeated_is_a_step_with_what_ran_since(made_up, at):
    first = [("init", 0, 9.0), ("put", 0, 1e-4)]
    one = [("x::copy", 0, 1e-4), ("step", 0, 2e-3)]
    step = last_step(recorded(made_up, at, *first, *one * 3, ("read", 0, 1e-4)), "trn2")
    assert names(step) == ["copy", "step"]
    assert step.text == "run 3 of step"


def test_the_program_that_takes_most_is_the_step_and_others_are_parts_of_it(made_up, at):
    one = [("gradient", 0, 3e-3), ("metrics", 0, 1e-4), ("metrics", 0, 1e-4), ("update", 0, 1e-3)]
    step = last_step(recorded(made_up, at, *one * 4), "trn2")
    assert sorted(names(step)) == ["gradient", "metrics", "metrics", "update"]


def test_a_program_that_ran_once_is_no_step(made_up, at):
    step = last_step(recorded(made_up, at, ("init", 0, 1.0), ("step", 0, 1e-3)), "trn2")
    assert names(step) == ["init", "step"]
    assert (step.program, step.runs) == ("", 0)


def test_what_prepares_a_program_is_no_step_however_often_it_runs(made_up, at):
    calls = [("seed", 0, 1e-6), ("draw", 0, 1e-5), ("seed", 0, 1e-6), ("draw2", 0, 1e-5)]
    step = last_step(recorded(made_up, at, *calls, ("model", 0, 1e-3)), "trn2")
    assert names(step)[-1] == "model"
    assert step.text == ""


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_step_takes_as_long_on_many_cores_as_on_one(made_up, at, cores):
    one = [("step", core, 2e-3) for core in range(cores)]
    step = last_step(recorded(made_up, at, *one * 5), "trn2")
    assert names(step) == ["step"]
    assert step.cores == cores


def test_the_slowest_core_is_shown(made_up, at):
    one = [("step", 0, 1e-3), ("step", 1, 1e-3), ("tail", 1, 5e-4), ("step", 2, 1e-3)]
    step = last_step(recorded(made_up, at, *one * 3), "trn2")
    assert sorted(names(step)) == ["step", "tail"]
    assert step.text == "run 3 of step, on core 1, the slowest of 3"


def test_cores_of_a_step_with_an_optimizer_are_beside_each_other(made_up, at):
    one = [("x::dot", core, 1e-3 * (core + 1)) for core in range(2)]
    one += [("x::add", core, 1e-4, "optimizer") for core in range(2)]
    step = last_step(recorded(made_up, at, *one * 2), "trn2")
    assert names(step) == ["dot", "add"]
    assert step.text == "on core 1, the slowest of 2"
