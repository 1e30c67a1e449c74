"""What tests of the examples on several ranks share."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import nki.isa as nisa
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def example():
    """The names of an example by its file's name."""
    return lambda name: SimpleNamespace(**runpy.run_path(str(EXAMPLES / f"{name}.py")))


@pytest.fixture
def without_barrier(monkeypatch):
    """A function that takes the core_barrier on the tensors of a name out of kernels."""
    whole = nisa.core_barrier

    def take_out(name):
        met = []

        def barrier(data, cores):
            met.append(data.storage.name)
            if data.storage.name != name:
                whole(data, cores)

        monkeypatch.setattr(nisa, "core_barrier", barrier)
        return met

    return take_out


@pytest.fixture
def hidden_s():
    """A function: for each `opcode` of a rank's first core, the seconds in which products run."""

    def found(run, opcode):
        spans = list(run.timelines[0].spans())
        products = [(one.start_s, one.busy_until_s) for one in spans if one.opcode == "nc_matmul"]
        return [
            sum(max(0, min(end, one.busy_until_s) - max(at, one.start_s)) for at, end in products)
            for one in spans
            if one.opcode == opcode
        ]

    return found
