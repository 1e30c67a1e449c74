"""The work that is timed: NKI kernels, and the same tiles in plain numpy.

The numpy versions are what one writes by hand without an emulator: the same tiles, ml_dtypes for
bfloat16 where the kernel has bfloat16, and a fresh array for the result of each instruction (for
each of its steps, where numpy has no single function for it). No checks.
"""

from __future__ import annotations

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P, K, F = 128, 128, 512
BF16 = ml_dtypes.bfloat16


@nki.jit
def matmul(lhs_t, rhs):
    """lhs_t.T @ rhs for bfloat16 [1024, 1024], tiles of 128 x 128 x 512, each loaded once."""
    (depth, rows), (_, columns) = lhs_t.shape, rhs.shape
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = load_tiles(lhs_t, P), load_tiles(rhs, F)
    for m in range(rows // P):
        for n in range(columns // F):
            total = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.psum)
            for k in range(depth // K):
                nisa.nc_matmul(dst=total, stationary=left[k][m], moving=right[k][n])
            result = nl.ndarray((P, F), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(dst=out[m * P : (m + 1) * P, n * F : (n + 1) * F], src=result)
    return out


def load_tiles(array, width):
    """Tiles of K rows and `width` columns, in SBUF."""
    tiles = []
    for row in range(0, array.shape[0], K):
        tiles.append([])
        for column in range(0, array.shape[1], width):
            tile = nl.ndarray((K, width), dtype=array.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=array[row : row + K, column : column + width])
            tiles[-1].append(tile)
    return tiles


def matmul_numpy(lhs_t, rhs):
    """The same tiles in numpy."""
    (depth, rows), (_, columns) = lhs_t.shape, rhs.shape
    out = np.empty((rows, columns), np.float32)
    left, right = copy_tiles(lhs_t, P), copy_tiles(rhs, F)
    for m in range(rows // P):
        for n in range(columns // F):
            total = None
            for k in range(depth // K):
                product = left[k][m].astype(np.float32).T @ right[k][n].astype(np.float32)
                total = product if total is None else total + product
            out[m * P : (m + 1) * P, n * F : (n + 1) * F] = total.copy()
    return out


def copy_tiles(array, width):
    """Tiles of K rows and `width` columns, copied."""
    return [
        [array[k : k + K, n : n + width].copy() for n in range(0, array.shape[1], width)]
        for k in range(0, array.shape[0], K)
    ]


@nki.jit
def softmax(x):
    """Softmax of the rows of float32 [4096, 2048], tiles of 128 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], P):
        tile = nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + P])
        minus_largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_largest, op=nl.maximum, data=tile, axis=1, negate=True)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        weights = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=weights,
            op=nl.exp,
            data=tile,
            bias=minus_largest,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.reciprocal(dst=total, data=total)
        result = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=weights, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[row : row + P], src=result)
    return out


def softmax_numpy(x):
    """The same tiles in numpy."""
    out = np.empty_like(x)
    for row in range(0, x.shape[0], P):
        tile = x[row : row + P].copy()
        largest = tile.max(axis=1, keepdims=True)
        weights = np.exp(tile - largest)
        total = weights.sum(axis=1, keepdims=True)
        out[row : row + P] = weights * (1 / total)
    return out


@nki.jit
def layernorm(x):
    """(x - mean) / sqrt(variance + 1e-5) of the rows of float32 [4096, 2048], tiles of 128 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    width = x.shape[1]
    for row in range(0, x.shape[0], P):
        tile = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + P])
        minus_mean = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_mean, op=nl.add, data=tile, axis=1, negate=True)
        nisa.tensor_scalar(dst=minus_mean, data=minus_mean, op0=nl.multiply, operand0=1 / width)
        squares = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=squares,
            op=nl.square,
            data=tile,
            bias=minus_mean,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.tensor_scalar(
            dst=total, data=total, op0=nl.multiply, operand0=1 / width, op1=nl.add, operand1=1e-5
        )
        nisa.activation(dst=total, op=nl.rsqrt, data=total)
        result = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=result,
            data=tile,
            op0=nl.add,
            operand0=minus_mean,
            op1=nl.multiply,
            operand1=total,
        )
        nisa.dma_copy(dst=out[row : row + P], src=result)
    return out


def layernorm_numpy(x):
    """The same tiles in numpy."""
    out = np.empty_like(x)
    for row in range(0, x.shape[0], P):
        tile = x[row : row + P].copy()
        mean = tile.sum(axis=1, keepdims=True) * (1 / x.shape[1])
        squares = np.square(tile - mean)
        variance = squares.sum(axis=1, keepdims=True) * (1 / x.shape[1])
        out[row : row + P] = (tile - mean) * (1 / np.sqrt(variance + 1e-5))
    return out


@nki.jit
def repeated(x, times):
    """`times` rounds of load, copy, multiply, add and store of a tile: 5 instructions each."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(times):
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        twice = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=twice, src=tile)
        nisa.tensor_scalar(dst=twice, data=twice, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=tile, data1=twice, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def narrowing(x, times):
    """As `repeated`, each round on a tile one column narrower: no two instructions are alike."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for left_out in range(times):
        width = x.shape[1] - left_out
        tile = nl.ndarray((P, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, :width])
        twice = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=twice, src=tile)
        nisa.tensor_scalar(dst=twice, data=twice, op0=nl.multiply, operand0=2.0)
        nisa.tensor_tensor(dst=tile, data1=twice, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out[:, :width], src=tile)
    return out


def attention_numpy(q, k, v):
    """Flash attention as examples/attention.py does it, tile by tile, in numpy."""
    S, D = q.shape
    scale = np.float32(1 / np.sqrt(D))
    k_t, v_tiles = np.empty((D, S), BF16), []
    for row in range(0, S, P):
        k_t[:, row : row + P] = k[row : row + P].astype(BF16).T.copy()
        v_tiles.append(v[row : row + P].astype(BF16))
    out = np.empty_like(q)
    for row in range(0, S, P):
        q_t = q[row : row + P].astype(BF16).T.copy().copy()
        largest = np.full((P, 1), -3e38, np.float32)
        total, result = np.zeros((P, 1), np.float32), np.zeros((P, D), np.float32)
        for key in range(0, S, F):
            scores = q_t.astype(np.float32).T @ k_t[:, key : key + F].astype(np.float32)
            new_largest = np.maximum(scores.max(axis=1, keepdims=True) * scale, largest)
            shrink = np.exp(largest - new_largest)
            exact = np.exp(scores * scale - new_largest)
            weights, sums = exact.astype(BF16), exact.sum(axis=1, keepdims=True)
            largest, total = new_largest, total * shrink + sums
            block = None
            for part in range(F // P):
                weights_t = weights[:, part * P : (part + 1) * P].T.copy().copy()
                product = weights_t.astype(np.float32).T @ v_tiles[key // P + part].astype(
                    np.float32
                )
                block = product if block is None else block + product
            result = result * shrink + block
        out[row : row + P] = result * (1 / total)
    return out
