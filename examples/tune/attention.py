"""Attention of one head, whose blocks and engines are parameters.

trnsim tune examples/tune/attention.py
"""

import math

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def attention(
    q,
    k,
    v,
    keys=128,
    keys_flipped_on=nisa.engine.scalar,
    weights_flipped_on=nisa.engine.scalar,
    has_keys_first=False,
    sums_on="vector",
):
    """softmax(q @ k.T / sqrt(D)) @ v of q, k and v [S, D], a block of keys after the other.

    Args:
        q: the queries.
        k: the keys.
        v: the values.
        keys: keys of a block.
        keys_flipped_on: the engine that takes transposed queries and keys out of PSUM.
        weights_flipped_on: the engine that takes transposed weights out of PSUM.
        has_keys_first: whether all keys and values are loaded once, before any query.
        sums_on: the engine that adds up the weights: vector or scalar.
    """
    S, D = q.shape
    out = nl.ndarray((S, D), dtype=q.dtype, buffer=nl.shared_hbm)
    blocks = range(0, S, keys)
    kept = {
        start: block_of(k, v, start, keys, keys_flipped_on) for start in blocks if has_keys_first
    }
    for row in range(0, S, ROWS):
        q_t = transposed(load(q[row : row + ROWS]), keys_flipped_on)
        minus_largest = nl.full((ROWS, 1), 3e38, dtype=nl.float32)
        total, result = (nl.zeros((ROWS, n), dtype=nl.float32) for n in (1, D))
        for start in blocks:
            block = kept.get(start) or block_of(k, v, start, keys, keys_flipped_on)
            minus_largest = attend(
                q_t, block, minus_largest, (total, result), weights_flipped_on, sums_on
            )
        nisa.reciprocal(dst=total, data=total)
        rounded = nl.ndarray((ROWS, D), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=rounded, data=result, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[row : row + ROWS], src=rounded)
    return out


def load(source):
    """A tile of rows from HBM."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def transposed(tile, flips_on):
    """The transpose of a tile of at most [128, 128]."""
    flipped = nl.ndarray(tile.shape[::-1], dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=flipped, data=tile)
    result = nl.ndarray(flipped.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=flipped, engine=flips_on)
    return result


def block_of(k, v, start, keys, flips_on):
    """A block of keys, transposed, and its values as tiles of [128, D]."""
    D = k.shape[1]
    k_t = nl.ndarray((D, keys), dtype=k.dtype, buffer=nl.sbuf)
    values = []
    for part in range(0, keys, ROWS):
        flipped = nl.ndarray((D, ROWS), dtype=k.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=flipped, data=load(k[start + part : start + part + ROWS]))
        nisa.tensor_copy(dst=k_t[:, part : part + ROWS], src=flipped, engine=flips_on)
        values.append(load(v[start + part : start + part + ROWS]))
    return k_t, values


def attend(q_t, block, minus_older, kept, flips_on, sums_on):
    """Add a block of keys to the sums and the result of a tile of queries; minus the maxima."""
    k_t, values = block
    D, keys = k_t.shape
    scores = nl.ndarray((ROWS, keys), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q_t, moving=k_t)
    scale = 1 / math.sqrt(D)
    minus_block, minus_largest, shrink, sums = (
        nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4)
    )
    nisa.tensor_reduce(dst=minus_block, op=nl.maximum, data=scores, axis=1, negate=True)
    nisa.tensor_scalar(
        dst=minus_largest, data=minus_block, op0=nl.multiply, operand0=scale, op1=nl.minimum,
        operand1=minus_older,
    )  # fmt: skip
    nisa.activation(dst=shrink, op=nl.exp, data=minus_older, scale=-1.0, bias=minus_largest)
    weights = nl.ndarray((ROWS, keys), dtype=q_t.dtype, buffer=nl.sbuf)
    if sums_on == "vector":
        nisa.activation(dst=weights, op=nl.exp, data=scores, bias=minus_largest, scale=scale)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=weights, axis=1)
    else:
        nisa.activation(
            dst=weights, op=nl.exp, data=scores, bias=minus_largest, scale=scale,
            reduce_op=nl.add, reduce_res=sums, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
    product = nl.ndarray((ROWS, D), dtype=nl.float32, buffer=nl.psum)
    for part, tile in enumerate(values):
        weights_t = transposed(weights[:, part * ROWS : (part + 1) * ROWS], flips_on)
        nisa.nc_matmul(dst=product, stationary=weights_t, moving=tile)
    for older, new in zip(kept, (sums, product), strict=True):
        nisa.scalar_tensor_tensor(
            dst=older, data=older, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=new
        )
    return minus_largest


attention_parameters = {
    "keys": [128, 256, 384, 512],
    "keys_flipped_on": [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd],
    "weights_flipped_on": [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd],
    "has_keys_first": [False, True],
    "sums_on": ["vector", "scalar"],
}
attention_tolerance = 2**-6


def attention_inputs():
    """Queries, keys and values of bfloat16."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((1024, 128)).astype(nl.bfloat16) for _ in range(3))


def attention_reference(q, k, v):
    """The same by numpy."""
    q, k, v = (matrix.astype(np.float32) for matrix in (q, k, v))
    weights = np.exp(q @ k.T / math.sqrt(q.shape[1]))
    return weights / weights.sum(axis=1, keepdims=True) @ v
