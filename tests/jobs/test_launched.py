import json
from dataclasses import replace

import pytest

from trnsim.errors import BadInput
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, Role
from trnsim.jobs.launched import launched_time
from trnsim.jobs.planned import planned_job
from trnsim.jobs.price import price_job
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

PLANNED = planned_job(
    machine("trn1.32xlarge", 2),
    Layout(tensor=8, data=8, micro_batch=1, global_batch=64, sequence=2048),
    model="llama-3.2-1b",
    steps=100,
)
RANK = {"rank": 0, "steps": 3, "device_time_s": 0.5, "step_s": 0.75, "exposed_s": 0.25}


@pytest.fixture(scope="module")
def price():
    return price_job(PLANNED)


def world(folder, **fields):
    path = folder / "world.json"
    content = {
        "schema": "launch/1",
        "instance": "trn1.32xlarge",
        "nodes": 2,
        "ranks_per_node": 32,
        "ranks": [RANK | {"step_s": 0.5}, RANK],
    }
    path.write_text(json.dumps(content | fields))
    return path


def test_a_launch_has_the_slowest_ranks_time_for_the_steps_of_the_price(price, tmp_path):
    time = launched_time(price, world(tmp_path))
    parts = {term.name: (term.priced_s, term.launched_s) for term in time.terms}
    planned = price.training.step.parts_s
    assert (time.steps, time.launched_steps) == (100, 3)
    assert parts["computing"] == pytest.approx(
        (100 * (planned["compute"] + planned["optimizer"]), 50.0)
    )
    assert parts["exchanges, as far as exposed"][1] == pytest.approx(25.0)
    assert parts["host between steps"] == pytest.approx((100 * planned["host"], 0.0))
    assert time.total.priced_s == pytest.approx(price.time_s.p50)
    assert time.total.launched_s == pytest.approx(75.0)
    assert time.usd(time.total.priced_s) == pytest.approx(price.usd.p50)
    assert sum(term.difference_s for term in time.terms) == pytest.approx(time.total.difference_s)


def test_equal_times_differ_in_no_term_and_others_in_the_largest_first(price, tmp_path):
    step_s = price.time_s.p50 / 100
    host_s = price.training.step.parts_s["host"]
    rank = RANK | {"device_time_s": step_s - host_s, "step_s": step_s * 1.009}
    assert launched_time(price, world(tmp_path, ranks=[rank])).is_equal
    time = launched_time(price, world(tmp_path))
    assert not time.is_equal
    sizes = [abs(term.difference_s) for term in time.main_differences]
    assert sizes == sorted(sizes, reverse=True)
    assert min(sizes) > 0.01 * time.total.priced_s


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"schema": "plan-train/1"}, "no report of a launch"),
        ({"nodes": 1}, "is of 1 x trn1.32xlarge with 32 ranks each; the price is of 2 x trn1"),
        ({"ranks_per_node": 16}, "with 16 ranks each; the price is of 2 x trn1.32xlarge with 32"),
        ({"instance": "trn2.48xlarge"}, "is of 2 x trn2.48xlarge with 32 ranks each"),
        ({"ranks": []}, "ranks"),
        ({"ranks": [RANK | {"step_s": -1}]}, "step_s is -1"),
        ({"ranks": [{"rank": 0}]}, "steps"),
    ],
)
def test_another_report_is_refused(price, tmp_path, fields, why):
    with pytest.raises(BadInput, match=why):
        launched_time(price, world(tmp_path, **fields))


def test_a_job_without_a_plan_is_not_compared(tmp_path):
    job = replace(PLANNED, model="", roles=(Role(instance="trn1.32xlarge"),))
    with pytest.raises(BadInput, match="no plan to compare the launch with: no option names a mod"):
        launched_time(price_job(job), world(tmp_path))
    assert price_job(Job(roles=(Role(),))).training is None


def test_a_slurm_script_of_two_nodes_is_compared_and_its_differing_terms_are_named(tmp_path):
    """The plan's job as sbatch reads it, beside the report of its launch on two nodes."""
    script = tmp_path / "train.sbatch"
    script.write_text(write_spec(PLANNED, "sbatch"))
    (spec,) = read_specs(script)
    assert spec.job.roles[0].replicas == 2
    of_script = price_job(spec.job, SpecAssumption(steps=100))
    time = launched_time(of_script, world(tmp_path))
    assert not time.is_equal
    assert time.main_differences[0].name == max(time.terms, key=lambda t: abs(t.difference_s)).name
    named_s = sum(term.difference_s for term in time.terms)
    assert named_s == pytest.approx(75.0 - of_script.time_s.p50)
    step_s = of_script.time_s.p50 / 100
    host_s = of_script.training.step.parts_s["host"]
    rank = RANK | {"device_time_s": step_s - host_s, "step_s": step_s}
    assert launched_time(of_script, world(tmp_path, ranks=[rank])).is_equal
