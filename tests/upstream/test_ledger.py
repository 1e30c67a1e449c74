"""The ledger of public suites: what it keeps, that it goes on, and which cases a sample has."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from ledger import read, sample

CASES = """
import warnings
import pytest

@pytest.mark.parametrize("x", range(4))
def test_passes(x):
    pass

def test_fails():
    assert 1 == 2, "one is not two"

@pytest.mark.xfail(reason="known")
def test_known():
    assert False

@pytest.mark.skip(reason="slow")
def test_skipped():
    pass

class TrnsimWarning(UserWarning):
    __module__ = "trnsim.notices"

def test_warns():
    warnings.warn("careful\\nin two lines", TrnsimWarning)
    warnings.warn("of somebody else")
"""


def run(folder, *arguments):
    """Run the cases, as `conformance.py` runs a suite; what the ledger holds then."""
    file = folder / "test_cases.py"
    file.write_text(CASES)
    ledger = folder / "ledger.jsonl"
    plugin = ["-p", "ledger", f"--ledger={ledger}", "-p", "no:cacheprovider", "-W", "always"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *arguments, str(file)]
    environment = {"PYTHONPATH": str(Path(__file__).parent), "TRNSIM_UPSTREAM": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    return read(ledger)


@pytest.mark.slow
def test_a_ledger_has_each_case_with_its_outcome_reason_and_warnings(tmp_path):
    first, *cases, last = run(tmp_path)
    assert (first, last) == ({"population": 7, "chosen": 7}, {"finished": True})
    found = {case["case"].partition("::")[2]: case for case in cases}
    assert Counter(case["outcome"] for case in cases) == {"passed": 5, "failed": 2, "skipped": 1}
    assert found["test_fails"]["reason"] == "AssertionError: one is not two"
    assert found["test_known"]["reason"] == "known"
    assert found["test_skipped"]["reason"] == "slow"
    assert found["test_warns"]["warnings"] == [["TrnsimWarning", "careful"]]


@pytest.mark.slow
def test_a_run_goes_on_where_the_last_one_stopped(tmp_path):
    stopped = run(tmp_path, "-x")
    assert "finished" not in stopped[-1]
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(ledger.read_text() + '{"case": "half a li')
    assert read(ledger) == stopped
    names = [entry["case"] for entry in run(tmp_path) if "case" in entry]
    assert len(names) == len(set(names)) == 8


def test_a_sample_is_the_same_each_time_and_has_each_function_by_its_share():
    names = [f"a[{x}]" for x in range(60)] + [f"b[{x}]" for x in range(20)]
    chosen = sample(names, 8)
    assert chosen == sample(names[::-1], 8)
    assert Counter(name[0] for name in chosen) == {"a": 6, "b": 2}
    assert chosen < sample(names, 16) < sample(names, 80) == set(names)
