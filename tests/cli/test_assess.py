"""trnsim assess: decisions in 100 columns, as JSON, and in a file; bad input is named."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import assess as command
from trnsim.decide.decision import read
from trnsim.decide.inventory.template import template
from trnsim.errors import BadInput

ROOT = Path(__file__).parents[2]
INVENTORY = str(ROOT / "examples" / "inventory.csv")
COMPANIES = ROOT / "tests" / "decide" / "companies"
PARCELS = str(COMPANIES / "parcels" / "inventory.csv")
PROTEINS = str(COMPANIES / "proteins" / "inventory.csv")
ON = ("--on", "inf2.xlarge", "--as-of", "2026-11-21")


def run(*arguments):
    result = CliRunner().invoke(app, ["assess", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_decision_is_told_in_100_columns():
    output = run(PARCELS, *ON)
    assert output.startswith("addresses: GO. inf2.xlarge saves 61% at P50")
    assert "yes  10,000 USD a month: 60,000 USD a month" in output
    assert "prices of 2026-11-21, seed 0, 4000 draws" in output
    assert max(map(len, output.splitlines())) <= 100


def test_the_file_is_what_json_prints(tmp_path):
    path = tmp_path / "decision.json"
    assert run(PARCELS, *ON, "--out", str(path)).endswith(f"wrote {path}\n")
    assert json.loads(run(PARCELS, *ON, "--json")) == json.loads(path.read_text())
    assert read(path).workload("addresses").best == "inf2.xlarge"


@pytest.mark.slow
def test_programs_are_scanned():
    output = run(PROTEINS, "--on", "trn1.32xlarge", "--as-of", "2026-11-21")
    assert output.startswith("folding: NO-GO. CUDA-only: ")
    assert "support of operators: residue_attention.py:" in output


def test_another_kind_is_that_of_both_sides():
    """trn1 and inf2 have effective prices of reservations, g5 has none: the bill gives its own."""
    output = json.loads(run(PARCELS, *ON, "--price", "ri_effective", "--json"))
    kinds = {one["kind"] for one in output["workloads"][0]["candidates"]}
    assert kinds <= {"ri_effective", ""}


def test_another_seed_is_said():
    assert "seed 7, 4000 draws" in run(PARCELS, *ON, "--seed", "7")


def test_the_template_is_printed_and_needs_no_inventory():
    assert run("--template") == template()


def test_a_report_has_a_page_its_figures_and_a_table(tmp_path):
    folder = tmp_path / "report"
    output = run(PARCELS, *ON, "--report", str(folder))
    assert output.endswith(f"wrote {folder / 'page.html'}\n")
    values = json.loads((folder / "figures.json").read_text())
    usd = values["workloads"][0]["today"]["usd_per_month"]
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert f'value="{usd!r}" data-of="/workloads/0/today/usd_per_month">60,000</data>' in page
    rows = list(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert [row["instance"] for row in rows] == [
        one["instance"] for one in values["workloads"][0]["candidates"]
    ]
    printed = run(PARCELS, *ON, "--report", str(folder), "--json")
    assert json.loads(printed)["workloads"][0]["best"] == "inf2.xlarge"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "assess_inventory", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write to the folder"):
        run(PARCELS, "--report", str(tmp_path / "file"))


SMALL_LLAMA = ROOT / "tests" / "decide" / "small_llama.json"
QUICK = ("--on", "g6e.xlarge", "--as-of", "2026-11-21")


@pytest.mark.slow
def test_the_template_is_assessed_as_it_is_printed(tmp_path):
    path = tmp_path / "inventory.yaml"
    path.write_text(run("--template"))
    (tmp_path / "config.json").write_text(SMALL_LLAMA.read_text())
    output = run(str(path), *QUICK)
    assert output.startswith("chat: NO-GO. no instance with AWS's chips")
    words = " ".join(output.split())
    assert "today 2 x p5.48xlarge on_demand, 80,000 USD a month" in words


BILL = """\
line_item_line_item_type,line_item_usage_type,line_item_usage_start_date,line_item_usage_amount,\
line_item_unblended_cost,product_region_code,resource_tags
Usage,BoxUsage:p5.48xlarge,2026-10-01T00:00:00Z,744,40949.76,us-east-1,"{""team"":""chat""}"
Usage,BoxUsage:g5.xlarge,2026-10-02T00:00:00Z,1000,1006,us-east-1,"{""team"":""small""}"
"""
MODELS = "- {workload: chat, model_config: config.json, kind: serve, tag: team=chat}\n"


def test_a_bill_of_a_long_month_is_of_the_instances_that_ran(tmp_path):
    """744 hours of October are one instance all month, at 730 hours of 55.04 USD."""
    (tmp_path / "october.csv").write_text(BILL)
    (tmp_path / "october.models.yaml").write_text(MODELS)
    (tmp_path / "config.json").write_text(SMALL_LLAMA.read_text())
    (found,) = json.loads(run(str(tmp_path / "october.csv"), *QUICK, "--json"))["workloads"]
    assert found["today"]["paid_hours"] == 730
    assert found["today"]["usd_per_month"] == 40949.76
    assert "1,006 USD of accelerators in october.csv are no workload's" in found["assumptions"]


def test_own_prices_are_those_of_both_sides(tmp_path):
    own = tmp_path / "own.csv"
    own.write_text(
        "instance,kind,usd_per_hour,region,as_of\ninf2.xlarge,on_demand,0.5,us-east-1,2026-11-01\n"
    )
    (found,) = json.loads(run(PARCELS, *ON, "--prices", str(own), "--json"))["workloads"]
    (there,) = [one for one in found["candidates"] if one["instance"] == "inf2.xlarge"]
    assert there["price"]["usd_per_hour"] == 0.5


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "assess_inventory", None)
    with pytest.raises(BadInput, match="cannot write"):
        run(PARCELS, "--out", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], "cannot read none.csv"),
        ([], "no INVENTORY is given"),
        ([PARCELS, "--on", "tpu"], "'tpu' is no chip, family or instance type; legal: trn1"),
        ([PARCELS, "--price", "cheap"], "purchase kind 'cheap' is not known; legal: on_demand"),
        ([PARCELS, "--as-of", "2999-01-01"], "is in the future"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(BadInput, match=message):
        run(*arguments)


@pytest.mark.slow
def test_yesterdays_inventories_stay_legal():
    output = run(INVENTORY, "--on", "trn1.2xlarge", "--as-of", "2026-11-21")
    assert output.count(" USD a month\n") >= 4
    assert "weekly-tuning: NO-GO. " in output
