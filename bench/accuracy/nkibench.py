"""Five kernels of NKIBench, written anew for today's NKI.

The published ones are for NKI 0.1, whose compiler chose engines and moved loads. The loops, the
engines and what is loaded how often are chosen here so that the published counters come out: bytes
read and written, and the engines' shares of the time. All arrays are float32, all sizes multiples
of a tile's.

Source: AccelOpt@47e29a7, NKIBench, the counters of its baseline kernels (rows `nkibench-*`).
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from launches import Launch

ROWS = 128
"""Rows of a tile."""

BANK = 512
"""Columns of a PSUM tile: a bank in float32."""

BLOCK = 1024
"""Columns of a block of a result."""


def _sbuf(*shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def _psum(*shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def _loaded(source):
    """A part of an array in HBM, in SBUF."""
    tile = _sbuf(*source.shape)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def _copy(dst, src):
    """Copy on the Scalar Engine, which did nearly all copies by the counters."""
    nisa.activation(dst=dst, op=nl.copy, data=src)


def _transposed(tile):
    """A tile [128, K] transposed by the Tensor Engine, 128 columns at a time: K/128 tiles."""
    found = []
    for start in range(0, tile.shape[1], ROWS):
        part = tile[:, start : min(start + ROWS, tile.shape[1])]
        turned = _psum(part.shape[1], ROWS)
        nisa.nc_transpose(dst=turned, data=part, engine=nisa.engine.tensor)
        found.append(_sbuf(part.shape[1], ROWS))
        _copy(found[-1], turned)
    return found


def _product(dst, stationary, moving):
    """The sum of products of tiles, over 512 columns of the moving ones at a time, into SBUF."""
    for start in range(0, dst.shape[1], BANK):
        total = _psum(ROWS, BANK)
        for left, right in zip(stationary, moving, strict=True):
            nisa.nc_matmul(total, left, right[:, start : start + BANK])
        _copy(dst[:, start : start + BANK], total)


@nki.jit
def matmul(x, w):
    """X [M, K] @ w [K, N]; the published counters say that w is loaded anew for each 128 rows."""
    (m, k), n = x.shape, w.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for column in nl.affine_range(n // BLOCK):
        columns = slice(column * BLOCK, (column + 1) * BLOCK)
        for row in nl.affine_range(m // ROWS):
            rows = slice(row * ROWS, (row + 1) * ROWS)
            left = []
            for start in range(0, k, BLOCK):
                left += _transposed(_loaded(x[rows, start : start + BLOCK]))
            right = [_loaded(w[start : start + ROWS, columns]) for start in range(0, k, ROWS)]
            block = _sbuf(ROWS, BLOCK)
            _product(block, left, right)
            nisa.dma_copy(dst=out[rows, columns], src=block)
    return out


@nki.jit
def bmm(x, w):
    """X [B, M, K] @ w [B, K, N] for K up to 128."""
    batches, m, _ = x.shape
    n = w.shape[2]
    out = nl.ndarray((batches, m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for batch in nl.affine_range(batches):
        for column in nl.affine_range(n // BLOCK):
            columns = slice(column * BLOCK, (column + 1) * BLOCK)
            right = [_loaded(w[batch, :, columns])]
            for row in nl.affine_range(m // ROWS):
                rows = slice(row * ROWS, (row + 1) * ROWS)
                left = _transposed(_loaded(x[batch, rows, :]))
                block = _sbuf(ROWS, BLOCK)
                _product(block, left, right)
                nisa.dma_copy(dst=out[batch, rows, columns], src=block)
    return out


@nki.jit
def silu(x):
    """X / (1 + exp(-x)) of x [M, N], partition p with rows p M/128 and on."""
    m, n = x.shape
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    source, result = (array.reshape((ROWS, m // ROWS, n)) for array in (x, out))
    for row in nl.affine_range(m // ROWS):
        for start in range(0, n, BLOCK):
            block, answer = _loaded(source[:, row, start : start + BLOCK]), _sbuf(ROWS, BLOCK)
            for half in (slice(0, BANK), slice(BANK, BLOCK)):
                below = _sbuf(ROWS, BANK)
                nisa.activation(dst=below, op=nl.exp, data=block[:, half], scale=-1.0)
                nisa.tensor_scalar(
                    dst=below, data=below, op0=nl.add, operand0=1.0, engine=nisa.engine.scalar
                )
                nisa.reciprocal(dst=below, data=below)
                nisa.tensor_tensor(
                    dst=answer[:, half], data1=block[:, half], data2=below, op=nl.multiply
                )
            nisa.dma_copy(dst=result[:, row, start : start + BLOCK], src=answer)
    return out


def _inverse_rms(tile):
    """1 / sqrt(mean of squares) of each row of a tile, a tile [128, 1]."""
    columns = tile.shape[1]
    squares, total = _sbuf(ROWS, columns), _sbuf(ROWS, 1)
    for start in range(0, columns, BANK):
        part = slice(start, start + BANK)
        nisa.activation(dst=squares[:, part], op=nl.square, data=tile[:, part])
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
    nisa.activation(dst=total, op=nl.rsqrt, data=total, scale=1.0 / columns)
    return total


def _scaled(tile, scale):
    """Each row of a tile times its own number, on the Scalar Engine."""
    answer = _sbuf(*tile.shape)
    nisa.tensor_scalar(
        dst=answer, data=tile, op0=nl.multiply, operand0=scale, engine=nisa.engine.scalar
    )
    return answer


@nki.jit
def rmsnorm_matmul(x, w):
    """rms_norm(x [M, K]) @ w [K, N]: 1,024 rows at a time, w loaded for each of these groups."""
    (m, k), n = x.shape, w.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    for group in nl.affine_range(m // BLOCK):
        first = group * BLOCK
        left = []
        for start in range(first, first + BLOCK, ROWS):
            tile = _loaded(x[start : start + ROWS, :])
            left.append(_transposed(_scaled(tile, _inverse_rms(tile))))
        for column in range(0, n, BLOCK):
            columns = slice(column, column + BLOCK)
            right = [_loaded(w[start : start + ROWS, columns]) for start in range(0, k, ROWS)]
            for number, turned in enumerate(left):
                block, start = _sbuf(ROWS, BLOCK), first + number * ROWS
                _product(block, turned, right)
                nisa.dma_copy(dst=out[start : start + ROWS, columns], src=block)
    return out


@nki.jit
def matmul_add_rmsnorm(x, w, z, g):
    """rms_norm(x [M, K] @ w [K, N] + z [M, N]) * g [N], w loaded once."""
    (m, k), n = x.shape, w.shape[1]
    out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
    gains = nl.broadcast_to(_loaded(g.reshape((1, n))), (ROWS, n))
    right = [_loaded(w[start : start + ROWS, :]) for start in range(0, k, ROWS)]
    for row in nl.affine_range(m // ROWS):
        rows = slice(row * ROWS, (row + 1) * ROWS)
        left = _transposed(_loaded(x[rows, :]))
        total = _sbuf(ROWS, n)
        _product(total, left, right)
        nisa.tensor_tensor(dst=total, data1=total, data2=_loaded(z[rows, :]), op=nl.add)
        answer = _scaled(total, _inverse_rms(total))
        nisa.tensor_tensor(dst=answer, data1=answer, data2=gains, op=nl.multiply)
        nisa.dma_copy(dst=out[rows, :], src=answer)
    return out


SHAPES = {
    "bmm": {"x": "BMK", "w": "BKN"},
    "matmul": {"x": "MK", "w": "KN"},
    "matmul_add_rmsnorm": {"x": "MK", "w": "KN", "z": "MN", "g": "N"},
    "rmsnorm_matmul": {"x": "MK", "w": "KN"},
    "silu": {"x": "MN"},
}
"""The axes of each kernel's arrays."""


def launch(row, folder):
    """The kernel of a row, on Trn1."""
    del folder
    name = row["id"].split("-")[1]
    arrays = {
        array: np.empty([row["shapes"][axis] for axis in axes], np.float32)
        for array, axes in SHAPES[name].items()
    }
    return Launch(KERNELS[name], "trn1", arrays)


KERNELS = {
    "bmm": bmm,
    "matmul": matmul,
    "matmul_add_rmsnorm": matmul_add_rmsnorm,
    "rmsnorm_matmul": rmsnorm_matmul,
    "silu": silu,
}
