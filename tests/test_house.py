"""The draw of source files for readers who have not seen them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "trnsim"


def drawn(*options):
    command = [sys.executable, str(ROOT / "bench" / "house.py"), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture(scope="module")
def first():
    return drawn("--draw", "35")


def test_a_draw_has_distinct_files_that_a_reader_can_open(first):
    assert len(set(first)) == 40
    assert all((SOURCE / file).is_file() for file in first)
    assert not any(file.endswith("__init__.py") or "/by_name/" in file for file in first)


def test_a_seed_draws_the_same_files_again(first):
    assert drawn("--draw", "35") == first


def test_later_draws_have_none_of_the_files_of_earlier_ones(first):
    second = drawn("--draw", "36", "--without", "35")
    assert len(second) == 40
    assert not set(first).intersection(second)
    third = drawn("--draw", "37", "--without", "35", "--without", "36")
    assert not set(third).intersection([*first, *second])


def test_as_many_files_are_drawn_as_asked():
    assert len(drawn("--draw", "1", "--files", "3")) == 3
