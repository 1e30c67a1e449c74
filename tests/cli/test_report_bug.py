"""`trnsim report-bug`: what a report has, what it leaves out, and which words it refuses."""

import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from schema_checks import assert_both_ways
from typer.testing import CliRunner

from trnsim.cli import app, report_bug
from trnsim.errors import BadInput

KERNEL = """
import numpy as np, nki
import nki.isa as nisa, nki.language as nl
@nki.jit
def geheimkernel(x):
    nl.ndarray((256, 64), dtype=x.dtype, buffer=nl.sbuf)
geheimkernel(np.ones((256, 64), np.float32))
"""


def run(*arguments):
    result = CliRunner().invoke(app, ["report-bug", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def values(*arguments):
    return json.loads(run("--json", *arguments))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    """No variable of the run of the tests is in a report."""
    for name in os.environ:
        if name.startswith(("TRNSIM_", "NEURON_")):
            monkeypatch.delenv(name)


@pytest.fixture
def ended(monkeypatch):
    """Has a command end with a status and an error, without running it."""

    def end(status, told):
        monkeypatch.setattr(report_bug, "_status_and_stderr", lambda *_: (status, told))

    return end


def test_without_a_command_it_has_the_versions(monkeypatch):
    monkeypatch.setenv("TRNSIM_POLICY", "geheim")
    found = values()
    assert found["trnsim"] == report_bug.VERSION
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {each["name"]: each["version"] for each in found["packages"]}["numpy"]
    assert "TRNSIM_POLICY" in found["variables"]
    assert found["command"] is found["error"] is found["status"] is None
    monkeypatch.setenv("NEURON_GEHEIM_KUNDE", "1")
    found = values()
    assert found["variables"].count("<name>") == found["left_out"]["names"] == 1
    assert "geheim" not in (run() + run("--json")).lower()
    assert str(Path.cwd()) not in run()


def test_a_command_and_its_error_lose_what_is_the_users(ended):
    ended(2, "trnsim: error: geheim.json:3: usd is '8,000'; legal: a number\n  at /home/x/k.py:7\n")
    found = values("--", "plan", "train", "/home/x/geheim.json", "--tokens", "10B")
    assert found["command"] == ["plan", "train", "<path>", "--tokens", "10B"]
    assert found["error"].splitlines() == [
        "trnsim: error: <path>:3: usd is '...'; legal: a number",
        "  at <path>:7",
    ]
    assert found["status"] == 2
    assert found["left_out"] == {
        "paths": 3, "names": 0, "quotations": 1, "numbers": 0, "addresses": 0, "source_lines": 0,
    }  # fmt: skip
    text = run("--", "plan", "train", "/home/x/geheim.json")
    assert "command    trnsim plan train <path>" in text
    assert "ended      with status 2" in text
    assert "3 paths" in text
    assert "Nothing is sent." in text


def test_a_command_that_ends_well_says_so(ended):
    ended(0, "")
    assert "with status 0, with nothing on stderr" in run("chips")


def test_of_a_long_error_the_end_stays(ended):
    ended(1, "\n".join(["trnsim"] * 500 + ["deadlock"]))
    assert values("chips")["error"].splitlines() == [*["trnsim"] * 199, "deadlock"]


def test_a_kept_error_is_read(tmp_path):
    file = tmp_path / "told.txt"
    file.write_text("RuntimeError: geheimnis of (3, 4)\n")
    found = values("--error", str(file))
    assert found["error"] == "RuntimeError: <name> of (3, 4)"
    assert found["command"] is None
    assert not found["is_stopped"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["plaan"],
            r"^the command begins with 'plaan': it is no command that fails; legal: demo, ",
        ),
        (["report-bug"], r"^the command begins with 'report-bug': it is no command that fails"),
        (["lsp"], r"^the command begins with 'lsp': it waits for a client; legal: .*fix: for exam"),
        (["--error", "absent.txt"], r"^cannot read absent\.txt: No such file"),
        (["--error", "empty.txt"], r"^--error empty\.txt is empty"),
        (["--error", "empty.txt", "run", "k.py"], r"^--error empty\.txt and a command; legal: one"),
        (["--output", "bug.pdf"], r"^--output bug\.pdf; legal endings: "),
    ],
)
def test_other_words_are_refused(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(BadInput, match=r"(?s)" + said):
        run(*words)


def test_a_report_is_written_as_a_comment(ended, tmp_path):
    ended(1, "IndexError: geheim")
    run("--output", str(tmp_path / "bug.md"), "chips")
    text = (tmp_path / "bug.md").read_text()
    assert text.startswith("### Report of a fault\n")
    assert "```\nIndexError: <name>\n```" in text


@pytest.mark.slow
def test_its_answers_are_of_the_schema(ended, monkeypatch):
    monkeypatch.setattr(report_bug, "_PACKAGES", ("numpy", "no-such-package"))
    ended(None, "geheim")
    found = [values(), values("run", "k.py")]
    monkeypatch.setattr(report_bug, "issues_url", lambda: "https://example.org/issues")
    ended(0, "")
    found.append(values("chips"))
    assert found[1]["is_stopped"]
    assert "at the time limit" not in run("chips")
    assert "issues: https://example.org/issues" in run()
    assert_both_ways(found, "report-bug/1")


def test_where_issues_are_written_is_the_packages_own_metadata(monkeypatch):
    assert report_bug.issues_url() is None  # until pyproject names a repository
    fields = report_bug.metadata.metadata("trnsim")
    fields["Project-URL"] = "Issues, https://example.org/issues"
    monkeypatch.setattr(report_bug.metadata, "metadata", lambda _: fields)
    assert report_bug.issues_url() == "https://example.org/issues"


def test_a_package_that_is_not_there_has_no_version():
    assert report_bug._version("no-such-package") is None


def test_a_changed_source_has_another_digest(tmp_path, monkeypatch):
    (tmp_path / "examples").mkdir()
    for name in ("__init__.py", "a.py", "examples/b.py"):
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(report_bug.trnsim, "__file__", str(tmp_path / "__init__.py"))
    before = report_bug.source_digest()
    (tmp_path / "examples" / "b.py").write_text("x = 2\n")
    (tmp_path / "a.py").write_bytes(b"x = 1\r\n")
    assert report_bug.source_digest() == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert report_bug.source_digest() != before


@pytest.mark.slow
def test_a_kernel_that_is_refused_is_reported_with_trnsims_frames(tmp_path):
    file = tmp_path / "geheimdatei.py"
    file.write_text(KERNEL)
    text = run("--", "run", str(file), "--on", "trn2")
    assert "geheim" not in text
    assert "command    trnsim run <path> --on trn2" in text
    assert 'File "trnsim/memory/allocation.py"' in text
    assert "IllegalInstruction: a SBUF tensor of shape (256, 64) has 256 partitions" in text
    assert "with status 2" in text


@pytest.mark.slow
def test_a_command_that_never_ends_is_ended_with_what_it_started(tmp_path):
    file = tmp_path / "endless.py"
    file.write_text(
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(child.pid))\n"
        "child.wait()\n"
    )
    began = time.monotonic()
    found = values("--time-limit", "25", "--", "run", str(file))
    assert time.monotonic() - began < 60
    assert found["is_stopped"]
    assert found["status"] is None
    started = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(started) or psutil.Process(started).status() == "zombie"


def test_the_end_of_a_long_error_begins_with_a_whole_line(tmp_path):
    path = tmp_path / "stderr"
    path.write_bytes(b"9" * report_bug._TAIL_BYTES + b"123456\nlast\n")
    with path.open("rb") as file:
        assert report_bug._tail(file) == "last\n"
    path.write_bytes(b"first\nlast\n")
    with path.open("rb") as file:
        assert report_bug._tail(file) == "first\nlast\n"


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_of_an_error_in_one_long_line_the_beginning_is_kept(tmp_path, end):
    path = tmp_path / "stderr"
    line = b"error: shapes " + b"1234567 " * report_bug._TAIL_BYTES
    path.write_bytes(b"first\n" + line + end)
    with path.open("rb") as file:
        kept = report_bug._tail(file)
    assert kept.startswith("error: shapes 1234567 ")
    assert kept.endswith(" 1234567 ...")
    assert len(kept) <= report_bug._TAIL_BYTES + 4
