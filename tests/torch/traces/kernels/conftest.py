"""Stored forms of kernels, through JSON as in a file."""

import json

import numpy as np
import pytest

import trnsim
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.torch.traces.kernels.kernel_checks import checked_kernel
from trnsim.torch.traces.kernels.recorder import KernelRecorder


@jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nl.store(out, tile)
    return out


def json_of(kernel, *arrays, target="trn2"):
    recorder = KernelRecorder(kernel, arrays)
    trnsim.run(recorder, *arrays, target=target, numerics=False)
    return json.loads(json.dumps(recorder.kernel.to_json()))


@pytest.fixture
def stored_kernel():
    return lambda *call, **options: checked_kernel(json_of(*call, **options), "kernels[0]")


@pytest.fixture
def form():
    """The JSON of a kernel of three instructions."""
    return json_of(doubled, np.ones((4, 8), np.float32))
