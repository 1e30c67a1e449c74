"""Overviews of answers: total, parts and advice are those of the JSON."""

import re

import pytest

from trnsim.profile.analysis.overview import (
    is_readable,
    overviews,
    readable_schemas,
    step_actions,
)


def step(**changes):
    rows = [{"name": "mm", "calls": 3, "device_time_s": 4e-3},
            {"name": "add", "calls": 7, "device_time_s": 1.4e-3}]  # fmt: skip
    values = {
        "schema": "run-step/1", "target": "trn2", "device_time_s": 5.4e-3, "launch_s": 19.1e-3,
        "estimate": {"p10_s": 4e-3, "p50_s": 5.4e-3, "p90_s": 7e-3, "parts_s": {"forward": 5.4e-3}},
        "by_phase": [{"name": "forward", "calls": 10, "device_time_s": 5.4e-3}],
        "by_operation": rows,
    }  # fmt: skip
    return values | changes


def test_a_step_whose_launches_outlast_its_work_is_to_be_compiled():
    (seen,) = overviews([step()])
    assert (seen.time_s, seen.interval_s, seen.machine) == (5.4e-3, (4e-3, 7e-3), "trn2")
    assert seen.bound == "launches of the host"
    first, second = seen.actions
    assert first.text.startswith("19.1 ms of launches beside 5.4 ms of work: compile")
    # All launches become one, and the work remains.
    assert first.gain_s == pytest.approx(19.1e-3 - 19.1e-3 / 10 - 5.4e-3)
    assert second.text.startswith("mm takes 4 ms in 3 calls")
    assert second.gain_s == 4e-3


@pytest.mark.parametrize("launch_s", [0.0, 5.4e-3, 5.9e-3])
def test_launches_that_are_hidden_are_no_advice(launch_s):
    (seen,) = overviews([step(launch_s=launch_s)])
    assert [action.text[:2] for action in seen.actions] == ["mm"]


def test_one_call_is_one():
    answer = {"launch_s": 0.0, "device_time_s": 4e-3, "by_phase": [],
              "by_operation": [{"name": "step", "calls": 1, "device_time_s": 4e-3}]}  # fmt: skip
    (action,) = step_actions(answer)
    assert action.text == "step takes 4 ms in 1 call: an NKI kernel in its place"


def test_a_step_without_calls_has_no_advice():
    empty = step(by_phase=[], by_operation=[], device_time_s=0.0, launch_s=0.0)
    assert overviews([empty])[0].actions == []


def test_parts_of_a_plan_are_advice_by_their_gain_from_a_hundredth_on():
    plan = {
        "schema": "plan-train/1", "model": "m", "platform": "trn2",
        "step_s": {"p10": 0.9, "p50": 1.0, "p90": 1.2},
        "parts_s": {"compute": 0.7, "bubble": 0.1, "data": 0.01, "host": 0.0099, "tensor": 0.18},
    }  # fmt: skip
    (seen,) = overviews([plan])
    assert list(seen.parts_s) == ["compute", "tensor", "bubble", "data", "host"]
    assert seen.bound == "compute"
    assert [action.gain_s for action in seen.actions] == [0.18, 0.1, 0.01]
    assert "(--vp)" in seen.actions[1].text


def test_ranks_are_as_long_as_the_slowest():
    ranks = [{"total_s": 1.0, "exposed_s": 0.1}, {"total_s": 2.0, "exposed_s": 0.5}]
    (seen,) = overviews([{"schema": "run-ranks/1", "title": "t", "ranks": ranks}])
    assert seen.time_s == 2.0
    assert seen.parts_s == {"work": 1.5, "exposed exchanges": 0.5}
    assert seen.groups_s["rank"] == {"rank 0": 1.0, "rank 1": 2.0}
    assert [action.gain_s for action in seen.actions] == [0.5]


def test_ranks_have_the_interval_that_their_command_stated_and_older_answers_none():
    answer = {"schema": "run-ranks/1", "title": "t", "ranks": [{"total_s": 1.0, "exposed_s": 0.1}]}
    assert overviews([answer])[0].interval_s is None
    assert overviews([answer | {"p10_s": 0.5, "p90_s": 2.0}])[0].interval_s == (0.5, 2.0)


def test_a_launch_without_ranks_has_no_time():
    (seen,) = overviews([{"schema": "launch/1", "instance": "trn2.48xlarge", "ranks": []}])
    assert (seen.time_s, seen.parts_s, seen.actions) == (0.0, {}, [])


def test_ranks_that_took_no_step_have_no_bound_and_no_advice():
    ranks = [{"rank": at, "step_s": 0.0, "exposed_s": 0.0} for at in range(2)]
    (seen,) = overviews([{"schema": "launch/1", "instance": "trn2.48xlarge", "ranks": ranks}])
    assert (seen.time_s, seen.bound, seen.actions) == (0.0, "", [])


def test_a_plan_to_serve_without_output_tokens_has_the_time_to_the_first():
    ends = {"p10": 0.1, "p50": 0.2, "p90": 0.3}
    plan = {"schema": "plan-serve/1", "platform": "trn3", "tpot_p50_s": None, "ttft_p50_s": ends}
    (seen,) = overviews([plan])
    assert (seen.subject, seen.time_s, seen.parts_s) == ("time to the first token", 0.2, {})


def test_subjects_name_the_model_and_the_collective_and_older_answers_have_neither():
    ends = {"p10": 0.1, "p50": 0.2, "p90": 0.3}
    serve = {"schema": "plan-serve/1", "platform": "trn3", "tpot_p50_s": None, "ttft_p50_s": ends}
    infer = {"schema": "plan-infer/1", "platform": "trn2", "batch": 1, "item": "sequence",
             "latency_p50_s": ends, "estimate": {"parts_s": {}}}  # fmt: skip
    reduce = {"schema": "plan-collective/1", "platform": "trn2", "ranks": 8, "time_s": ends,
              "inside_s": ends, "latency_s": 0.0, "bytes_s": 0.1}  # fmt: skip
    asked = {"collective": "all_reduce", "bytes": 1 << 20}
    answers = [infer, infer | {"batch": 2, "model": "bert"}, serve | {"model": "m"}, reduce]
    assert [seen.subject for seen in overviews([*answers, reduce | asked])] == [
        "latency of 1 sequence",
        "bert: latency of 2 sequences",
        "m: time to the first token",
        "collective on 8 ranks",
        "all_reduce of 1 MiB on 8 ranks",
    ]


def test_a_stored_program_has_lanes_and_gains_and_an_older_step_neither():
    row = {"name": "dot", "operation": "mm", "module": "up", "phase": "backward",
           "time_s": 1e-3, "launch_s": 2e-3}  # fmt: skip
    program = {"kernels": [row], "order": [0, 0], "hbm": [[0, 1024]], "hbm_bytes": 2048}
    old, new = overviews([step(), step(program=program)])
    assert (old.lanes, old.gains) == ((), ())
    assert [lane.name for lane in new.lanes] == ["kernels", "launches", "HBM in use"]
    assert new.launched_s == pytest.approx(5e-3)  # both launches, and the kernel of the second
    assert max(new.gains, key=lambda gain: gain.gain_s).change == "mm for nothing"
    # Advice is timed again too: one launch in place of two; an operation of three calls keeps both.
    assert [action.gain_s for action in new.actions] == pytest.approx([1e-3, 1e-3])


def test_a_compiled_graph_says_its_bound():
    estimate = {"p10_s": 1e-3, "p50_s": 2e-3, "p90_s": 3e-3, "parts_s": {"launch": 1e-3}}
    values = {"schema": "compile/1", "subject": "bert", "target": "trn1", "estimate": estimate,
              "bound": "HBM", "bound_s": 5e-4}  # fmt: skip
    assert overviews([values])[0].bound == "HBM, 500 us at least"


def test_only_answers_with_a_time_are_readable():
    assert is_readable("run-step/1")
    assert not is_readable("run-step/2")
    assert not is_readable("claims/1")
    assert all(map(is_readable, readable_schemas()))


ENDS = {"p10_s": 4e-3, "p50_s": 5e-3, "p90_s": 7e-3, "parts_s": {}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimate": ENDS | {"p10_s": None}}, "P10 is None; legal: seconds, 0 or more"),
        ({"estimate": ENDS | {"p90_s": "x"}}, "P90 is 'x'"),
        ({"estimate": ENDS | {"p90_s": True}}, "P90 is True"),
        ({"estimate": ENDS | {"parts_s": {"forward": -1e-9}}}, "forward of parts_s is -1e-09"),
        ({"device_time_s": -1}, "time is -1"),
        ({"device_time_s": 1.1e12}, "time is 1100000000000.0;"),
        ({"by_phase": [{"name": 5, "calls": 1, "device_time_s": 1}]}, "a name of phase is 5"),
        ({"by_phase": [{"name": "f", "calls": 1, "device_time_s": "y"}]}, "f of phase is 'y'"),
        ({"target": None}, "the subject or the machine is None; legal: text"),
    ],
)
def test_values_that_no_page_can_show_are_named(changes, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        overviews([step(**changes)])


def test_the_shortest_and_the_longest_time_are_read():
    for time_s in (0, 0.0, 1e12):
        assert overviews([step(device_time_s=time_s, launch_s=0.0)])[0].time_s == time_s
