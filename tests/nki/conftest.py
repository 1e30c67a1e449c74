"""Kernels in one line: functions of tiles as a kernel would call them."""

import pytest

import trnsim
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to


@pytest.fixture
def on_core(core_v3):
    """Inside a kernel on NeuronCore-v3."""
    with issuing_to(CoreContext(core_v3)) as context:
        yield context


@pytest.fixture
def computed(monkeypatch):
    """`function(*tiles)` in a kernel; `as_simulator` runs it through AWS's entry point."""

    def compute(function, *arrays, target="trn3", as_simulator=False, **options):
        @jit
        def kernel(*given):
            tiles = [nl.load(x) if hasattr(x, "shape") else x for x in given]
            result = function(*tiles, **options)
            if nl.is_psum(result.buffer):
                result = nl.copy(result)
            out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
            nl.store(out, result)
            return out

        if as_simulator:
            monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
            return trnsim.nki.simulate(kernel)(*arrays)
        return trnsim.run(kernel, *arrays, target=target).outputs

    return compute
