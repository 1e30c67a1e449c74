"""Fleets, pilots and claims say of training, serving and passes what plans say of them."""

import csv
import json

import pytest
import yaml
from small_models import LLAMA
from typer.testing import CliRunner
from workload_rates import WORKLOADS, done

from trnsim.cli import app
from trnsim.formatting import counted
from trnsim.system.claims.rates import stored_rates

CHIPS = 16
"""Of a trn1.32xlarge and of a trn2.48xlarge."""


@pytest.fixture
def config(tmp_path):
    """A model that every instance holds."""
    path = tmp_path / "llama.json"
    path.write_text(json.dumps(LLAMA))
    return path


def said(*words):
    """What a command prints as JSON."""
    found = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


# Daily, pilots are compared with decisions (tests/decide/pilot/test_sides.py), and decisions with
# plans (tests/decide/times/test_training.py).
@pytest.mark.slow
def test_a_pilot_runs_the_layout_of_a_training_plan_at_its_rate(config, tmp_path):
    inventory, folder = tmp_path / "inventory.csv", tmp_path / "pilot"
    with inventory.open("w") as file:
        row = {"workload": "nightly", "model_config": config.name, "kind": "train"}
        row |= {"tokens_per_month": 4e11, "current_instance": "p5en.48xlarge"}
        table = csv.DictWriter(file, [*row, "usd_per_month"])
        table.writeheader()
        table.writerow(row | {"usd_per_month": 160_000})
    words = ["pilot", "write", str(inventory), "--on", "trn1.32xlarge", "--out", str(folder)]
    assert CliRunner().invoke(app, words).exit_code == 0
    pilot = json.loads((folder / "pilot.json").read_text())
    for side in (pilot["today"], pilot["there"]):
        shape = (
            "--sequence",
            pilot["run"]["sequence"],
            "--global-batch",
            pilot["run"]["sequences"],
        )
        words = ("--on", side["instance"], "--instances", side["instances"], *shape)
        plan = said("plan", "train", config, *words)
        layout, rates = plan["layout"], plan["tokens_per_s_per_chip"]
        rates = {name: rate * plan["chips"] for name, rate in rates.items()}
        assert side["rate_per_s"] == pytest.approx(rates)
        assert f"DP={layout['data']} " in side["layout"]
        assert f"micro batch {layout['micro_batch']}" in side["layout"]


def scenario(folder, part):
    """A fleet of one UltraServer with a service or a job."""
    path = folder / "fleet.yaml"
    fleet = {
        "instance": "trn2.48xlarge",
        "buildings": {"north": 1},
        "spares": 0,
        "ultraserver_chips": 4 * CHIPS,
        "usd_per_chip_hour": 1.5,
        "usd_per_kwh": 0.08,
        "watts_per_chip": {"serving": 450, "training": 500, "idle": 150},
    }
    top = {"name": "one", "timezone": "UTC", "start": "2026-03-02", "days": 1, "fleet": fleet}
    path.write_text(yaml.safe_dump(top | part))
    return said("plan", "fleet", path, "--policy", "separate", "--draws", 1)


@pytest.mark.slow
def test_a_job_of_a_fleet_has_the_tokens_of_a_training_plan(config, tmp_path):
    job = {"smallest_chips": 4 * CHIPS, "largest_chips": 4 * CHIPS, "model": config.name}
    fleet = scenario(tmp_path, {"jobs": {"research": job | {"straggler_spread": 0.0}}})
    *_, level = fleet["jobs"][0]["levels"]
    words = ("--on", "trn2.48xlarge", "--instances", 4, "--budget", 12)
    plan = said("plan", "train", config, *words)
    assert level["chips"] == plan["chips"] == 4 * CHIPS
    rate = plan["tokens_per_s_per_chip"]["p50"] * plan["chips"]
    assert level["tokens_per_s"] == pytest.approx(rate)


@pytest.mark.slow
def test_a_replica_of_a_fleet_has_the_requests_of_a_serving_plan(tmp_path, request):
    config = request.config.rootpath / "examples" / "llama-3.1-8b.json"
    (tmp_path / config.name).write_text(config.read_text())
    demand = {"peak_requests_per_s": 1}
    service = {"model": config.name, "slo_tpot_s": 0.05, "demand": demand}
    fleet = scenario(tmp_path, {"services": {"chat": service}})
    words = ("--input-len", 2048, "--output-len", 256, "--slo-tpot", 0.05)
    plan = said("plan", "serve", config, "--on", "trn2.48xlarge", *words)
    most = plan["max_requests_per_s_within_slo"]
    assert fleet["services"][0]["replica_chips"] == CHIPS * plan["instances"]
    assert fleet["services"][0]["requests_per_s"] == pytest.approx(most)


@pytest.mark.slow
@pytest.mark.usefixtures("shortest_runs")
def test_a_decision_about_a_promise_is_the_answer_of_a_serving_plan(config, tmp_path):
    """Of today's and of the best place; a decision has no spare on either side."""
    inventory, rate_per_s = tmp_path / "inventory.csv", 60.0
    hours, outputs = 730, 32
    row = {
        "workload": "chat", "model_config": config.name, "kind": "serve",
        "tokens_per_month": rate_per_s * outputs * 3600 * hours, "input_len": 128,
        "output_len": outputs, "ttft_s": 0.05, "tpot_s": 0.05, "current_instance": "inf2.24xlarge",
        "purchase_kind": "on_demand", "usd_per_month": 9000,
    }  # fmt: skip
    with inventory.open("w") as file:
        table = csv.DictWriter(file, row)
        table.writeheader()
        table.writerow(row)
    decision = said("assess", inventory, "--on", "inf2.xlarge,inf2.24xlarge")
    (workload,) = decision["workloads"]
    words = ("--input-len", 128, "--output-len", outputs, "--slo-ttft", 0.05, "--slo-tpot", 0.05)
    assert workload["best"] == "inf2.xlarge"
    for candidate in workload["candidates"]:
        on = ("--on", f"{candidate['instance']}:on_demand", "--spare", "none")
        plan = said("plan", "serve", config, *on, "--request-rate", rate_per_s, *words)
        assert plan["is_slo_met"]
        assert plan["instances"] == candidate["instances"]
        replicas = plan["data_parallel_size"] // plan["instances"]
        ranks, sequences = plan["tensor_parallel_size"], plan["max_num_seqs"]
        parts = counted(replicas, "replica"), counted(ranks, "rank")
        layout = f"{' of '.join(parts)}, {counted(sequences, 'sequence')}"
        assert candidate["layout"] == layout
        assert candidate["paid_hours"] == plan["instances"] * hours
        usd = plan["usd_per_hour"] * hours
        listed = candidate["price"]["usd_per_hour"] * candidate["paid_hours"]
        assert listed == pytest.approx(usd)


DAILY = {("infer BERT base", "trn1.32xlarge"), ("infer ViT base", "g6.xlarge")}
"""The others take a minute."""
RATES = [
    pytest.param(
        one,
        instance,
        marks=[] if (one.name, instance) in DAILY else pytest.mark.slow,
        id=f"{one.name} on {instance}",
    )
    for one in WORKLOADS
    for instance in stored_rates()[one.name]
]


@pytest.mark.parametrize(("workload", "instance"), RATES)
def test_a_claim_rests_on_what_the_planner_says_today(workload, instance, request):
    configs = request.config.rootpath / "bench" / "system" / "configs"
    now = done(workload, configs / workload.config, instance)
    before = stored_rates()[workload.name][instance]
    assert now.per_s == pytest.approx(before["per_s"], rel=0.01)
    assert now.instances == before["instances"]
