import math

import pytest

from trnsim.calibrate.logs.measured import (
    LEAST_REQUESTS,
    LEAST_STEPS,
    WARMUP_STEPS,
    Load,
    LoggedStep,
    RunLog,
    checked_load,
    training,
)
from trnsim.errors import BadInput

NEEDED = WARMUP_STEPS + LEAST_STEPS


def steps(count, **figures):
    return [LoggedStep(number, 5.0, **({"time_s": 2.0} | figures)) for number in range(count)]


def test_the_first_steps_do_not_count():
    found = training(
        "a.log", [LoggedStep(n, 1.0, time_s=100.0 if n < 5 else 2.0) for n in range(NEEDED)]
    )
    assert len(found.steady_steps) == LEAST_STEPS
    assert found.step_s == 2.0
    assert found.tokens_per_s is None


def test_the_time_of_a_step_is_a_median_which_one_stall_does_not_move():
    found = training("a.log", [*steps(NEEDED), LoggedStep(NEEDED, 1.0, time_s=1e4)])
    assert found.step_s == 2.0


def test_a_step_that_is_done_again_after_a_restart_counts_once():
    again = [*steps(NEEDED), LoggedStep(7, 4.0, time_s=9.0)]
    found = training("a.log", again)
    assert len(found.steps) == NEEDED
    assert found.steps[7].time_s == 9.0


def test_the_least_number_of_steps_is_enough_and_one_less_is_not():
    training("a.log", steps(NEEDED))
    with pytest.raises(BadInput, match=rf"a\.log:1: {NEEDED - 1} steps; legal: {NEEDED} or more"):
        training("a.log", steps(NEEDED - 1))
    with pytest.raises(BadInput, match=r"a\.log:1: 0 steps"):
        training("a.log", [])


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("figure", ["time_s", "tokens_per_s"])
def test_a_step_with_an_impossible_figure_is_named(figure, value):
    with pytest.raises(BadInput, match=r"a\.log:1: step 3: .* legal: a positive number"):
        training("a.log", [*steps(NEEDED), LoggedStep(3, 1.0, **{figure: value})])


def test_a_loss_that_is_no_number_is_a_result_and_stays():
    """A run that diverges has failed the pilot; its log is read all the same."""
    found = training("a.log", [*steps(NEEDED), LoggedStep(NEEDED, math.nan, time_s=2.0)])
    assert math.isnan(found.steps[-1].loss)


def a_load(**changed):
    figures = {
        "requests": LEAST_REQUESTS, "failed": 0, "duration_s": 10.0, "output_tokens_per_s": 100.0,
        "ttft_s": {50: 0.1}, "tpot_s": {50: 0.01},
    }  # fmt: skip
    return Load(**(figures | changed))


def test_a_load_test_needs_enough_requests_and_positive_figures():
    assert checked_load("a.json", a_load()).requests == LEAST_REQUESTS
    with pytest.raises(BadInput, match="49 requests were finished; legal: 50 or more"):
        checked_load("a.json", a_load(requests=49))
    for changed, name in (
        ({"duration_s": 0.0}, "duration is 0.0"),
        ({"output_tokens_per_s": math.nan}, "output tokens a second is nan"),
        ({"ttft_s": {50: 0.1, 99: -1.0}}, "TTFT P99 is -1.0"),
        ({"tpot_s": {50: math.inf}}, "TPOT P50 is inf"),
    ):
        with pytest.raises(BadInput, match=name):
            checked_load("a.json", a_load(**changed))


def test_the_kind_is_that_of_the_run():
    assert RunLog("a", "csv", a_load()).kind == "serve"
    assert RunLog("a", "csv", training("a", steps(NEEDED))).kind == "train"
