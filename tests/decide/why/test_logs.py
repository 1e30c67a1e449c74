import pytest
from answer_cases import infer, serve, train

from trnsim.calibrate.logs.measured import Load, LoggedStep, RunLog, Training
from trnsim.decide.why.answers import answers
from trnsim.decide.why.logs import comparable_answers
from trnsim.errors import BadInput

NAMES = ("A (plan.json)", "B (run.log)")


def steps(sequences=None, **each):
    made = tuple(LoggedStep(number, 1.0, **each) for number in range(20))
    return RunLog("run.log", "csv", Training(made, sequences))


LOAD = RunLog(
    "bench.json", "vllm", Load(100, 0, 60.0, 90.0, {50: 0.1, 99: 0.2}, {50: 0.02, 99: 0.03})
)


def logged(plan, log):
    _, new = comparable_answers(answers(plan, "plan.json"), log, NAMES)
    (found,) = new.values()
    assert found.is_measured
    return found


def test_a_training_log_has_its_step():
    (found,) = logged(train(), steps(sequences=64, time_s=12.0)).times
    assert (found.name, found.p50_s, found.parts_s, found.is_measured) == ("step", 12.0, {}, True)


def test_a_log_of_rates_has_the_step_in_which_the_plans_ranks_make_its_tokens():
    (found,) = logged(train(), steps(tokens_per_s=4096.0)).times
    assert found.p50_s == 64 * 4096 / (2 * 4) / 4096


def test_a_load_test_has_its_latencies_and_its_figures():
    found = logged(serve(), LOAD)
    assert [(one.name, one.p50_s) for one in found.times] == [("TTFT", 0.1), ("TPOT", 0.02)]
    assert found.fields["ttft_p99_s"] == 0.2
    assert found.fields["output_tokens_per_s"] == 90.0


def test_a_load_test_of_one_token_each_has_no_time_between_them():
    one = RunLog("a.csv", "csv", Load(100, 0, 60.0, 90.0, {50: 0.1}, {}))
    assert [time.name for time in logged(infer(), one).times] == ["TTFT"]


def test_the_log_may_be_the_first():
    old, new = comparable_answers(LOAD, answers(serve(), "plan.json"), NAMES)
    assert (list(old), list(new)) == (["bench.json"], ["trn2"])


def test_two_plans_stay_as_they_are():
    both = answers(serve(), "a"), answers(infer(), "b")
    assert comparable_answers(*both, NAMES) == both


@pytest.mark.parametrize(
    ("plan", "log", "said"),
    [
        (serve(), steps(time_s=1.0), "has steps of a training run, trn2 is of trnsim plan serve"),
        (train(), steps(sequences=32, time_s=1.0), "32 sequences a step, and the plan has 64"),
        (train(layout={}), steps(time_s=1.0), "trn2: layout: global_batch is missing"),
        (train(layout=3), steps(time_s=1.0), "trn2: layout is 3; legal: an object"),
        ([serve(), serve(platform="trn1")], LOAD, "answers for trn2, trn1; legal beside a log"),
    ],
)
def test_a_log_of_another_run_is_refused(plan, log, said):
    with pytest.raises(BadInput, match=said):
        logged(plan, log)


def test_a_layout_without_ranks_is_refused():
    plan = train()
    plan["layout"]["data"] = 0
    with pytest.raises(BadInput, match="layout has 0 ranks; legal: from 1 on"):
        logged(plan, steps(tokens_per_s=1.0))


def test_two_logs_are_refused():
    with pytest.raises(BadInput, match=r"A \(plan.json\) and B \(run.log\) are measured logs"):
        comparable_answers(LOAD, LOAD, NAMES)
