import math

import pytest
from answer_cases import compiled, estimate, infer, interval, serve, train
from hypothesis import given
from hypothesis import strategies as st

from trnsim.calibrate.logs.measured import Load, RunLog
from trnsim.decide.why.answers import answers
from trnsim.decide.why.explain import explain
from trnsim.decide.why.logs import comparable_answers
from trnsim.errors import BadInput

PARTS = st.dictionaries(
    st.sampled_from(["products", "weights", "KV", "host", "fixed"]), st.floats(1e-7, 1e4),
    min_size=1,
)  # fmt: skip
LOG = RunLog("bench.json", "vllm", Load(100, 0, 60.0, 90.0, {50: 0.1}, {50: 0.02}))


def found(old, new):
    return explain(answers(old, "a.json"), answers(new, "b.json"))


def only(old, new):
    (one,) = found(old, new).differences
    return one


@given(old=PARTS, new=PARTS)
def test_terms_add_up_to_the_difference_of_the_medians(old, new):
    (one,) = only(infer(old), infer(new)).times
    difference = sum(new.values()) - sum(old.values())
    largest = max(sum(new.values()), sum(old.values()))
    changes = [term.change_s for term in one.terms]
    assert math.fsum(changes) == pytest.approx(difference, rel=0, abs=1e-14 * largest)
    assert [abs(one) for one in changes] == sorted(map(abs, changes), reverse=True)


@given(median=st.floats(1e-6, 1e3), parts=PARTS)
def test_they_do_so_where_an_answers_parts_leave_something_over(median, parts):
    odd = infer(estimate=estimate(parts, p50_s=median))
    (one,) = only(infer({"host": 1.0}), odd).times
    change = math.fsum(term.change_s for term in one.terms)
    largest = max(median, *parts.values(), 1.0)
    assert change == pytest.approx(median - 1.0, rel=0, abs=1e-11 * largest)


def test_terms_of_one_side_alone_are_named():
    (one,) = only(infer({"host": 1.0, "KV": 2.0}), infer({"KV": 2.0, "scores": 3.0})).times
    assert (one.only_old, one.only_new) == (("host",), ("scores",))
    assert [term.name for term in one.terms] == ["scores", "host", "KV"]


def test_each_median_is_looked_for_in_the_others_interval():
    (one,) = only(infer({"host": 1.0}), infer({"host": 1.9})).times
    assert (one.is_new_in_old_interval, one.is_old_in_new_interval, one.ratio) == (True, True, 1.9)
    (one,) = only(infer({"host": 1.0}), infer({"host": 2.1})).times
    assert (one.is_new_in_old_interval, one.is_old_in_new_interval) == (False, False)


def test_sources_and_conditions_that_differ_are_told():
    moved = estimate({"host": 1.0}, sources={"model": "measured"}, conditions=["ranks"])
    (one,) = only(infer(), infer(estimate=moved)).times
    assert [(each.old, each.new) for each in one.sources] == [("few constants", "measured")]
    assert one.conditions == ((), ("ranks",))


def test_sources_of_several_phases_are_told_by_phase():
    both = {"forward": "few constants", "backward": "few constants"}
    moved = estimate({"host": 1.0}, sources=both | {"backward": "measured"})
    (one,) = only(
        infer(estimate=estimate({"host": 1.0}, sources=both)), infer(estimate=moved)
    ).times
    assert [(each.path, each.new) for each in one.sources] == [("backward", "measured")]


def test_a_compiled_pass_stands_beside_a_plan_of_another_command():
    one = only(compiled(batch=8, lnc=1), infer(platform="trn1.2xlarge", lnc=2))
    (time,) = one.times
    assert (time.old.name, time.new.name, one.name) == ("pass", "latency", "trn2 and trn1.2xlarge")
    assert [(each.path, each.old, each.new) for each in one.inputs] == [
        ("chip", "trn2", "trn1"),
        ("NeuronCores of a rank", 1, 2),
        ("batch", 8, 1),
    ]


@pytest.mark.parametrize(
    ("phase", "step"), [("decode", "decode step"), ("prefill", "prefill step")]
)
def test_a_servers_step_is_that_of_the_phase_that_was_compiled(phase, step):
    (time,) = only(compiled(phase=phase), serve()).times
    assert time.new.name == step


def test_an_exported_program_stands_beside_the_decode_step():
    plain = compiled()
    del plain["phase"]
    (time,) = only(serve(), plain).times
    assert time.old.name == "decode step"


def test_sizes_of_a_servers_steps_are_inputs():
    other = serve()
    other["decode_step"] = {**other["decode_step"], "batch": 16}
    assert [(each.path, each.new) for each in only(serve(), other).inputs] == [
        ("decode step.batch", 16)
    ]


def test_figures_and_inputs_of_one_commands_answers_are_told_with_the_cost():
    other = train(time_s=interval(5.0), usd=interval(4.0), platform="trn2", price="1 USD/h")
    one = only(train(time_s=interval(10.0), usd=interval(4.0), pareto=[1]), other)
    assert [each.path for each in one.figures] == ["time_s"]
    assert [each.path for each in one.inputs] == ["price"]
    assert one.cost == {"price": 2.0, "instances": 1.0, "time": 0.5}


def test_options_that_the_answers_do_not_state_are_inputs():
    old = answers(infer(), "a", {"argument 1": "a.json", "--batch": "1"})
    new = answers(infer(batch=2), "b", {"argument 1": "b.json", "--batch": "2", "--on": "trn2"})
    (one,) = explain(old, new).differences
    assert [(each.path, each.new) for each in one.inputs] == [
        ("batch", 2),
        ("argument 1", "b.json"),
    ]


def test_platforms_are_matched_by_name_and_those_alone_are_named():
    one = found([infer(platform="trn1"), infer()], [infer(), infer(platform="trn3")])
    assert [each.name for each in one.differences] == ["trn2"]
    assert one.differences[0].is_equal
    assert (one.only_old, one.only_new) == (("trn1",), ("trn3",))


def test_one_answer_on_each_side_is_compared_whatever_it_is_about():
    one = found(infer(), infer(platform="trn3"))
    assert [each.name for each in one.differences] == ["trn2 and trn3"]
    assert (one.only_old, one.only_new) == ((), ())


def test_workloads_of_a_decision_are_matched_by_name():
    old = {"workloads": [{"name": "chat", "verdict": "pilot"}]}
    new = {"workloads": [{"name": "chat", "verdict": "go"}]}
    one = only(old, new)
    assert [(each.path, each.old, each.new) for each in one.inputs] == [("verdict", "pilot", "go")]
    assert not one.times


def test_candidates_are_matched_by_instance_and_their_milliseconds_are_terms():
    def decided(*ms):
        made = [{"instance": name, "ms": {"KV": one}, "saving": one} for name, one in ms]
        return {
            "workloads": [{"name": "chat", "kind": "serve", "verdict": "go", "candidates": made}]
        }

    one = only(decided(("p5", 1.0), ("trn2", 2.0)), decided(("trn2", 3.0), ("p5", 1.0)))
    changes = {time.new.name: time.terms[0].change_s for time in one.times}
    assert changes == pytest.approx({"token on p5": 0.0, "token on trn2": 1e-3})
    assert [each.path for each in one.figures] == ["candidates.trn2.saving"]


@pytest.mark.parametrize("is_first", [False, True])
def test_the_whole_difference_to_a_log_is_unexplained(is_first):
    plan = answers(serve(), "a.json")
    sides = (LOG, plan) if is_first else (plan, LOG)
    (one,) = explain(*comparable_answers(*sides, ("A", "B"))).differences
    ttft, tpot = one.times
    assert [time.old.name for time in one.times] == ["TTFT", "TPOT"]
    for time, change in ((ttft, 0.05), (tpot, 0.009)):
        signed = -change if is_first else change
        assert time.terms[0].name == "unexplained"
        assert time.terms[0].change_s == pytest.approx(signed)
        assert {term.change_s for term in time.terms[1:]} == {0.0}
        assert time.only_old == time.only_new == ()
    assert [each.path for each in one.figures] == ["output_tokens_per_s"]


def test_an_encoders_latency_stands_beside_the_first_answer_of_a_log():
    (one,) = explain(*comparable_answers(answers(infer(), "a.json"), LOG, ("A", "B"))).differences
    assert [(time.old.name, time.new.name) for time in one.times] == [("latency", "TTFT")]


COLLECTIVE = {
    "platform": "trn2", "bus_bytes_per_s": 1.0, "time_s": interval(1.0), "latency_s": 0.5,
    "bytes_s": 0.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            infer(),
            COLLECTIVE,
            r"A is of trnsim plan infer \(latency\), B of trnsim plan collective",
        ),
        (train(), serve(), "no figure in common"),
        (infer(), {"name": "chat", "verdict": "go"}, r"assess \(no time\): no figure in common"),
        (
            [infer(), infer(platform="trn1")],
            serve(platform="inf2"),
            "A answers for trn2, trn1, B for",
        ),
    ],
)
def test_what_has_nothing_in_common_is_said(old, new, said):
    with pytest.raises(BadInput, match=said):
        found(old, new)


def test_an_answer_without_an_end_is_refused():
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadInput, match="A or B is nested too deeply to be an answer"):
        found(infer(notes=deep), infer(notes=[[deep]]))
