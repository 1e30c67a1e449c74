"""A plan of training as a document, and its widths."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
FIXED = ("--on", "trn2", "--instances", "4", "--tp", "8", "--pp", "4", "--budget", "1")


def run(width, *more):
    given = ["plan", "train", CONFIG, *FIXED, "--global-batch", "512", *more]
    result = CliRunner(env={"COLUMNS": width}).invoke(app, given, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("width", ["60", "80", "100"])
def test_no_line_is_wider_than_the_terminal(width):
    output = run(width)
    assert max(map(len, output.splitlines())) <= int(width)
    assert output.startswith("llama-3.1-8b: 8.03 B parameters;")


def test_memory_and_pareto_are_values_of_their_parts():
    found = json.loads(run("100", "--json"))
    parts = found["memory_parts_bytes"]
    assert [sum(one.values()) for one in parts] == pytest.approx(found["memory_bytes"])
    assert found["pareto"][0].keys() >= {"instances", "chips", "layout", "time_s", "usd"}
