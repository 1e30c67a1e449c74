"""Services of scenarios."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.system.fleet import services

ROOT = Path(__file__).resolve().parents[3]
RATE = "replica_chips: 64\n    requests_per_s: 10"
SHAPE = "{peak_requests_per_s: 90}"
PLANNED = f"model: {ROOT / 'examples' / 'llama-3.1-8b.json'}\n    slo_tpot_s: 0.05\n"
PLANNED += "    input_tokens: 128\n    output_tokens: 16"


def test_a_service_is_read(scenario_of):
    found = scenario_of({"requests_per_s: 10": "requests_per_s: 10\n    programs_s: 5"})
    (chat,) = found.services
    assert (chat.replica_chips, chat.requests_per_s, chat.start_s) == (64, 10, 5)
    assert chat.basis == "given"
    assert chat.curve.p50.max() == pytest.approx(90)


def test_shapes_are_read(scenario_of):
    hours = ", ".join(["0.5"] * 24)
    shape = f"{{peak_requests_per_s: 8, hours: [{hours}], weekdays: [1, 0, 0, 0, 0, 0, 0], "
    (chat,) = scenario_of({SHAPE: shape + "p10: 0.5, p90: 3}"}).services
    assert np.allclose(chat.curve.p50[:276], 4)
    assert chat.curve.p50[276:] == pytest.approx(np.linspace(4, 0, 12, endpoint=False))
    assert np.allclose(chat.curve.p10, chat.curve.p50 / 2)
    assert np.allclose(chat.curve.p90, chat.curve.p50 * 3)


def test_a_table_lies_beside_the_scenario(scenario_of, tmp_path):
    rows = [f"2026-03-02T{hour:02}:00,{hour}" for hour in range(24)]
    (tmp_path / "chat.csv").write_text("\n".join(["time,requests_per_s", *rows]) + "\n")
    (chat,) = scenario_of({SHAPE: "chat.csv"}).services
    assert list(chat.curve.p50[::12]) == list(range(24))


@pytest.fixture
def planned(monkeypatch):
    """The server's planner, which takes seconds: what it was asked, and a given answer."""
    asked = {}

    def plan(model, where, _, demand, *, slo):
        asked.update(model=model.name, on=where.instance.name, demand=demand, slo=slo)
        answer = asked.get("most_per_s", 7.5)
        return SimpleNamespace(
            deployment=SimpleNamespace(instances=2), is_met=bool(answer), most_per_s=answer
        )

    monkeypatch.setattr(services, "plan", plan)
    return asked


def test_a_replica_is_planned_within_an_slo(scenario_of, planned):
    (chat,) = scenario_of({RATE: PLANNED}).services
    assert (chat.replica_chips, chat.requests_per_s) == (32, 7.5)
    assert chat.basis == "planned: 2 x trn2.48xlarge"
    assert (planned["model"], planned["on"]) == ("llama-3.1-8b", "trn2.48xlarge")
    assert planned["slo"].tpot_s == 0.05
    assert planned["slo"].ttft_s is None
    assert planned["demand"].longest == 144


def test_a_model_is_named_or_lies_beside_the_scenario(scenario_of, planned, tmp_path):
    asked = PLANNED.replace(str(ROOT / "examples" / "llama-3.1-8b.json"), "qwen3-8b")
    scenario_of({RATE: asked})
    assert planned["model"] == "qwen3-8b"
    (tmp_path / "qwen3-8b").write_bytes((ROOT / "examples" / "llama-3.1-8b.json").read_bytes())
    scenario_of({RATE: asked})
    assert planned["model"] == "qwen3-8b"
    with pytest.raises(BadInput, match=r"model is 'qwen3-9b': cannot read .*qwen3-9b"):
        scenario_of({RATE: asked.replace("qwen3-8b", "qwen3-9b")})


def test_an_slo_that_nothing_keeps_is_refused(scenario_of, planned):
    planned["most_per_s"] = 0.0
    with pytest.raises(BadInput, match="no layout on this instance keeps the SLO at any load"):
        scenario_of({RATE: PLANNED})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("replica_chips: 64", "replica_chips: 48", "replicas of 48 chips; legal: a divisor"),
        ("replica_chips: 64", "replica_chips: 0", "a.yaml:15: services.chat.replica_chips is '0'"),
        ("requests_per_s: 10", "requests_per_s: 0", "services.chat.requests_per_s is '0'; legal"),
        ("requests_per_s: 10", "requests_per_s: nan", "requests_per_s is 'nan'; legal"),
        ("requests_per_s: 10\n", "slo_ttft_s: 1\n", "slo_ttft_s is '1': it goes with model"),
        (RATE, PLANNED + "\n    replica_chips: 16", "model is given, from which it is planned"),
        (RATE, PLANNED.replace("slo_tpot_s: 0.05", "drain_s: 1"), "planned within an SLO"),
        (
            SHAPE,
            "{peak_requests_per_s: -1}",
            "demand.peak_requests_per_s is '-1'; legal: a number from 0",
        ),
        (
            SHAPE,
            "{peak_requests_per_s: 1, p10: 2}",
            "demand.p10 is '2'; legal: a number from 0 to 1",
        ),
        (
            SHAPE,
            "{peak_requests_per_s: 1, p90: 0.5}",
            "demand.p90 is '0.5'; legal: a number from 1",
        ),
        (
            SHAPE,
            "{peak_requests_per_s: 1, hours: [1]}",
            "demand.hours is ['1']: 1 items; legal: a list of exactly 24",
        ),
        (SHAPE, "none.csv", "none.csv"),
    ],
)
def test_bad_services_are_refused(scenario_of, old, new, said):
    with pytest.raises(BadInput) as error:
        scenario_of({old: new})
    assert said in str(error.value)
