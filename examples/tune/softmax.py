"""Softmax of rows, whose transfers and engines are parameters.

trnsim tune examples/tune/softmax.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def softmax(x, loads=1, stores=1, scales_on=nisa.engine.scalar, has_sums_apart=True):
    """Softmax of each row of x [N, F].

    Args:
        x: the rows.
        loads: transfers by which a tile of rows comes.
        stores: transfers by which it leaves.
        scales_on: the engine that divides by the sums.
        has_sums_apart: whether the sums are an instruction of their own.
    """
    N, F = x.shape
    out = nl.ndarray((N, F), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, N, ROWS):
        tile = nl.ndarray((ROWS, F), dtype=x.dtype, buffer=nl.sbuf)
        for part in parts(F, loads):
            nisa.dma_copy(dst=tile[:, part], src=x[row : row + ROWS, part])
        minus_largest = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_largest, op=nl.maximum, data=tile, axis=1, negate=True)
        weights, total = exponentials(tile, minus_largest, has_sums_apart)
        nisa.reciprocal(dst=total, data=total)
        for part in parts(F, stores):
            nisa.tensor_scalar(
                dst=weights[:, part], data=weights[:, part], op0=nl.multiply, operand0=total,
                engine=scales_on,
            )  # fmt: skip
            nisa.dma_copy(dst=out[row : row + ROWS, part], src=weights[:, part])
    return out


def parts(columns, count):
    """The slices of columns in `count` equal parts."""
    width = columns // count
    return [slice(start, start + width) for start in range(0, columns, width)]


def exponentials(tile, minus_largest, has_sums_apart):
    """exp(tile - largest), and its sums."""
    weights = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    if has_sums_apart:
        nisa.activation(dst=weights, op=nl.exp, data=tile, bias=minus_largest)
        nisa.tensor_reduce(dst=total, op=nl.add, data=weights, axis=1)
    else:
        nisa.activation(
            dst=weights, op=nl.exp, data=tile, bias=minus_largest, reduce_op=nl.add,
            reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
    return weights, total


softmax_parameters = {
    "loads": [1, 2, 4, 8],
    "stores": [1, 2, 4, 8],
    "scales_on": [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd],
    "has_sums_apart": [True, False],
}


def softmax_inputs():
    """Rows of float32."""
    return (np.random.default_rng(0).standard_normal((1024, 2048), dtype=np.float32),)


def softmax_reference(x):
    """numpy's softmax."""
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
