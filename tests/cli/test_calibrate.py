import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.document.text import text
from trnsim.errors import BadInput
from trnsim.site import note_used

command = import_module("trnsim.cli.calibrate")
ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "examples" / "measured-times.csv"
LAYER = "plan layer examples/llama-3.1-8b.json --on trn1 --tensor-parallel-size 8"


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("TRNSIM_SITE", raising=False)


def printed(*words):
    result = CliRunner(env={"COLUMNS": "100"}).invoke(app, [*words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words):
    with pytest.raises(BadInput) as caught:
        CliRunner().invoke(app, [*words], catch_exceptions=False)
    return str(caught.value)


def test_a_site_is_written_used_told_and_undone(tmp_path, monkeypatch):
    site = tmp_path / "site.json"
    before = json.loads(printed(*LAYER.split(), "--json"))["answer"]
    told = printed("calibrate", str(MEASURED), "--out", str(site))
    assert "yours, 20" in told
    assert f"wrote {site}" in told
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    after = json.loads(printed(*LAYER.split(), "--json"))["answer"]
    assert after["time_s"] > 1.3 * before["time_s"]
    assert "; yours, 20" in after["source"]
    text = printed(*LAYER.split())
    assert "9 rows" in text
    assert "(trnsim calibrate)" in text
    monkeypatch.delenv("TRNSIM_SITE")
    assert json.loads(printed(*LAYER.split(), "--json"))["answer"] == before


def test_what_entered_estimates_before_a_command_is_not_told_of_its_answer():
    note_used("yours, 2026-11-20, 14 rows")
    assert "yours" not in printed("prices", "show", "trn1.2xlarge")
    note_used("yours, 2026-11-20, 14 rows")
    assert "yours" not in printed(*LAYER.split())


@pytest.mark.slow
def test_the_json_is_the_file_and_the_csv_has_a_row_a_group(tmp_path):
    told = json.loads(printed("calibrate", str(MEASURED), "--json"))
    printed("calibrate", str(MEASURED), "--output", str(tmp_path / "site.json"))
    assert json.loads((tmp_path / "site.json").read_text()) == told
    printed("calibrate", str(MEASURED), "--output", str(tmp_path / "a.csv"))
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["inferentia2", "encode", "6"],
        ["trainium1", "decode", "9"],
    ]
    printed("calibrate", str(MEASURED), "--report", str(tmp_path / "page"))
    assert "trainium1" in (tmp_path / "page" / "page.html").read_text()


def test_rows_left_out_are_named_with_their_lines(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(MEASURED.read_text() + f"{LAYER} --batch 2,0.0045\n{LAYER},0.00001\n")
    told = printed("calibrate", str(log))
    assert "2 rows left out" in told
    flat = " ".join(told.split())
    assert f"{log}:18: 10 us is faster than" in flat
    assert f"{log}:17: " in flat


def test_every_row_that_is_left_out_has_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_MOST_SHOWN", 1)
    log = tmp_path / "log.csv"
    log.write_text(MEASURED.read_text() + f"{LAYER} --batch 2,0.0045\n{LAYER},0.00001\n")
    told = printed("calibrate", str(log), "--report", str(tmp_path / "page"))
    flat = " ".join(told.split())
    assert "1 more, each with its reason: --json, --report or --output site.json" in flat
    page = (tmp_path / "page" / "page.html").read_text()
    values = json.loads(printed("calibrate", str(log), "--json"))
    for line in (17, 18):
        assert f"{log}:{line}: " in page
        (left_out,) = [each for each in values["left_out"] if each["line"] == line]
        assert left_out["reason"]


@pytest.mark.parametrize(("count", "words"), [(1, "1 row not used"), (1200, "1,200 rows not used")])
def test_rows_that_are_not_asked_have_their_reason(count, words):
    calibration = replace(command._calibration([MEASURED], []), unasked=count)
    flat = " ".join(text(command._document(calibration), 100).split())
    assert f"{words}: of a log at most 1,500 questions to plan infer, layer and" in flat


def test_a_log_needs_its_question(tmp_path):
    log = tmp_path / "a.csv"
    rows = [f"{at},2.0,{1.0 + at % 3 / 100}" for at in range(30)]
    log.write_text("\n".join(["step,loss,step_s", *rows]))
    assert "add --question" in refused("calibrate", str(log))
    assert "2 --question for 1 log;" in refused(
        "calibrate", str(log), "--question", LAYER, "--question", LAYER
    )


def test_without_a_log_or_with_both_it_is_refused():
    assert "no log; legal: one or more files, or --suggest" in refused("calibrate")
    assert "both LOG and --suggest" in refused("calibrate", str(MEASURED), "--suggest", LAYER)
    asked = ("--suggest", LAYER, "--question", LAYER)
    assert "both --question and --suggest given" in refused("calibrate", *asked)


def test_a_suggestion_names_experiment_instance_and_cost():
    flat = " ".join(printed("calibrate", "--suggest", LAYER).split())
    assert f"best: {LAYER}, an hour on trn1.32xlarge (21.50 USD/h on_demand" in flat
    assert "trn1.2xlarge" in flat


def test_a_broken_site_is_told_by_every_estimate(tmp_path, monkeypatch):
    site = tmp_path / "site.json"
    printed("calibrate", str(MEASURED), "--output", str(site))
    text = site.read_text()
    site.write_text(text.replace('"sigma": 0.', '"sigma": 1.', 1))
    monkeypatch.setenv("TRNSIM_SITE", str(site))
    assert "corrections[0] was changed since trnsim calibrate wrote it" in refused(*LAYER.split())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", '{"neuron_runtime_data": [{"pid": 1,', r"a\.json:1: not JSON"),
        ("a.json", '{"some": "other tool"}', r"a\.json:1: no log of a known kind; legal: vllm, "),
        ("a.txt", "nvidia-smi says hello\n", r"a\.txt:1: no log of a known kind"),
        ("a.csv", "question,seconds\n", r"a\.csv:1: no rows"),
        ("a.csv", "question,seconds\n0.1,plan layer x\n", r"a\.csv:2: .*the columns are swapped"),
        ("a.csv", f"question,seconds\n{LAYER},-3\n", r"a\.csv:2: seconds is -3"),
        (
            "a.csv",
            "question,seconds\nplan layer examples/llama-3.1-8b.json --on trn9,0.1\n",
            r"a\.csv:2: question .*trn9",
        ),
        (
            "a.csv",
            f"question,seconds,instance\n{LAYER},0.001,trn2.48xlarge\n",
            r"a\.csv:2: the chip of trn2\.48xlarge is trainium2; the question is of trainium1",
        ),
        (
            "a.csv",
            f"question,seconds,instance\n{LAYER},0.001,trn9.large\n",
            r"a\.csv:2: .*trn9\.large",
        ),
        ("a.csv", f"question,seconds\n{LAYER},0.9\n", r"a\.csv:2: .*as if they were in millisec"),
    ],
)
def test_bad_input_is_named_with_its_line_and_writes_nothing(name, content, said, tmp_path):
    log, site = tmp_path / name, tmp_path / "site.json"
    log.write_text(content)
    told = refused("calibrate", str(log), "--output", str(site))
    assert re.search(said, told), told
    assert not site.exists()


def test_secrets_of_a_log_are_in_no_output(tmp_path):
    secret = "hunter2"  # noqa: S105  it must appear nowhere
    latency = {"latency_stats": {"device_latency": {"p50": 0.001}}}
    runtime = {"environment": {"TOKEN": secret}, "report": {"execution_stats": latency}}
    log, site = tmp_path / "monitor.jsonl", tmp_path / "site.json"
    log.write_text(json.dumps({"neuron_runtime_data": [runtime]}))
    told = printed("calibrate", str(log), "--question", LAYER, "--output", str(site))
    assert secret not in told + site.read_text()
    latency["latency_stats"]["device_latency"]["p50"] = {"env": secret}
    log.write_text(json.dumps({"neuron_runtime_data": [runtime]}))
    assert secret not in refused("calibrate", str(log), "--question", LAYER)
