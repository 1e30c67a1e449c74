import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput, OutOfMemory

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def table(output):
    lines = output.split("\n\n")[1].splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_training_is_a_row_per_platform():
    header, *rows = table(run("train", CONFIG))
    assert header[0] == "platform"
    assert [row[0] for row in rows] == ["trn1", "trn2", "trn3", "p5en"]
    prices = [row[-1] for row in rows]
    assert prices[1].startswith("35.76 USD/h capacity_block us-east-2, ap-south-2 2026-10-09")
    assert prices[2] == "no public price (capacity_block)"


def test_provenance_ends_the_output():
    output = run("train", CONFIG, "--on", "trn1,trn3")
    assert "trn1: validated; inputs: 4 documented, 0 measured, 2 derived, 1 assumed" in output
    assert "trn3: unvalidated; inputs: " in output
    assert "no public measurement of Trn3 exists" in output
    assert "\nassumed:\n  usable memory fraction = 0.9: " in output


def test_more_tokens_cost_more():
    few, many = (
        json.loads(run("train", CONFIG, "--tokens", n, "--on", "trn2", "--json"))[0]
        for n in ("1e9", "2e9")
    )
    assert many["usd"]["p50"] == pytest.approx(2 * few["usd"]["p50"])
    assert few["validated"] is False


def test_another_purchase_kind_is_asked_for_by_name():
    output = run("train", CONFIG, "--price", "on_demand", "--on", "trn2,p5en")
    assert "no public price (on_demand)" in output
    assert "63.30 USD/h on_demand us-east-1 2026-07-20" in output


@pytest.mark.parametrize("given", ["8,000", "8.000", "8.000,5", "8k", ""])
@pytest.mark.parametrize("option", ["--tokens", "--sequence", "--batch-tokens", "--instances"])
def test_a_number_that_may_be_another_is_refused(option, given):
    result = CliRunner().invoke(app, ["plan", "train", CONFIG, "--on", "trn1", option, given])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


def test_more_instances_than_there_are_is_refused_at_once():
    with pytest.raises(BadInput, match="1000001 instances; legal: at most 1,000,000"):
        run("train", CONFIG, "--on", "trn1", "--instances", "1000001")
    with pytest.raises(BadInput, match="at most 1,000,000"):
        run("train", CONFIG, "--on", "trn1", "--instances", "9" * 30)


@pytest.mark.parametrize("given", ["inf", "nan", "-5", "0", "1e999"])
def test_tokens_are_positive_and_finite(given):
    with pytest.raises(BadInput, match="tokens must be positive and finite"):
        run("train", CONFIG, "--on", "trn1", "--tokens", given)


@pytest.mark.parametrize("given", ["8_000", "8e3", "8000.0"])
def test_the_same_number_may_be_written_in_several_ways(given):
    (found,) = json.loads(run("train", CONFIG, "--on", "trn1", "--tokens", given, "--json"))
    (plain,) = json.loads(run("train", CONFIG, "--on", "trn1", "--tokens", "8000", "--json"))
    assert found == plain


def test_too_few_instances_say_how_many(tmp_path):
    config = json.loads(Path(CONFIG).read_text())
    config["num_hidden_layers"] = 320
    path = tmp_path / "large.json"
    path.write_text(json.dumps(config))
    with pytest.raises(OutOfMemory, match=r"fix: use at least 3 instances"):
        run("train", str(path), "--on", "trn1", "--instances", "1")
