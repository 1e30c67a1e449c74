import json

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job

LAYOUT = {
    "tensor": 8,
    "pipeline": 1,
    "virtual": 1,
    "data": 8,
    "context": 1,
    "expert": 1,
    "zero": 1,
    "recompute": "none",
    "is_sequence": True,
    "micro_batch": 1,
    "global_batch": 64,
    "sequence": 4096,
    "dtype": "bf16",
    "schedule": "1f1b",
    "optimizer": "adamw",
}
PLAN = {
    "schema": "plan-train/1",
    "model": "llama-3.1-8b",
    "tokens": 1e9,
    "steps": 238.4,
    "instance": "trn2.48xlarge",
    "instances": 1,
    "layout": LAYOUT,
    "more": [1],
}


def read(tmp_path, value):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(value, indent=1))
    return read_specs(path)


def test_a_stored_plan_is_the_job_that_runs_it(tmp_path):
    (spec,) = read(tmp_path, PLAN)
    assert (spec.format, spec.job.model, spec.start.line) == ("plan", "llama-3.1-8b", 1)
    (role,) = spec.job.roles
    assert (role.replicas, role.instance, role.devices) == (1, "trn2.48xlarge", 16)
    assert "238" in role.command


def test_each_of_several_plans_is_a_job(tmp_path):
    specs = read(tmp_path, [PLAN, {"schema": "other/1"}, PLAN | {"instances": 4}])
    assert [spec.job.replicas for spec in specs] == [1, 4]


def test_a_plan_without_a_model_has_a_job_without_one(tmp_path):
    (spec,) = read(
        tmp_path, {name: PLAN[name] for name in ("schema", "instance", "instances", "layout")}
    )
    assert spec.job.model == ""
    assert "--train-iters" not in spec.job.roles[0].command


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"instances": 0}, r"plan.json:\d+: instances is 0; legal: a whole number from 1"),
        ({"layout": {"tensor": "x"}}, r"layout.tensor is 'x'"),
        ({"instance": "trn9"}, "trn9"),
    ],
)
def test_a_plan_that_is_no_plan_is_refused(tmp_path, change, why):
    with pytest.raises(BadInput, match=why):
        read(tmp_path, PLAN | change)


def test_no_job_is_written_as_a_plan():
    with pytest.raises(BadInput, match="--as plan: a plan is no spec of a job"):
        write_spec(Job(), "plan")
