"""docs/neuronx-cc.md: its example runs, and what it says of variables is what the source does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trnsim.compiler.compile_cache.entry import DONE, FLAGS, GRAPH, NAME, PROGRAM

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "neuronx-cc.md").read_text()
SPELLING = ROOT / "src" / "trnsim" / "jobs" / "rules" / "names.py"
"""Has names of variables to find misspelled ones; it reads none."""
SOURCE = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py") if file != SPELLING)
ROWS = re.findall(r"^\| (`[A-Z_`, and]+.*?) \| (read|set|ignored)", PAGE, re.MULTILINE)


def test_the_page_has_the_variables_that_programs_set_most():
    named = {name for cell, _ in ROWS for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert len(named) > 25
    assert {"NEURON_CC_FLAGS", "NEURON_FUSE_SOFTMAX", "NEURON_COMPILE_CACHE_URL"} <= named


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize(("cell", "use"), ROWS)
def test_a_variable_is_read_where_the_page_says_so(cell, use):
    for name in re.findall(r"`([A-Z_]+)`", cell):
        is_named = re.search(rf"\b{name}\b", SOURCE) is not None
        assert is_named == (use != "ignored"), name


def test_the_layout_of_the_cache_is_the_one_that_is_written():
    listed = PAGE.partition("## The cache")[2].partition("`--cache_dir`")[0]
    assert NAME.search(listed)
    assert {GRAPH, FLAGS, PROGRAM, DONE} <= set(listed.split())


@pytest.mark.slow
def test_the_example_prints_what_the_page_shows(tmp_path):
    (tmp_path / "step.hlo").write_text(re.search(r"```hlo\n(.*?)```", PAGE, re.DOTALL)[1])
    block = re.search(r"```console\n(.*?)```", PAGE, re.DOTALL)[1]
    printed = ""
    for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        words = line.split()
        if words[0] == "neuronx-cc":
            words = [sys.executable, "-P", "-m", "trnsim", *words]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        printed += f"$ {line}\n{done.stdout}"
    assert printed == block
