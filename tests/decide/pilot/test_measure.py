"""Logs are read by side; what is of another run, unit or side is refused by name."""

import json

import numpy as np
import pytest
from log_cases import csv_log, titan_log, vllm_log
from pilot_cases import pilot_of

from trnsim.decide.pilot.measure import RUN_SIGMA, read_logs, side_of
from trnsim.errors import BadInput

TRAINING = pilot_of("train")
SERVING = pilot_of("serve")
STEP = {"today": 512 * 8192 / 1e5, "there": 512 * 8192 / 3e4}


@pytest.fixture
def today(tmp_path):
    return csv_log(tmp_path / "today.csv", STEP["today"])


@pytest.fixture
def there(tmp_path):
    return csv_log(tmp_path / "there.csv", STEP["there"], seed=1)


def refused(pilot, *paths):
    with pytest.raises(BadInput) as caught:
        read_logs(pilot, paths)
    return str(caught.value)


def test_rates_of_both_sides_come_back(today, there):
    found = read_logs(TRAINING, [there, today])
    assert found.rates == pytest.approx({"today": 1e5, "there": 3e4}, rel=0.02)
    assert {one.side for one in found.logs} == {"today", "there"}
    assert found.logits is None


def test_the_error_of_a_run_is_that_of_a_median(today, there):
    found = read_logs(TRAINING, [today, there])
    own = 1.2533 * 0.03 / 10  # steps that differ by 3 %, a hundred of them
    assert found.sigmas["today"] == pytest.approx(np.hypot(own, RUN_SIGMA), rel=0.1)


def test_more_runs_of_a_side_are_surer_unless_they_differ(today, there, tmp_path):
    alike = [csv_log(tmp_path / f"there-{at}.csv", STEP["there"], seed=at) for at in range(4)]
    apart = [csv_log(tmp_path / f"there_{at}.csv", STEP["there"] * (1 + at / 20), seed=at)
             for at in range(4)]  # fmt: skip
    one, many, far = (
        read_logs(TRAINING, [today, *each]).sigmas["there"] for each in ([there], alike, apart)
    )
    assert many < one < far


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("today.csv", "today"),
        ("Today-2.log", "today"),
        ("there", "there"),
        ("there_a.json", "there"),
    ],
)
def test_the_side_is_the_beginning_of_a_name(name, side, tmp_path):
    assert side_of(tmp_path / name) == side


@pytest.mark.parametrize("name", ["run.csv", "todays.csv", "therefore.log"])
def test_a_name_of_neither_side_is_refused(name, tmp_path):
    with pytest.raises(BadInput, match="begins with neither today nor there"):
        side_of(tmp_path / name)


def test_one_side_alone_is_refused(today):
    assert "no log of there; legal: one or more of each side" in refused(TRAINING, today)


def test_a_log_that_is_named_twice_is_refused(today, there):
    assert "is named twice" in refused(TRAINING, today, there, there.parent / "." / there.name)


def test_a_log_of_another_kind_is_refused(today, tmp_path):
    load = vllm_log(tmp_path / "there.json", 3e4)
    said = refused(TRAINING, today, load)
    assert "a log of serve; legal: steps of a training run, in seconds a step" in said
    assert "legal: requests of a load test, in tokens a second" in refused(SERVING, today, load)


def test_another_model_is_refused(today, tmp_path):
    other = csv_log(tmp_path / "there.csv", STEP["there"], model="mistral-7b")
    assert "of the model mistral-7b; the pilot is of llama" in refused(TRAINING, today, other)


def test_a_model_may_be_named_with_its_owner(today, tmp_path):
    same = csv_log(tmp_path / "there.csv", STEP["there"], model="meta/LLaMA")
    assert read_logs(TRAINING, [today, same]).rates["there"] > 0


def test_another_batch_is_refused(today, tmp_path):
    other = csv_log(tmp_path / "there.csv", STEP["there"], sequences=256)
    assert "256 sequences a step; legal: 512" in refused(TRAINING, today, other)


def test_milliseconds_are_refused(today, tmp_path):
    other = csv_log(tmp_path / "there.csv", 1000 * STEP["there"])
    said = refused(TRAINING, today, other)
    assert "times the predicted 3e+04; legal: up to 10 times more or less" in said


def test_a_column_of_another_unit_is_refused(today, there):
    there.write_text(there.read_text().replace("step_s", "step_ms"))
    assert "step_ms" in refused(TRAINING, today, there)


def test_tokens_of_all_accelerators_in_place_of_one_are_refused(today, tmp_path):
    other = titan_log(tmp_path / "there.log", 3e4)
    assert "32.1 times the predicted" in refused(TRAINING, today, other)


def test_too_few_steps_are_refused(today, tmp_path):
    other = csv_log(tmp_path / "there.csv", STEP["there"], steps=5)
    assert "10 steps; legal: 15 or more" in refused(TRAINING, today, other)


def test_a_run_with_too_much_noise_is_refused(today, tmp_path):
    other = csv_log(tmp_path / "there.csv", STEP["there"], steps=12, noise=0.4)
    said = refused(TRAINING, today, other)
    assert "the rate is known within" in said
    assert "legal: within 5%" in said


def test_too_few_requests_are_refused(tmp_path):
    few = vllm_log(tmp_path / "today.json", 1e5, requests=100, model="llama")
    enough = vllm_log(tmp_path / "there.json", 3e4, model="llama")
    assert "the rate is known within 10.0%" in refused(SERVING, few, enough)


def test_two_formats_on_a_side_are_refused(today, there, tmp_path):
    other = titan_log(tmp_path / "today.log", 1e5 / 8)
    said = refused(TRAINING, today, other, there)
    assert "logs of today are of csv and torchtitan; legal: one format" in said


def test_what_is_no_log_is_refused(today, tmp_path):
    other = tmp_path / "there.log"
    other.write_text("Hello\n")
    assert "no log of a known kind" in refused(TRAINING, today, other)


def test_sides_without_common_steps_are_refused(today, there):
    header, *rows = there.read_text().splitlines()
    later = [f"{int(row.partition(',')[0]) + 500},{row.partition(',')[2]}" for row in rows]
    there.write_text("\n".join([header, *later]))
    assert "0 steps in common" in refused(TRAINING, today, there)


def test_a_load_test_gives_its_tokens_a_second(tmp_path):
    logs = [vllm_log(tmp_path / "today.json", 9e4, model="llama"),
            vllm_log(tmp_path / "there.json", 3.3e4, model="org/llama")]  # fmt: skip
    found = read_logs(SERVING, logs)
    assert found.rates == pytest.approx({"today": 9e4, "there": 3.3e4})


def logits(folder, today, there):
    paths = [folder / "today.npy", folder / "there.npy"]
    for path, one in zip(paths, (today, there), strict=True):
        np.save(path, one)
    return paths


def test_logits_differ_by_the_largest_over_the_largest(today, there, tmp_path):
    paths = logits(tmp_path, np.array([[1.0, -4.0]]), np.array([[1.1, -3.8]]))
    assert read_logs(TRAINING, [today, there, *paths]).logits == pytest.approx(0.05)


def test_logits_of_other_shapes_are_refused(today, there, tmp_path):
    paths = logits(tmp_path, np.zeros((2, 3)), np.zeros((3, 2)))
    assert "shapes (2, 3) today and (3, 2) there" in refused(TRAINING, today, there, *paths)


@pytest.mark.parametrize("kind", ["<U1", "complex64", "datetime64[s]", "V2", "i4,i4"])
def test_logits_that_are_no_real_numbers_are_refused(kind, today, there, tmp_path):
    paths = logits(tmp_path, np.zeros(3, kind), np.zeros(3, kind))
    assert "legal: floating-point numbers or integers" in refused(TRAINING, today, there, *paths)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (np.array([-128, 2], np.int8), np.array([0, 2], np.int8), 1.0),
        (np.array([np.inf, 2.0]), np.array([np.inf, 2.0]), np.nan),
        (np.array([np.nan]), np.array([1.0]), np.nan),
        (np.zeros(2), np.zeros(2), np.nan),
    ],
)
def test_logits_at_the_ends_of_their_dtype(before, after, share, today, there, tmp_path):
    paths = logits(tmp_path, before, after)
    found = read_logs(TRAINING, [today, there, *paths]).logits
    assert found == pytest.approx(share, nan_ok=True)


def test_logits_of_one_side_are_not_compared(today, there, tmp_path):
    paths = logits(tmp_path, np.ones(3), np.ones(3))
    assert read_logs(TRAINING, [today, there, paths[0]]).logits is None


def test_a_loss_that_is_no_number_is_kept_as_none(today, tmp_path):
    other = titan_log(tmp_path / "there.log", 3e4 / 32, loss=float("nan"))
    found = read_logs(TRAINING, [today, other])
    assert found.losses("there") == [None]


def test_json_without_a_benchmark_is_refused(today, tmp_path):
    (tmp_path / "there.json").write_text(json.dumps({"a": 1}))
    assert "no log of a known kind" in refused(TRAINING, today, tmp_path / "there.json")
