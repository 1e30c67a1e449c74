"""The capacity answer in each format: text, JSON, CSV and a page with charts."""

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
FIXED = ("--tensor-parallel-size", "8", "--max-num-seqs", "4", "--on", "trn1")
SMALL = ("--input-len", "128", "--output-len", "8", "--num-prompts", "256")
PRICED = ("--price", "on_demand")
pytestmark = pytest.mark.usefixtures("shortest_runs")


def run(*arguments):
    words = ["plan", "serve", CONFIG, *FIXED, *SMALL, *arguments]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def most(output):
    """The row of the most load, by column."""
    header, row = (
        re.split(r"\s{2,}", line.strip())
        for line in next(part for part in output.split("\n\n") if "headroom" in part).splitlines()[
            :2
        ]
    )
    return dict(zip(header, row, strict=True))


def test_a_rate_has_instances_a_spare_and_a_headroom():
    output = run("--request-rate", "20", "--slo-ttft", "0.5", *PRICED)
    row = most(output)
    assert (row["load"], row["first limit"]) == ("20/s", "TTFT")
    assert float(row["headroom"]) >= 1
    assert "  most load: TTFT <= 500 ms at P99; runs of 256 requests, sampling error " in output
    assert " requests/s keep the limits (--spare none: no spare)\n" in output
    alone = most(run("--request-rate", "20", "--slo-ttft", "0.5", "--spare", "none", *PRICED))
    assert alone["with the spare lost"] == "-"
    assert float(alone["USD/h"]) < float(row["USD/h"])


@pytest.mark.slow
def test_without_a_rate_figures_stand_below_the_knee():
    output = run()
    assert "128 tokens in, 8 out; the most load that is kept" in output
    assert "  most load: the knee, where whole request <= " in output
    assert "  figures at 80% of the most load\n" in output
    assert most(output)["first limit"] == "whole request"


def test_a_curve_is_printed_of_one_platform():
    output = run("--slo-ttft", "0.5")
    (table,) = (part for part in output.split("\n\n") if part.startswith("requests/s"))
    limits = [line.split()[-1] for line in table.splitlines()[1:]]
    assert limits[0] == "kept"
    assert limits[-1] == "broken"


def test_instances_that_are_too_few_say_how_many_would_do():
    output = run("--request-rate", "400", "--slo-ttft", "0.5", "--instances", "1")
    assert "  the SLO is missed under this load\n" in output
    assert re.search(r"\n  400 requests/s need \d+ instances\n", output)


def test_an_infeasible_promise_says_why_and_what_would_be_feasible():
    output = run("--request-rate", "2", "--slo-tpot", "4ms")
    line = next(line for line in output.splitlines() if "no layout keeps the SLO" in line)
    assert re.search(
        r"TPOT of a request alone is [\d.]+ ms at P99, [\d.]+ times the limit of", line
    )
    assert re.search(r"\n  feasible: --slo-tpot [\d.]+, within which one instance keeps ", output)
    assert re.search(r"\n  a request alone keeps it on .*p5en", output)
    assert most(output)["most load P50 (P10 to P90)"] == "none"


@pytest.mark.slow
def test_what_is_feasible_is_kept():
    output = run("--slo-tpot", "4ms")
    slo = re.search(r"feasible: (.*), within", output)[1].split()
    again = json.loads(run(*slo, "--json"))
    assert again["is_slo_met"]
    assert again["capacity"]["nearest"] is None


@pytest.mark.slow
def test_a_spreadsheet_has_a_row_for_each_point(tmp_path):
    run("--slo-ttft", "0.5", "--output", str(tmp_path / "curve.csv"), *PRICED)
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    loads = [float(row["requests_per_s"]) for row in rows]
    assert loads == sorted(loads)
    assert {row["is_kept"] for row in rows} == {"True", "False"}
    assert {row["instances"] for row in rows} == {"1"}
    assert all(float(row["usd_per_million_tokens"]) > 0 for row in rows)
    run("--concurrency", "2", "--num-prompts", "4", "--output", str(tmp_path / "one.csv"))
    with (tmp_path / "one.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert float(row["ttft_p99_s"]) > 0
    assert row["port_state"] == "tuned"
    for one in (row, *rows):
        whole, alone = (float(one[f"ttft{part}_p50_s"]) for part in ("", "_unloaded"))
        assert 0 < alone <= whole * (1 + 1e-9)
        assert float(one["ttft_queue_p99_s"]) >= float(one["ttft_queue_p50_s"]) >= 0


def test_a_page_has_charts_whose_points_are_in_the_figures(tmp_path):
    run("--request-rate", "20", "--slo-ttft", "0.5", "--report", str(tmp_path), *PRICED)
    page = (tmp_path / "page.html").read_text()
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert page.count("<figcaption>trn1: load against ") == 3
    points = re.findall(r'data-of="/curve/(\d+)/(\w+)" data-value="([^"]*)"', page)
    assert len(points) == 3 * len(figures["curve"])
    for place, name, value in points:
        assert figures["curve"][int(place)][name] == float(value)
    assert 'class="limit"' in page
