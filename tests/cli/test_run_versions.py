"""`trnsim run --nki`: a version, or all of them in one table."""

import csv
import json

import numpy as np
import pytest
from forked import trnsim
from schema_checks import assert_both_ways

from trnsim.cli import run_versions
from trnsim.errors import BadInput

PROGRAM = """
import nki, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in nl.dynamic_range(2):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.dma_copy(out, tile)
    return out

"""
CALL = "print(kernel(np.zeros((2, 2), np.float32))[0, 0])\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.py").write_text(PROGRAM + CALL)
    (tmp_path / "k.py").write_text(PROGRAM)
    np.save(tmp_path / "x.npy", np.zeros((2, 2), np.float32))
    return tmp_path


def test_a_version_is_found_and_said_in_one_line(folder):
    done = trnsim("run", "p.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "version   NKI 0.6: nl.dynamic_range at p.py:9 exists in NKI 0.2 to 0.6" in done.stdout
    done = trnsim("run", "--nki", "0.4", "p.py", cwd=folder)
    assert "version   NKI 0.4: --nki" in done.stdout


def test_a_version_that_lacks_a_form_refuses_it_at_its_line(folder):
    done = trnsim("run", "--nki", "0.7", "p.py", cwd=folder)
    assert done.returncode == 2
    assert "nl.dynamic_range exists in NKI 0.2 to 0.6, and --nki asks for NKI 0.7" in done.stderr
    assert "nl.fori_loop" in done.stderr
    assert "p.py:9" in done.stderr


def test_all_versions_stand_in_one_table(folder):
    done = trnsim("run", "--nki", "all", "p.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "p.py on trn2 under each version of NKI, beside NKI 0.6" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("  0.")]
    assert [line[0] for line in lines] == ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]
    assert "same values" in " ".join(lines[0])
    assert lines[-1][2] == "refused"
    assert done.stderr.count("2.0") == 6  # what the program prints stands apart


def test_the_values_are_those_of_the_schema_and_the_table_has_the_reasons(folder):
    words = ("run", "--nki", "all", "k.py", "--input", "x.npy")
    done = trnsim(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert_both_ways([answer], "run-versions/1")
    assert answer["reference"]["version"] == "0.6"
    last = answer["versions"][-1]
    assert last["end"] == "refused"
    assert last["line"].endswith("k.py:9")
    assert last["source"]
    assert trnsim(*words, "--output", "a.csv", cwd=folder).returncode == 0
    with (folder / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["end"] for row in rows][-2:] == ["same values", "refused"]
    assert trnsim(*words, "--report", "out", cwd=folder).returncode == 0
    assert "NKI 0.2 to 0.6" in (folder / "out" / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--nki", "0.9", "p.py"], "--nki names NKI '0.9'; legal: 0.2, 0.3, 0.4, 0.5, 0.6, 0.7"),
        (["--nki", "all", "--on", "trn1,trn2", "p.py"], "legal: one chip"),
        (["--nki", "all", "k.py"], "k.py launched no kernel, so no version is compared"),
        (["--nki", "all", "absent.py"], "cannot read absent.py: No such file"),
    ],
)
def test_bad_input_is_named(folder, words, reason):
    done = trnsim("run", *words, cwd=folder)
    assert done.returncode == 2
    assert reason in done.stderr


def test_an_error_under_the_programs_own_version_is_the_answer(folder):
    (folder / "p.py").write_text(PROGRAM + CALL + "raise ValueError('mine')\n")
    done = trnsim("run", "--nki", "all", "p.py", cwd=folder)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


def test_a_refusal_without_a_fix_has_no_empty_one():
    assert run_versions._reason(BadInput("no")).endswith(": no")
    assert run_versions._reason(BadInput("no", fix="yes")).endswith(": no; instead: yes")


ON_RANKS = """
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def total(x):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out

print(total(np.ones((4, 4), np.float32))[0, 0])
"""


def test_all_versions_run_on_ranks_and_in_an_order(tmp_path):
    (tmp_path / "p.py").write_text(ON_RANKS)
    done = trnsim("run", "p.py", "--nki", "all", "--ranks", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same values") == done.stderr.count("2.0") - 1
    done = trnsim("run", "p.py", "--nki", "all", "--order", "word", cwd=tmp_path)
    assert "order 'word' is not known; legal: compiler, issued" in done.stderr
