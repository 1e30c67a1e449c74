"""Warnings at the user's line: once each, with how many more there are."""

import warnings

import nki
import numpy as np
import pytest
from nki import isa as nisa
from nki import language as nl

import trnsim
from trnsim import user_warnings
from trnsim.errors import SourceLine
from trnsim.runs import collecting
from trnsim.user_warnings import SpillWarning, warn_of_spills


@pytest.fixture(autouse=True)
def nothing_shown(monkeypatch):
    monkeypatch.setattr(user_warnings, "_shown", {})


def test_several_are_one_warning_with_a_count():
    warn_of_spills(())
    with pytest.warns(SpillWarning, match="SBUF\n  and 1 more"):
        warn_of_spills(("SBUF", "PSUM"))


def test_the_same_warning_at_the_same_line_of_two_files_is_shown_for_each():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for file in ("a.py", "b.py", "a.py"):
            user_warnings.warn("x", UserWarning, SourceLine(file, 3))
    assert [warning.filename for warning in caught] == ["a.py", "b.py"]


@nki.jit
def wide(a):
    tiles = [nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum) for _ in range(5)]
    for tile in tiles:
        nisa.memset(dst=tile, value=1.0)
    total = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=total)
    return out


A = np.zeros((128, 1024), np.float32)


def test_a_spill_is_a_warning_at_the_line_that_runs_the_kernel_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            run = trnsim.run(wide, A)
    (warning,) = caught
    assert warning.category is SpillWarning
    assert warning.filename == __file__
    assert "bytes saved to SBUF and" in str(warning.message)
    assert "reloaded in 2 transfers" in str(warning.message)
    assert run.warnings == (str(warning.message),)
    assert (run.outputs == 5).all()


def test_what_collects_runs_tells_of_spills_itself():
    with collecting() as runs, warnings.catch_warnings():
        warnings.simplefilter("error")
        trnsim.run(wide, A)
    assert runs[0].overfull


def test_a_kernel_that_is_called_warns_once():
    with pytest.warns(SpillWarning) as caught:
        wide(A)
    assert len(caught) == 1
