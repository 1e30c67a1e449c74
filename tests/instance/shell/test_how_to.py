"""Every block of docs/how-to-shell.md prints what it shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from instance_shells import needs_namespace

PAGE = Path(__file__).parents[3] / "docs" / "how-to-shell.md"
BLOCKS = re.findall(r"```console\n\$ (.*)\n((?:.*\n)*?)```", PAGE.read_text(encoding="utf-8"))


@pytest.mark.slow_but_every(3)
@needs_namespace
@pytest.mark.parametrize(("command", "output"), BLOCKS)
def test_a_block_prints_what_the_page_shows(command, output, tmp_path, monkeypatch):
    (tmp_path / "trnsim").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m trnsim "$@"\n')
    (tmp_path / "trnsim").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (output, "")


def test_the_page_has_its_blocks():
    assert len(BLOCKS) == PAGE.read_text(encoding="utf-8").count("```") // 2 == 5
