"""Modules beside these tests, and no Slurm of the machine's own."""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def _no_programs(tmp_path_factory):
    return str(tmp_path_factory.mktemp("no-programs"))


@pytest.fixture(autouse=True)
def _without_slurm(monkeypatch, _no_programs):
    for name in list(os.environ):
        if name.startswith(("SLURM_", "NEURON_", "TRNSIM_INSTANCE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", _no_programs)
