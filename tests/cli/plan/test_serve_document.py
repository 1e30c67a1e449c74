import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.plan import serve_document

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
FIXED = ("--tensor-parallel-size", "8", "--max-num-seqs", "4", "--input-len", "128")


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", "serve", CONFIG, *FIXED, *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def tables(output):
    """Layouts, latencies, use and parts; the most load, its notes and curves are left out."""
    parts = [
        part for part in output.split("\n\n")[1:] if part.startswith(("platform ", "ms of a token"))
    ]
    parts = [part for part in parts if "headroom" not in part.splitlines()[0]]
    return [[re.split(r"\s{2,}", line.strip()) for line in part.splitlines()] for part in parts]


@pytest.mark.slow
def test_tables_of_layout_latency_use_and_parts_have_a_row_for_each_platform():
    found = tables(run("--output-len", "16", "--slo-tpot", "0.05"))
    for header, *rows in found:
        assert [row[0] for row in rows] == ["trn1", "trn2", "trn3", "p5en"]
        assert all(len(row) == len(header) for row in rows)
    layouts, latencies, first_tokens, uses, parts = (one[0] for one in found)
    assert layouts[-2:] == ["tokens/s P50 (P10 to P90)", "USD per 1M tokens"]
    assert latencies[1] == "TTFT P50 (P10 to P90)"
    assert first_tokens[1::2] == ["unloaded TTFT P50 (P10 to P90)", "queue P50 (P10 to P90)"]
    assert uses[-2:] == ["requests/s", "tried"]
    assert parts[:3] == ["ms of a token", "products", "weights"]


@pytest.mark.slow
def test_no_line_is_longer_than_a_hundred_columns():
    output = run("--output-len", "2000", "--concurrency", "100", "--slo-tpot", "0.01")
    assert max(map(len, output.splitlines())) <= 100


@pytest.mark.usefixtures("shortest_runs")
@pytest.mark.slow_cases("load0-128 tokens in, 8 out; the most load that is kept")
@pytest.mark.parametrize(
    ("load", "words"),
    [
        ((), "128 tokens in, 8 out; the most load that is kept"),
        (("--concurrency", "2"), "128 tokens in, 8 out; 2 clients"),
        (("--concurrency", "1", "--input-len", "1"), "1 token in, 8 out; 1 client"),
        (
            ("--concurrency", "2", "--input-len", "uniform:1:90", "--prefix-len", "64"),
            "1 to 90 tokens in after a prefix of 64, 8 out; 2 clients",
        ),
        (
            ("--concurrency", "2", "--input-len", "lognormal:90:0.5"),
            "a median of 90 tokens in, 8 out; 2 clients",
        ),
        (("--request-rate", "2.5"), "128 tokens in, 8 out; 2.5 requests/s"),
    ],
)
def test_the_title_says_what_is_served(load, words):
    title = run("--output-len", "8", "--on", "trn1", *load).splitlines()[0]
    assert title == f"llama-3.1-8b: 8.03 B parameters; {words}"


def test_answers_of_one_token_have_no_time_between_tokens():
    _, latencies, *_ = tables(run("--output-len", "1", "--on", "trn1", "--concurrency", "2"))
    assert latencies[1][3:5] == ["-", "-"]


def test_replicas_for_prompts_and_stages_are_said():
    load = ("--on", "trn2", "--output-len", "8", "--concurrency", "4")
    output = run(*load, "--prefill-replicas", "2")
    assert "8 x TP8, 2 prefill" in output
    output = run(*load, "--pipeline-parallel-size", "2")
    assert "4 x TP8 PP2" in output


@pytest.mark.slow
def test_a_promise_that_cannot_be_kept_is_said():
    output = run("--on", "trn1", "--output-len", "8", "--slo-ttft", "0.0001")
    assert (
        "no layout keeps the SLO at any load; in the nearest, TTFT of a request alone is" in output
    )
    assert "  the SLO is missed under this load\n" in output


def test_a_part_that_is_the_rounding_of_a_sum_is_not_shown():
    served = SimpleNamespace(parts_s={"weights": 7.5e-4, "prompts of others": 4.4e-16, "KV": 1e-9})
    parts = serve_document._token_parts_s(SimpleNamespace(served=served))
    assert parts == {"weights": 7.5e-4, "KV": 1e-9}
