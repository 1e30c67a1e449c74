"""A pilot comes back from its file as it was, and a file that is none is refused by name."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pilot_cases import pilot_of
from workload_cases import LLAMA, workload

from trnsim.decide.pilot.checks import Check, Log, PilotResult, RateMeasurement
from trnsim.decide.pilot.plan import (
    Pilot,
    check_unchanged,
    decision_files,
    digests,
    read,
    relative,
)
from trnsim.errors import BadInput


def full():
    """A pilot with every field filled."""
    made = pilot_of("train")
    side = RateMeasurement("today", "p5.48xlarge", 1e5, 9e4, 1.11, 0.01, 0.3, 0.02)
    log = Log("today.csv", "today", "csv", 100, 9e4, 2.0)
    check = Check("loss", "relative", 0.02, is_least=False, figure=0.01, is_met=True)
    return replace(
        made, result=PilotResult((log,), side, side, (check,), made.decision.workloads[0])
    )


@pytest.mark.parametrize("made", [pilot_of("train"), pilot_of("serve"), full()])
def test_a_pilot_comes_back_as_it_was(made, tmp_path):
    (tmp_path / "pilot.json").write_text(made.text())
    assert read(tmp_path) == made


def test_a_folder_without_a_pilot_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"has no pilot.json") as caught:
        read(tmp_path)
    assert "trnsim pilot write" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 2}, "format is 2; legal: 1"),
        ({"workload": 3}, r"pilot.json:\d+: workload is 3; legal: text"),
        ({"workload": "c"}, r"pilot.json:\d+: workload is 'c'; legal: a workload of .*: chat"),
        ({"extra": 3}, "the field 'extra' is not known; legal: version, inventory"),
    ],
)
def test_another_format_and_other_fields_are_refused(change, text, tmp_path):
    values = json.loads(pilot_of("train").text()) | change
    (tmp_path / "pilot.json").write_text(json.dumps(values))
    with pytest.raises(BadInput, match=text):
        read(tmp_path)


@pytest.mark.parametrize(
    ("part", "name", "value", "text"),
    [
        ("today", "instances", 0, "today.instances is 0; legal: above 0"),
        ("there", "rate_per_s", {"p10": 0, "p50": 1, "p90": 2}, "legal: p10, p50 and p90 above 0"),
        ("there", "name", "today", "there.name is 'today'; legal: there"),
        ("there", "instance", "p5", "is 'p5'; legal: a candidate of the decision: trn1.32xlarge, "),
        ("run", "sequence", -1, "run.sequence is -1; legal: above 0"),
        ("run", "dtype", "fp64", "run.dtype is 'fp64'; legal: fp32, fp16, bf16, fp8"),
        ("run", "kind", "tune", "kind is 'tune'; legal: train, serve, infer"),
        ("decision", "workloads", [], "legal: a workload of the decision: none, as"),
        ("decision", "as_of", "today", "decision.as_of is 'today'; legal: a day as 2026-11-21"),
    ],
)
def test_values_that_no_result_follows_from_are_refused(part, name, value, text, tmp_path):
    values = json.loads(pilot_of("train").text())
    values[part][name] = value
    (tmp_path / "pilot.json").write_text(json.dumps(values))
    with pytest.raises(BadInput) as caught:
        read(tmp_path)
    assert text in str(caught.value)


def test_a_list_is_no_pilot(tmp_path):
    (tmp_path / "pilot.json").write_text("[]")
    with pytest.raises(BadInput, match="format is missing; legal: 1"):
        read(tmp_path)


def test_a_file_that_changed_or_is_gone_is_refused(tmp_path):
    inventory, folder = tmp_path / "bill.csv", tmp_path / "pilot"
    inventory.write_text("a")
    made = replace(pilot_of("train"), digests=digests([inventory], folder))
    assert list(made.digests) == ["../bill.csv"]
    check_unchanged(made, folder, "0")
    inventory.write_text("b")
    with pytest.raises(BadInput, match=r"bill.csv has changed since the pilot was written"):
        check_unchanged(made, folder, "0")
    inventory.unlink()
    with pytest.raises(BadInput, match=r"cannot read .*bill.csv"):
        check_unchanged(made, folder, "0")


def test_a_pilot_of_another_version_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"is of trnsim 0, and this is 1, which may predict other"):
        check_unchanged(pilot_of("train"), tmp_path, "1")


def test_a_pilot_rests_on_its_inventory_its_model_and_its_prices():
    found = decision_files(workload(), Path("inventory.csv"), Path("prices.csv"))
    assert found == [Path("inventory.csv"), Path("inventory.csv"), LLAMA, Path("prices.csv")]


def test_paths_are_as_seen_from_the_folder(tmp_path):
    assert relative(tmp_path / "a.csv", tmp_path / "x" / "y") == "../../a.csv"


def test_what_was_decided_is_of_the_workload():
    made = pilot_of("train")
    assert isinstance(made, Pilot)
    assert made.workload_decision.name == "chat"
    assert made.sides["there"] is made.there
