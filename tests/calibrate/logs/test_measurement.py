from pathlib import Path

import pytest
from log_cases import csv_log, titan_log, vllm_log

from trnsim.calibrate.logs import measurements
from trnsim.errors import BadInput

NCCOM = Path(__file__).parents[3] / "examples" / "nccom-test.txt"
SERVED = "plan serve llama-3.1-8b --on trn2"


def figures(log):
    return {each.figure: each.value for each in log.measurements}


def test_a_load_test_has_ttft_and_tpot_at_p50(tmp_path):
    log = measurements(vllm_log(tmp_path / "a.json", 1000.0), f"trnsim {SERVED}")
    assert figures(log) == {"ttft": 0.2, "tpot": 0.03}
    assert {each.question for each in log.measurements} == {SERVED}
    assert log.measurements[0].sigma == pytest.approx(2048**-0.5)


def test_training_has_the_time_of_a_step_or_a_rate(tmp_path):
    timed = measurements(csv_log(tmp_path / "a.csv", 2.0), "plan train x")
    assert figures(timed) == {"time": pytest.approx(2.0, rel=0.02)}
    rated = measurements(titan_log(tmp_path / "a.log", 900.0), "plan train x")
    assert figures(rated) == {"tokens_per_s": pytest.approx(900, rel=0.02)}


def test_a_log_without_a_question_is_refused(tmp_path):
    with pytest.raises(
        BadInput, match=r"a\.json:1: a log of vllm, (?s:.*) --question 'plan serve"
    ) as e:
        measurements(vllm_log(tmp_path / "a.json", 1000.0))
    assert "which does not name the command that estimates its times" in e.value.reason
    with pytest.raises(
        BadInput, match=r"a log of torchtitan, (?s:.*) --question 'plan train MODEL"
    ):
        measurements(titan_log(tmp_path / "a.log", 900.0))
    with pytest.raises(
        BadInput, match=r"a log of nccom-test, (?s:.*) --question 'plan collective all"
    ):
        measurements(NCCOM)


def test_a_table_of_questions_needs_none(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"question,seconds\n{SERVED},0.1\n")
    assert measurements(path).format == "questions"
    with pytest.raises(BadInput, match=r"a\.csv:1: its rows have questions of their own"):
        measurements(path, SERVED)
