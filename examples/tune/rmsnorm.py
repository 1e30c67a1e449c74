"""RMSNorm of rows, whose transfers and engines are parameters.

trnsim tune examples/tune/rmsnorm.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def rmsnorm(x, gain, loads=1, squares_on="vector", gains_on=nisa.engine.gpsimd, stores=1):
    """x / sqrt(mean(x * x)) * gain of each row of x [N, F], with gain [1, F].

    Args:
        x: the rows.
        gain: the factor of each column.
        loads: transfers by which a tile of rows comes.
        squares_on: the engine that squares and adds up: vector or scalar.
        gains_on: the engine that multiplies by the gain.
        stores: transfers by which a tile leaves.
    """
    N, F = x.shape
    out = nl.ndarray((N, F), dtype=x.dtype, buffer=nl.shared_hbm)
    gains = nl.ndarray((ROWS, F), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gains, src=gain.ap([[0, ROWS], [1, F]]))
    for row in range(0, N, ROWS):
        tile = nl.ndarray((ROWS, F), dtype=x.dtype, buffer=nl.sbuf)
        width = F // loads
        for start in range(0, F, width):
            part = slice(start, start + width)
            nisa.dma_copy(dst=tile[:, part], src=x[row : row + ROWS, part])
        scale = inverse_root_mean_square(tile, squares_on)
        width = F // stores
        for start in range(0, F, width):
            part = slice(start, start + width)
            nisa.activation(dst=tile[:, part], op=nl.copy, data=tile[:, part], scale=scale)
            nisa.tensor_tensor(
                dst=tile[:, part], data1=tile[:, part], data2=gains[:, part], op=nl.multiply,
                engine=gains_on,
            )  # fmt: skip
            nisa.dma_copy(dst=out[row : row + ROWS, part], src=tile[:, part])
    return out


def inverse_root_mean_square(tile, squares_on):
    """1 / sqrt(mean(tile * tile)) of each row."""
    F = tile.shape[1]
    squares = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    if squares_on == "vector":
        nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
    else:
        nisa.activation(
            dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
    scale = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1 / F)
    return scale


rmsnorm_parameters = {
    "loads": [1, 2, 4],
    "squares_on": ["vector", "scalar"],
    "gains_on": [nisa.engine.vector, nisa.engine.gpsimd],
    "stores": [1, 2, 4, 8],
}


def rmsnorm_inputs():
    """Rows of float32, and a gain for each column."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1024, 2048), dtype=np.float32)
    return x, rng.standard_normal((1, 2048), dtype=np.float32)


def rmsnorm_reference(x, gain):
    """The same by numpy."""
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True)) * gain
