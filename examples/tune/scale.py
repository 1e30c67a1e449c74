"""Rows times a factor: a kernel that no setting of its parameters makes faster.

trnsim tune examples/tune/scale.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def scale(x, parts=1, scales_on=nisa.engine.vector):
    """2 * x of x [N, F].

    Args:
        x: the rows.
        parts: transfers by which a tile of rows comes and leaves.
        scales_on: the engine that multiplies.
    """
    N, F = x.shape
    out = nl.ndarray((N, F), dtype=x.dtype, buffer=nl.shared_hbm)
    width = F // parts
    for row in range(0, N, ROWS):
        for start in range(0, F, width):
            part = slice(start, start + width)
            tile = nl.ndarray((ROWS, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[row : row + ROWS, part])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=scales_on)
            nisa.dma_copy(dst=out[row : row + ROWS, part], src=tile)
    return out


scale_parameters = {
    "parts": [1, 2, 4, 8, 16],
    "scales_on": [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd],
}


def scale_inputs():
    """Rows of bfloat16."""
    return (np.ones((1024, 2048), nl.bfloat16),)


def scale_reference(x):
    """The same by numpy."""
    return 2 * x
