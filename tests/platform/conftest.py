"""Tests of released programs that look for devices: `tests/platform`.

Each has a state and a home of its own. Modules of this folder, and those by which programs are run
in an instance, are known by their names.
"""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
for folder in (".", "platform", "instance/shell", "instance/state", "decide/guard"):
    sys.path.insert(0, str(TESTS / folder))

_INSTANCES = ("TRNSIM_INSTANCE", "NEURON_LOGICAL_NC_CONFIG", "NEURON_PLATFORM_TARGET_OVERRIDE")
_CORES = ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The folder of this test's state; what is installed here comes first on PATH."""
    for name in (*_INSTANCES, *_CORES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return tmp_path / "state"
