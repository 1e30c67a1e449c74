import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def table(output):
    lines = output.split("\n\n")[1].splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


def test_serving_is_a_row_per_platform():
    header, *rows = table(run("serve", CONFIG, "--batch", "16"))
    assert header[3:5] == ["TTFT P50 (P10 to P90)", "TPOT P50 (P10 to P90)"]
    assert [row[0] for row in rows] == ["trn1", "trn2", "trn3", "p5en"]


def test_serving_as_json():
    served = json.loads(run("serve", CONFIG, "--on", "trn1,trn3", "--json"))
    assert served[0]["usd_per_million_tokens"]["p10"] < served[0]["usd_per_million_tokens"]["p90"]
    assert served[1]["usd_per_million_tokens"] is None


@pytest.mark.parametrize("option", ["--batch", "--context", "--output-tokens", "--chips"])
def test_so_is_one_of_serving(option):
    result = CliRunner().invoke(app, ["plan", "serve", CONFIG, "--on", "trn1", option, "8.000"])
    assert result.exit_code == 2
    assert "is no whole number; write it without separators or unit" in result.output
