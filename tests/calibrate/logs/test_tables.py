import numpy as np
import pytest

from trnsim.calibrate.logs import read
from trnsim.errors import BadInput


def written(tmp_path, header, rows):
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_steps_have_a_time(tmp_path):
    rows = [f"{number},{8 - number / 10},2.0,16,llama" for number in range(1, 21)]
    found = read(written(tmp_path, "step,loss,step_s,sequences,model", rows))
    assert (found.format, found.kind, found.model) == ("csv", "train", "llama")
    assert (found.run.step_s, found.run.sequences, found.run.steps[-1].loss) == (2.0, 16, 6.0)


def test_or_a_rate(tmp_path):
    rows = [f"{number},5,1000" for number in range(20)]
    found = read(written(tmp_path, "step,loss,tokens_per_s", rows))
    assert (found.run.step_s, found.run.tokens_per_s) == (None, 1000)


def test_steps_with_times_and_steps_with_rates_are_no_single_run(tmp_path):
    rows = [f"{number},5,2," if number else "0,5,,1000" for number in range(20)]
    with pytest.raises(BadInput, match=r"log\.csv:3: .*; legal: the same of step_s and tokens_per"):
        read(written(tmp_path, "step,loss,step_s,tokens_per_s", rows))


def test_percentiles_of_requests_are_numpys(tmp_path):
    random = np.random.default_rng(0)
    sent, ttft = np.sort(random.uniform(0, 60, 200)), random.uniform(0.05, 2, 200)
    tokens = random.integers(1, 500, 200)
    e2e = ttft + (tokens - 1) * random.uniform(0.01, 0.03, 200)
    columns = (one.tolist() for one in (sent, ttft, e2e, tokens))
    rows = [",".join(map(repr, row)) for row in zip(*columns, strict=True)]
    found = read(written(tmp_path, "sent_s,ttft_s,e2e_s,output_tokens", [*rows, "61,,,"])).run
    assert (found.requests, found.failed) == (200, 1)
    assert found.duration_s == pytest.approx((sent + e2e).max() - sent.min())
    assert found.output_tokens_per_s == pytest.approx(tokens.sum() / found.duration_s)
    between = ((e2e - ttft)[tokens > 1]) / (tokens[tokens > 1] - 1)
    for rank in (50, 90, 99):
        assert found.ttft_s[rank] == pytest.approx(np.percentile(ttft, rank))
        assert found.tpot_s[rank] == pytest.approx(np.percentile(between, rank))


def test_answers_of_one_token_have_no_time_between(tmp_path):
    rows = [f"{number},0.1,0.1,1" for number in range(60)]
    assert read(written(tmp_path, "sent_s,ttft_s,e2e_s,output_tokens", rows)).run.tpot_s == {}


def test_requests_sent_at_once_long_after_zero_last_as_long_as_the_longest(tmp_path):
    rows = ["1e12,1e-6,1e-6,1"] * 60  # a second's millionth is less than the last digit of 1e12
    run = read(written(tmp_path, "sent_s,ttft_s,e2e_s,output_tokens", rows)).run
    assert (run.duration_s, run.output_tokens_per_s) == (1e-6, pytest.approx(60e6))


def steps(**changed):
    row = {"step": "{}", "loss": "5", "step_s": "2"} | changed
    lines = [",".join(row.values()).replace("{}", str(number)) for number in range(20)]
    return ",".join(row), lines


def requests(**changed):
    row = {"sent_s": "{}", "ttft_s": "0.1", "e2e_s": "1", "output_tokens": "9"} | changed
    return ",".join(row), [",".join(row.values()).replace("{}", str(n)) for n in range(60)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (steps(step_s="-2"), r"log\.csv:2: step_s is -2.0"),
        (steps(step_s="nan"), "step_s is 'nan'"),
        (steps(loss="high"), "loss is 'high'"),
        (steps(tokens_per_s="5"), "legal: either step_s or tokens_per_s"),
        (steps(step="1.5"), "step is '1.5'"),
        (steps(step_ms="3"), "step_ms"),
        (steps(sequences="{}"), "sequences is '0'"),
        (steps(model="m{}"), "of several models: m0, m1"),
        (requests(e2e_s="0.05"), "e2e_s is 0.05; legal: no less than ttft_s"),
        (requests(output_tokens="0"), "output_tokens is '0'"),
        (requests(ttft_ms="100"), "ttft_ms"),
        (("step,loss,step_s", []), "0 steps; legal: 15 or more"),
        (("sent_s,ttft_s,e2e_s,output_tokens", ["1,0.1,1,5"] * 49), "49 requests were finished"),
    ],
)
def test_what_cannot_be_used_is_refused(given, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        read(written(tmp_path, *given))


def test_a_batch_that_changes_is_refused(tmp_path):
    rows = [f"{number},5,2,{8 + number % 2}" for number in range(20)]
    with pytest.raises(BadInput, match=r"sequences of a step are \[8, 9\]"):
        read(written(tmp_path, "step,loss,step_s,sequences", rows))


def test_items_of_a_batch_have_no_time_between_them(tmp_path):
    rows = [f"{at},0.5,0.5,8" for at in range(60)]
    path = tmp_path / "passes.csv"
    path.write_text("\n".join(["sent_s,ttft_s,e2e_s,output_tokens", *rows]))
    run = read(path).run
    assert run.tpot_s == {}
    assert run.output_tokens_per_s == 480 / 59.5
