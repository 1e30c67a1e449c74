import json

import pytest
from typer.testing import CliRunner

from trnsim.cli import app

LAYOUT = {
    "tensor": 8,
    "pipeline": 1,
    "virtual": 1,
    "data": 4,
    "context": 1,
    "expert": 1,
    "zero": 1,
    "recompute": "none",
    "is_sequence": True,
    "micro_batch": 1,
    "global_batch": 64,
    "sequence": 2048,
    "dtype": "bf16",
    "schedule": "1f1b",
    "optimizer": "adamw",
}
PLAN = {
    "schema": "plan-train/1",
    "model": "llama-3.2-1b",
    "tokens": 1e9,
    "steps": 100.0,
    "instance": "trn1.32xlarge",
    "instances": 1,
    "layout": LAYOUT,
}


def run(*words, status=0):
    result = CliRunner().invoke(app, ["job", *map(str, words)])
    assert result.exit_code == status, result.output
    return result.output if "--json" in words else " ".join(result.output.split())


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


def test_a_checked_job_has_its_roles_and_no_finding(plan):
    text = run("check", plan)
    assert f"{plan}:1: stored plan of training 'train': 1 x trn1.32xlarge, 16 devices" in text
    assert text.endswith("1 job: no finding")
    (answer,) = json.loads(run("check", plan, "--json"))
    assert answer["schema"] == "job-check/1"
    assert answer["roles"][0]["devices"] == 16
    assert answer["parallelism"]["tensor"] == 8
    assert answer["findings"] == answer["templates"] == answer["not_understood"] == []


def test_a_priced_job_has_time_and_bill(plan):
    (answer,) = json.loads(run("price", plan, "--json"))
    assert answer["time_basis"] == "plan"
    assert answer["steps"] == 100
    assert answer["usd"]["p50"] == pytest.approx(
        answer["time_s"]["p50"] / 3600 * answer["usd_per_hour"]
    )
    text = run("price", plan)
    assert "100 steps of " in text
    assert "bill " in text


def test_options_state_what_a_spec_does_not(plan):
    plan.write_text(json.dumps(PLAN | {"model": "", "steps": 0}))
    assert "no option names a model; --model NAME states it" in run("price", plan)
    assert "--run-steps or --run-tokens states it" in run("price", plan, "--model", "llama-3.2-1b")
    text = run("price", plan, "--model", "llama-3.2-1b", "--run-steps", "100")
    assert "100 steps of " in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--price", "spto"), "--price is 'spto'; legal: on_demand"),
        (("--run-steps", "0"), "--run-steps 0; legal: above 0"),
        (("--model", "nobody"), "nobody: no such file, and no model of this name"),
    ],
)
def test_an_illegal_option_is_refused(plan, words, why):
    result = CliRunner().invoke(app, ["job", "price", str(plan), *words])
    assert result.exit_code
    assert why in f"{result.output}{result.exception}"


def test_two_versions_differ_in_time_and_bill(plan, tmp_path):
    after, page = tmp_path / "after.json", tmp_path / "change.md"
    after.write_text(json.dumps(PLAN | {"instances": 2, "layout": LAYOUT | {"data": 8}}))
    text = run("diff", plan, after, "--output", page)
    assert "roles.0.replicas" in text
    answer = json.loads(run("diff", plan, after, "--json"))
    assert answer["schema"] == "job-diff/1"
    assert {"field": "roles.0.replicas", "before": 1, "after": 2} in answer["changes"]
    hourly = [answer[side]["usd_per_hour"] for side in ("before", "after")]
    assert hourly[1] == pytest.approx(2 * hourly[0])
    assert "| USD/h |" in page.read_text()
    assert "+100.0%" in page.read_text()


def test_files_of_several_jobs_are_not_compared(plan, tmp_path):
    several = tmp_path / "several.json"
    several.write_text(json.dumps([PLAN, PLAN]))
    result = CliRunner().invoke(app, ["job", "diff", str(plan), str(several)])
    assert "holds 2 jobs, in lines 1, 1" in f"{result.output}{result.exception}"


def test_an_unknown_format_is_refused(plan):
    result = CliRunner().invoke(app, ["job", "write", str(plan), "--as", "word"])
    assert "--as word; legal: " in f"{result.output}{result.exception}"
