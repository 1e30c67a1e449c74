"""Kernels whose versions differ by a line, for tests of the gate: import it by name."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from trnsim.gate.kernel_file import Arguments
from trnsim.gate.kernel_time import kernel_time
from trnsim.gate.source import source_digest
from trnsim.runner import run

X = np.ones((256, 512), np.float32)


def load(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def scaled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = load(x[row : row + 128])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[row : row + 128], src=tile)
    return out


@nki.jit
def scaled_twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = load(x[row : row + 128])
        nisa.reciprocal(dst=tile, data=tile)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[row : row + 128], src=tile)
    return out


def timed(kernel, x=X, chip="trn2"):
    """A run of a kernel, and its time."""
    result = run(kernel, x, target=chip)
    return result, kernel_time(result, source_digest(kernel, Arguments((x,), {})), "x")
