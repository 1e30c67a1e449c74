"""`trnsim profile`: stored reports without their kernels."""

import json
import re
from contextlib import chdir
from pathlib import Path

import pytest
from forked import trnsim
from schema_checks import assert_legal
from typer.testing import CliRunner

from trnsim.cli import app

ROOT = Path(__file__).parents[2]
STEPS = ROOT / "examples" / "matmul_steps.py"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder in which two versions of a kernel were run, one of them on two chips."""
    folder = tmp_path_factory.mktemp("stored")
    for step, on in (("1", "trn2"), ("3", "trn2"), ("4", "trn2,trn3")):
        done = trnsim("run", STEPS, "--on", on, "--report", f"v{step}", step, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def printed(*arguments, cwd):
    done = trnsim("profile", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def failure(*arguments, cwd):
    done = trnsim("profile", *arguments, cwd=cwd)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("trnsim: error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.slow
def test_view_writes_the_page_and_prints_its_path(stored):
    page = stored / "v1" / "step1.html"
    page.unlink()
    assert printed("view", "v1/step1.json", cwd=stored) == "v1/step1.html\n"
    assert "step1 on trn2" in page.read_text(encoding="utf-8")
    assert printed("view", "v1", "--output", "mine.html", cwd=stored) == "mine.html\n"


def test_summary_prints_time_lines_and_what_to_try(stored):
    text = printed("summary", "v1", cwd=stored)
    assert text.startswith("step1 on trn2\nestimated time")
    assert "critical path  of it waiting  if free   instructions" in text
    assert "\nif   DMA twice as fast: -" in text
    assert "matmul_steps.py:" in text
    assert "\ntry  " in text
    assert "mfu_estimated_percent" not in text


@pytest.mark.slow
def test_summary_with_all_prints_every_figure(stored):
    text = printed("summary", "v1", "--all", cwd=stored)
    assert "mfu_estimated_percent" in text
    assert "the program has no collectives" in text


@pytest.mark.slow
def test_summary_of_several_targets_stands_side_by_side(stored):
    text = printed("summary", "v4", cwd=stored)
    header = next(line for line in text.splitlines() if line.split() == ["trn2", "trn3"])
    rows = text[text.index(header) :].splitlines()
    assert any(row.startswith("bound by") for row in rows)
    assert any(row.startswith("DMA active") for row in rows)


def test_diff_says_what_changed_and_where(stored):
    text = printed("diff", "v1/step1.json", "v3/step3.json", cwd=stored)
    assert "times as fast; most at matmul_steps.py:" in text
    (row,) = (line.split() for line in text.splitlines() if line.startswith("HBM read"))
    assert row[:6] == ["HBM", "read", "32", "MiB", "6", "MiB"]


@pytest.mark.slow
def test_diff_compares_the_targets_that_both_have(stored):
    text = printed("diff", "v4", "v4", cwd=stored)
    assert text.count("verdict  as fast") == 2
    text = printed("diff", "v1", "v4", cwd=stored)
    assert "after    step4 on trn2" in text
    assert "trn3" not in text


def test_reports_without_a_common_target_are_refused(stored, tmp_path):
    done = trnsim("run", STEPS, "--on", "trn1", "--report", tmp_path / "old", "4", cwd=stored)
    assert done.returncode == 0, done.stderr
    message = failure("diff", tmp_path / "old", "v4", cwd=stored)
    assert "no target in common: trn1 and trn2, trn3" in message
    assert "--on trn1,trn2" in message


@pytest.mark.slow_but("summary")
@pytest.mark.parametrize("command", ["view", "summary"])
def test_a_missing_and_a_foreign_file_are_named_with_the_fix(command, stored):
    message = failure(command, "gone.json", cwd=stored)
    assert "cannot read gone.json" in message
    assert "fix: write one with trnsim run SCRIPT --report DIR" in message
    message = failure(command, "v1/step1-trn2.trace.json", cwd=stored)
    assert "is not a report that trnsim stored" in message


@pytest.fixture
def plans(tmp_path):
    """Plans of two batches, and of a collective."""
    model = ROOT / "examples" / "bert-large.json"
    for batch in ("1", "8"):
        done = trnsim("plan", "infer", model, "--on", "trn2", "--batch", batch, "--report",
                      f"b{batch}", cwd=tmp_path)  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = trnsim("plan", "collective", "all_reduce", "--bytes", "1MiB", "--on", "trn2",
                  "--output", "c.json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.mark.slow
def test_plans_are_viewed_summed_up_and_compared_as_kernels_are(plans):
    text = printed("summary", "b1", cwd=plans)
    assert re.search(r"^time +\S+ ms \(P10 to P90: ", text, re.MULTILINE)
    assert "advice, by what it saves at most:" in text
    assert printed("view", "b1", cwd=plans) == "b1/page.html\n"
    assert printed("view", "c.json", cwd=plans) == "c.html\n"
    assert "Where the time goes" in (plans / "c.html").read_text()
    (told,) = json.loads(printed("diff", "b1", "b8/figures.json", "--json", cwd=plans))
    stored = json.loads((plans / "b8" / "figures.json").read_text())
    assert told["after"]["time_s"] == stored["latency_p50_s"]["p50"]
    assert told["after"]["parts_s"] == stored["estimate"]["parts_s"]
    message = failure("diff", "b1", "c.json", cwd=plans)
    assert "is an answer of plan-infer, c.json of plan-collective" in message


@pytest.mark.slow
def test_a_plan_is_not_compared_with_a_kernel(plans, stored):
    message = failure("diff", plans / "c.json", "v1", cwd=stored)
    assert "is of a kernel, the other is not" in message


NET = """import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)
    def forward(self, x):
        return self.down(self.up(x).relu())
model, args = Net(), (torch.zeros(128, 256),)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two stored reports of a model: as it is, and cast."""
    pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    folder = tmp_path_factory.mktemp("models")
    (folder / "net.py").write_text(NET)
    with chdir(folder):
        for name, cast in (("plain", "none"), ("cast", "all")):
            options = ("--flags", f"--auto-cast={cast}", "--report", f"{name}.html")
            done = CliRunner().invoke(app, ["compile", "net.py", *options])
            assert done.exit_code == 0, done.output
    return folder


@pytest.mark.slow
def test_two_flags_of_a_model_are_compared_by_module(models):
    text = printed("diff", "plain.json", "cast.json", cwd=models)
    assert "before   net.py, LNC=2 on trn2" in text
    assert re.search(r"^verdict  1\.\d+ times as fast; most at (up|down): -", text, re.MULTILINE)
    assert re.search(r"^times the bound +\d", text, re.MULTILINE)
    tables = ("operation, on the critical path", "HBM, read and written", "module, on the critical")
    assert all(f"\n{table}" in text for table in tables)


def test_a_comparison_is_printed_as_json(models):
    (found,) = json.loads(printed("diff", "plain.json", "cast.json", "--json", cwd=models))
    assert_legal([found], "profile-diff/1")
    times = {row["name"]: row for row in found["module, on the critical path"]}
    assert times["up"]["after"] < times["up"]["before"]
    moved = {row["name"]: row for row in found["HBM, read and written"]}
    assert moved["weights"]["before"] == pytest.approx(2 * moved["weights"]["after"], rel=0.01)


def test_the_summary_of_a_model_says_what_its_modules_take(models):
    text = printed("summary", "plain.json", cwd=models)
    assert re.search(
        r"^physical bound +\d.* of HBM, the time is \d+\.\d times that$", text, re.MULTILINE
    )
    assert re.search(r"^(up|down) +\d+\.?\d* us +\d+ %  ", text, re.MULTILINE)
    assert "\nits program:\nestimated time" in text


def test_a_kernel_and_a_model_are_not_compared(models, stored):
    message = failure("diff", models / "plain.json", "v1", cwd=stored)
    assert (
        "net.py, LNC=2 on trn2 is the report of a model and step1 on trn2 that of a kernel"
        in message
    )
    assert "fix: compare two models, or two kernels" in message


def test_a_report_of_another_version_is_refused(models):
    stored = json.loads((models / "plain.json").read_text())
    (models / "old.json").write_text(json.dumps(stored | {"version": 1}))
    message = failure("diff", "old.json", "plain.json", cwd=models)
    assert "old.json is a report of version 1" in message


def test_a_page_does_not_overwrite_a_stored_report(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    said = failure("view", "a.json", "--output", "a.json", cwd=tmp_path)
    assert "--output a.json; legal ending: .html\n  fix: --output a.html" in said
    assert (tmp_path / "a.json").read_text() == "{}"
