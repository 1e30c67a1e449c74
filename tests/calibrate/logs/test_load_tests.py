import json

import pytest

from trnsim.calibrate.logs import read
from trnsim.errors import BadInput

VLLM = {
    "model_id": "meta-llama/Llama-3.1-8B", "num_prompts": 103, "completed": 100, "duration": 20.0,
    "output_throughput": 640.0, "median_ttft_ms": 125.0, "p99_ttft_ms": 400.0,
    "median_tpot_ms": 12.5, "p90_tpot_ms": 15.0, "p99_tpot_ms": 20.0,
}  # fmt: skip


def distribution(median, p99):
    found = {"mean": median, "median": median, "percentiles": {"p90": p99, "p99": p99}}
    return {"successful": found, "errored": {}, "total": found}


GUIDELLM = {
    "benchmarks": [
        {
            "duration": 20.0,
            "worker": {"backend_model": "llama"},
            "metrics": {
                "request_totals": {"successful": 100, "errored": 3, "total": 103},
                "output_tokens_per_second": distribution(640.0, 900.0),
                "time_to_first_token_ms": distribution(125.0, 400.0),
                "inter_token_latency_ms": distribution(12.5, 20.0),
            },
        }
    ]
}


def written(tmp_path, value):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(value))
    return path


def test_vllms_benchmark_is_read_in_seconds(tmp_path):
    found = read(written(tmp_path, VLLM))
    assert (found.format, found.model, found.kind) == ("vllm", "meta-llama/Llama-3.1-8B", "serve")
    assert (found.run.requests, found.run.failed) == (100, 3)
    assert found.run.output_tokens_per_s == 640
    assert found.run.ttft_s == {50: 0.125, 99: 0.4}
    assert found.run.tpot_s == {50: 0.0125, 90: 0.015, 99: 0.02}


def test_guidellms_report_has_the_same_figures(tmp_path):
    found = read(written(tmp_path, GUIDELLM))
    assert (found.format, found.model) == ("guidellm", "llama")
    assert (found.run.requests, found.run.failed) == (100, 3)
    assert found.run.ttft_s == {50: 0.125, 90: 0.4, 99: 0.4}
    assert found.run.tpot_s == {50: 0.0125, 90: 0.02, 99: 0.02}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({**VLLM, "completed": 49}, "49 requests were finished"),
        (
            {**VLLM, "num_prompts": 99},
            "100 requests were finished, and 99 sent; legal: no more finished than sent",
        ),
        ({**VLLM, "duration": "long"}, "duration is 'long'"),
        ({**VLLM, "duration": True}, "duration is True; legal: a number"),
        ({**VLLM, "median_ttft_ms": None}, "median_ttft_ms is missing"),
        ({**VLLM, "output_throughput": 0}, "output tokens a second is 0.0"),
        ({"benchmarks": []}, "0 benchmarks; legal: one"),
        ({"benchmarks": GUIDELLM["benchmarks"] * 2}, "2 benchmarks; legal: one"),
        ({"benchmarks": [{"duration": 1}]}, "metrics.request_totals.successful is missing"),
        ({"benchmarks": ["text"]}, "legal: a mapping of fields: duration, finished"),
        (
            {"other": 1},
            "no log of a known kind; legal: vllm, guidellm, torchtitan, trainer, nemo, csv",
        ),
        ([], "no log of a known kind"),
    ],
)
def test_what_cannot_be_used_is_refused(value, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        read(written(tmp_path, value))
