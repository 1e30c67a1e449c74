"""`trnsim pilot` from an inventory to the renewed decision, and what it refuses."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from schema_checks import assert_both_ways
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

sys.path.append(str(Path(__file__).parents[1] / "decide" / "pilot"))

from log_cases import csv_log, step_s, titan_log

from trnsim.decide import decision as decisions
from trnsim.decide.pilot.plan import read as read_pilot

DECIDE = Path(__file__).parents[1] / "decide"
SETTINGS = ("--on", "trn1.32xlarge", "--as-of", "2026-11-21")


def run(*arguments):
    given = [str(one) for one in arguments]
    result = CliRunner().invoke(app, ["pilot", *given], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    """An inventory with its pilot, written once."""
    folder = tmp_path_factory.mktemp("laws")
    shutil.copytree(DECIDE / "companies" / "laws", folder / "laws")
    inventory = folder / "laws" / "inventory.csv"
    said = run("write", inventory, "--out", folder / "pilot", *SETTINGS)
    return inventory, folder / "pilot", said


@pytest.fixture
def logs(company, tmp_path):
    pilot = read_pilot(company[1])
    return [
        csv_log(tmp_path / f"{side}.csv", step_s(pilot, side, factor), seed=at)
        for at, (side, factor) in enumerate((("today", 0.9), ("there", 1.1)))
    ]


def test_writing_says_what_was_chosen_and_why(company):
    _, folder, said = company
    assert said.startswith("pretraining: p5en.48xlarge and trn1.32xlarge\n  its pilot tells most")
    assert f"wrote {folder / 'pilot.json'}" in said
    assert (folder / "launch" / "there-sbatch.sh").is_file()


@pytest.mark.slow
def test_reading_renews_the_decision_and_writes_the_document(company, logs, tmp_path):
    _, folder, _ = company
    said = run("read", folder, *logs)
    assert said.startswith("pretraining: GO. trn1.32xlarge saves")
    assert "before the pilot: go" in said
    assert "wrote" in said
    assert decisions.read(folder / "decision.json").workload("pretraining").verdict == "go"
    assert (folder / "migration.md").read_text().startswith("# Migration: pretraining")
    found = json.loads(run("read", folder, *logs, "--json"))
    assert found["there"]["factor"] == pytest.approx(1.1, rel=0.01)
    there = read_pilot(folder).sides["there"]
    lost = titan_log(tmp_path / "there.log", there.rate_per_s.p50 / there.ranks, loss=math.nan)
    other = json.loads(run("read", folder, logs[0], lost, "--json"))
    assert_both_ways([found, other], "pilot-read/1", elsewhere="/renewed/")


def test_a_bad_log_changes_nothing(company, logs):
    _, folder, _ = company
    run("read", folder, *logs)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    logs[1].write_text("step,loss,step_s\n1,2.0,nan\n")
    with pytest.raises(BadInput, match=r"there.csv"):
        run("read", folder, *logs)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_folder_with_a_pilot_is_refused(company):
    inventory, folder, _ = company
    with pytest.raises(BadInput, match="has a pilot already"):
        run("write", inventory, "--out", folder, *SETTINGS)


def test_an_inventory_that_changed_is_refused(company, logs, tmp_path):
    inventory, folder, _ = company
    copied = tmp_path / "all"
    shutil.copytree(inventory.parents[1], copied)
    changed = copied / "laws" / "inventory.csv"
    changed.write_text(changed.read_text() + "\n")
    with pytest.raises(BadInput, match=r"inventory.csv has changed since the pilot was written"):
        run("read", copied / folder.name, *logs)


def test_a_folder_that_moves_with_its_inventory_is_read(company, logs, tmp_path):
    inventory, folder, _ = company
    copied = tmp_path / "all"
    shutil.copytree(inventory.parents[1], copied)
    assert "GO" in run("read", copied / folder.name, *logs)


def test_a_folder_without_a_pilot_is_refused(logs, tmp_path):
    with pytest.raises(BadInput, match=r"has no pilot.json"):
        run("read", tmp_path, *logs)


def test_an_unknown_workload_is_refused(company, tmp_path):
    with pytest.raises(BadInput, match="do you mean pretraining"):
        run("write", company[0], "--out", tmp_path / "p", *SETTINGS, "--workload", "pretrain")


def test_a_pilot_of_no_steps_is_refused(company, tmp_path):
    words = ("write", company[0], "--out", tmp_path / "p", *SETTINGS, "--steps", "0")
    told = CliRunner().invoke(app, ["pilot", *map(str, words)])
    assert "'--steps': '0' is below 1; legal: whole numbers from 1 on" in told.output


def test_writing_answers_as_json(company, tmp_path):
    inventory, _, _ = company
    folder = tmp_path / "pilot"
    told = json.loads(run("write", inventory, "--folder", folder, *SETTINGS, "--json"))
    assert (told["workload"], told["there"]) == ("pretraining", "trn1.32xlarge")
    assert all((folder / name).is_file() for name in told["files"])
    assert_both_ways([told], "pilot-write/1")
