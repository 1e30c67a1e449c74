"""Text of others in what commands print and write."""

import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.terminal import complain, echo, emphasis, is_coloured

NAMED = """
import numpy as np
import nki, nki.isa as nisa, nki.language as nl

def copy(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

copy.__name__ = copy.__qualname__ = {name!r}
nki.jit(copy)(np.ones((2, 3), np.float32))
"""


ERROR = "a reason of eleven words that is wider than a terminal of forty columns\n  fix: words"


def test_an_error_fits_a_terminal_and_is_whole_elsewhere(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    complain(ERROR)
    assert capsys.readouterr().err == f"trnsim: error: {ERROR}\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    complain(ERROR)
    assert capsys.readouterr().err.splitlines() == [
        "trnsim: error: a reason of eleven words",
        "  that is wider than a terminal of forty",
        "  columns",
        "  fix: words",
    ]


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    is_terminal, variables, is_wanted, monkeypatch, capsys
):
    for name, value in ({"NO_COLOR": "", "TERM": "xterm"} | variables).items():
        monkeypatch.setenv(name, value)
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: is_terminal)
    assert is_coloured() == is_coloured(is_error=True) == is_wanted
    assert ("\x1b" in emphasis().start) == is_wanted
    complain("a")
    assert ("\x1b[1m\x1b[31mtrnsim: error:\x1b[0m a" in capsys.readouterr().err) == is_wanted


def test_lines_end_where_asked(capsys):
    echo("a", ends_line=False)
    echo("b\x1b[2J", is_error=True)
    assert capsys.readouterr() == ("a", "b\\x1b[2J\n")


@pytest.mark.parametrize("name", ["../../outside", "/absolute/name", "a\x1b[2Jb", "..", ""])
def test_a_kernels_name_stays_in_the_reports_folder(name, tmp_path, monkeypatch):
    place = tmp_path / "deep" / "deeper"
    place.mkdir(parents=True)
    (place / "kernel.py").write_text(NAMED.format(name=name))
    monkeypatch.chdir(place)
    run = CliRunner().invoke(app, ["run", "kernel.py", "--report", "here"])
    assert run.exit_code == 0, run.output
    assert "\x1b" not in run.output
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - {place / "kernel.py"}
    assert written
    assert all(path.is_relative_to(place / "here") for path in written), written
    assert not any("\x1b" in path.name for path in written)


def test_a_cell_of_a_report_is_no_formula(tmp_path):
    from trnsim.cli import report_files  # noqa: PLC0415
    from trnsim.document.answer import Document, Table, columns  # noqa: PLC0415

    rows = Table(columns("workload | usd"), [["=cmd|'/C calc'!A0", "-1.5"]])
    report_files.write_report(tmp_path, Document("", {}, (), rows=rows))
    with (tmp_path / "table.csv").open() as stream:
        assert list(csv.reader(stream))[1] == ["'=cmd|'/C calc'!A0", "-1.5"]


def test_a_reader_that_leaves_ends_the_printing_and_not_the_command(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        echo("a line\n" * 20_000)
        echo("another")


@pytest.mark.slow
@pytest.mark.usefixtures("shortest_runs")
def test_a_report_is_written_where_its_reader_left(tmp_path, monkeypatch):
    inventory = str(Path(__file__).parents[2] / "examples" / "two-workloads.csv")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        given = ["assess", inventory, "--on", "trn1", "--out", str(tmp_path / "decision.json")]
        app([*given, "--report", str(tmp_path / "report")], standalone_mode=False)
    assert (tmp_path / "decision.json").stat().st_size
    assert (tmp_path / "report" / "page.html").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "closed", "status"),
    [
        ("plan layer llama-3.1-8b --on trn1", "2", 0),
        ("tune examples/tune/softmax.py --runs 1", "1", 0),
        ("run p.py", "0 1 2", 2),
    ],
)
def test_a_stream_that_is_closed_is_one_that_nobody_reads(words, closed, status, tmp_path):
    (tmp_path / "p.py").write_text("print('no kernel')\n")
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    closing = "".join(f" {number}>&-" for number in closed.split())
    command = f"{shlex.quote(sys.executable)} -m trnsim {words}{closing}"
    ended = subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False)  # noqa: S607
    assert ended.returncode == status
