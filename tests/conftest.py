"""NeuronCores, and a bench on which instructions are issued to one of them."""

import gc
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4, TARGETS
from trnsim.dtypes import FLOAT32, as_dtype
from trnsim.memory import Memory, Tile
from trnsim.program import CoreContext, issuing_to
from trnsim.timing import timelines

# A time that one test run computed is no proof of what the next one computes.
os.environ["TRNSIM_CACHE"] = "off"
# Tests are no programs of the user's: those of the state name a folder of their own.
os.environ["TRNSIM_STATE"] = "off"
# Nor do they take what somebody measured: a site.json beside a program or in its folder.
os.environ["TRNSIM_SITE"] = ""
# Texts are as wide as a terminal; tests have none.
os.environ["COLUMNS"] = "100"

sys.path.append(str(Path(__file__).parent / "processes"))  # forked.py is a module by its name
sys.path.append(str(Path(__file__).parent / "suite"))  # likewise the plugins
sys.path.append(str(Path(__file__).parent / "document"))  # likewise checks by schemas
sys.path.append(str(Path(__file__).parent / "cluster" / "kubernetes"))  # likewise an API
sys.path.append(str(Path(__file__).parents[1] / "docs" / "makers"))  # likewise makers of pages
pytest_plugins = ["costs", "going_on", "hanging", "shares"]

# JAX starts threads, beside which other tests may not fork: `make test` runs its oracle by itself,
# and the tests of its device. `tests/platform` has what released programs need.
collect_ignore = ["graph/test_oracle.py", "jax", "jax_versions", "platform"]

# Unless a test says how many: few for `make test`, and as many as find more for `make nightly`.
settings.register_profile("trnsim", max_examples=20, deadline=None)
settings.register_profile("nightly", max_examples=100, deadline=None)
settings.load_profile("trnsim")


def pytest_configure():
    """Takes Ctrl-C again where the run was started in the background of a shell.

    Such a shell has SIGINT ignored, also by every process that a test starts and interrupts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collects without Python's search for cycles, which later passes over what was collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def shorten(patch):
    """Capacities from runs of 256 requests, for what is not their figures."""
    for name in ("BRIEF_RUN", "LONG_RUN", "LONGEST_RUN"):
        patch.setattr(f"trnsim.system.serve.capacity.{name}", 256)


@pytest.fixture
def short_runs(monkeypatch):
    """Runs of servers that take a part of their time."""
    shorten(monkeypatch)


@pytest.fixture(scope="session")
def shortest():
    """Makes runs of servers as short as they can be, those that compare layouts too."""

    def shorten_all(patch):
        shorten(patch)
        for module in ("answer", "nearest", "ranking"):
            patch.setattr(f"trnsim.system.serve.{module}.SHORT_RUN", 64)
        patch.setattr("trnsim.system.serve.capacity._SHORT_PROBE", 1.0)

    return shorten_all


@pytest.fixture
def shortest_runs(shortest, monkeypatch):
    """Runs of servers for what is looked at neither for its figures nor for its layout."""
    shortest(monkeypatch)


class Bench:
    """A NeuronCore at work: tiles from arrays, instructions one by one, what they cost."""

    def __init__(self, core=NEURONCORE_V3, *, has_values=True):
        self.core = core
        self.context = CoreContext(core, has_values=has_values)

    @property
    def program(self):
        return self.context.program

    @property
    def timeline(self):
        """Of what has been issued so far."""
        return timelines([self.program])[0]

    def empty(self, shape, dtype=FLOAT32, memory=Memory.SBUF, **kwargs):
        """A tile that nothing has written."""
        dtype = as_dtype(dtype)
        storage, layout = self.context.memory.allocate(tuple(shape), dtype, memory, **kwargs)
        return Tile(storage, dtype, layout.pattern)

    def tile(self, values, dtype=None, memory=Memory.SBUF):
        """A tile that holds `values` already."""
        values = np.asarray(values)
        tile = self.empty(values.shape, values.dtype if dtype is None else dtype, memory)
        if self.context.has_values:
            tile.store(values)
        tile.storage.written.add(tile.pattern, tile.dtype.itemsize)
        return tile

    def issue(self, instruction):
        """Issue it and hand back its first operand, which is what it writes."""
        with issuing_to(self.context):
            self.context.issue(instruction)
        return instruction.dst

    def cost(self, instruction):
        """Verify it and price it, without issuing it."""
        return instruction.cost(self.core, instruction.verify(self.core))

    def cycles(self, instruction, clock_hz):
        """Its initiation interval in cycles of a clock."""
        return self.cost(instruction).interval_s * clock_hz


CHIPS = {"trn1", "inf2", "trn2", "trn3"}


@pytest.fixture(autouse=True)
def chips():
    """The table with four chips alone, so that what tests spell stays true when one is added.

    A chip's own test takes its entry from here and puts it back: ``TARGETS[name] = chips[name]``.
    Every test has this fixture, which therefore asks for no other.
    """
    every = dict(TARGETS)
    for name in every.keys() - CHIPS:
        del TARGETS[name]
    yield every
    TARGETS.clear()
    TARGETS.update(every)


@pytest.fixture(scope="session")
def bench():
    """Makes a bench: `bench()` for NeuronCore-v3, `bench(core)` for another."""
    return Bench


@pytest.fixture(scope="session")
def core_v2():
    return NEURONCORE_V2


@pytest.fixture(scope="session")
def core_v3():
    return NEURONCORE_V3


@pytest.fixture(scope="session")
def core_v4():
    return NEURONCORE_V4


@pytest.fixture(
    scope="session",
    params=[NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4],
    ids=lambda core: core.name,
)
def core(request):
    """Each generation in turn."""
    return request.param


@pytest.fixture(scope="session")
def random():
    """Seeded arrays: `random(shape, dtype, seed)`, standard normal or small integers."""

    def make(shape, dtype=np.float32, seed=0):
        rng = np.random.default_rng(seed)
        dtype = np.dtype(dtype)
        if dtype.kind in "iu":
            return rng.integers(0, 100, shape).astype(dtype)
        return rng.standard_normal(shape).astype(np.float32).astype(dtype)

    return make
