"""JAX on the device, with eight cores; JAX forbids forks, so `make test` runs this folder alone."""

import os

# Before JAX is imported, and before the device counts its cores.
os.environ.setdefault("JAX_PLATFORMS", "neuron,cpu")
os.environ["NEURON_RT_NUM_CORES"] = "8"

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # modules by their names
sys.path.append(str(Path(__file__).parent / "stablehlo"))  # its programs by their names

jax = pytest.importorskip("jax", reason="pip install 'trnsim[jax]'")


@pytest.fixture(scope="session")
def neuron():
    """The devices of the platform."""
    return jax.devices("neuron")


@pytest.fixture
def ran():
    """Runs a program in a process of its own: what it printed, on stdout and on stderr."""

    def run(program, *, expected=0, **variables):
        known = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=known | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == expected, done.stdout + done.stderr
        return done

    return run
