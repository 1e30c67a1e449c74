"""Kernels of the table of calls, and the same tiles in plain numpy (see kernels.py)."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = 128


@nki.jit
def rmsnorm(x, weight):
    """Rows x / sqrt(mean(x ** 2) + 1e-6) * weight in float32, tiles of 128 rows."""
    rows, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=scale, src=weight.ap([[0, P], [1, width]]))
    for row in range(0, rows, P):
        tile = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + P])
        squares = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.tensor_scalar(
            dst=total, data=total, op0=nl.multiply, operand0=1 / width, op1=nl.add, operand1=1e-6
        )
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=scale, op=nl.multiply)
        nisa.dma_copy(dst=out[row : row + P], src=tile)
    return out


def rmsnorm_numpy(x, weight):
    """The same tiles in numpy."""
    rows, width = x.shape
    out = np.empty_like(x)
    scale = np.broadcast_to(weight, (P, width)).copy()
    for row in range(0, rows, P):
        tile = x[row : row + P].copy()
        total = np.square(tile).sum(axis=1, keepdims=True)
        total = 1 / np.sqrt(total * np.float32(1 / width) + np.float32(1e-6))
        out[row : row + P] = tile * total * scale
    return out


@nki.jit
def ten(x):
    """Ten elementwise instructions on each tile of 128 rows, on one core or the rows of two."""
    rows, width = x.shape
    cores, core = nl.num_programs(0), nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(core * (rows // cores), (core + 1) * (rows // cores), P):
        tile = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        other = nl.ndarray((P, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + P])
        nisa.tensor_scalar(dst=other, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
        nisa.tensor_scalar(dst=other, data=tile, op0=nl.maximum, operand0=-1.0)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.subtract)
        nisa.tensor_scalar(dst=other, data=other, op0=nl.minimum, operand0=1.0)
        nisa.tensor_tensor(dst=tile, data1=other, data2=tile, op=nl.multiply)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=0.25)
        nisa.tensor_tensor(dst=other, data1=tile, data2=other, op=nl.maximum)
        nisa.tensor_scalar(dst=other, data=other, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
        nisa.dma_copy(dst=out[row : row + P], src=tile)
    return out


def ten_numpy(x):
    """The same tiles in numpy."""
    out = np.empty_like(x)
    half, two, quarter, one = map(np.float32, (0.5, 2.0, 0.25, 1.0))
    for row in range(0, len(x), P):
        tile = x[row : row + P].copy()
        other = tile * half
        tile = tile + other
        other = np.maximum(tile, -one)
        tile = tile - other
        other = np.minimum(other, one)
        tile = other * tile
        tile = tile + quarter
        other = np.maximum(tile, other)
        other = other * two
        tile = tile + other
        out[row : row + P] = tile
    return out


@nki.jit
def gather(table, indices):
    """The rows of `table` at `indices` [rows, 1], 128 at a time."""
    rows, width = indices.shape[0], table.shape[1]
    out = nl.ndarray((rows, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        chosen = nl.ndarray((P, 1), dtype=indices.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=chosen, src=indices[row : row + P])
        tile = nl.ndarray((P, width), dtype=table.dtype, buffer=nl.sbuf)
        source = table.ap([[width, P], [1, width]], vector_offset=chosen)
        nisa.dma_copy(dst=tile, src=source)
        nisa.dma_copy(dst=out[row : row + P], src=tile)
    return out


def gather_numpy(table, indices):
    """The same tiles in numpy."""
    out = np.empty((len(indices), table.shape[1]), table.dtype)
    for row in range(0, len(indices), P):
        chosen = indices[row : row + P].copy()
        tile = table[chosen[:, 0]]
        out[row : row + P] = tile
    return out
