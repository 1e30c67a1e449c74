"""Flash attention for one head: softmax(q @ k.T / sqrt(D)) @ v, tile by tile.

q, k and v are [S, D] arrays in HBM with S a multiple of 512 and D at most 128. Scores never leave
the chip: each block of 512 keys updates a running maximum, a running sum and the output.

    trnsim run examples/attention.py
    trnsim run examples/attention.py --input q.npy k.npy v.npy --output out.npy

The first makes q.npy, k.npy and v.npy where there are none, and compares the result with numpy's.
"""

import math
from pathlib import Path

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128  # queries of a tile: one to a partition
KEYS = 512  # keys of a block: one PSUM bank of float32 scores


@nki.jit
def attention(q, k, v):
    """Attention of q over k and v, each [S, D]; the result has q's shape and dtype."""
    S, D = q.shape
    assert k.shape == v.shape == (S, D), f"k {k.shape} and v {v.shape} must be like q {q.shape}"
    assert S % KEYS == 0, f"S is {S}; it must be a multiple of {KEYS}"
    assert D <= ROWS, f"D is {D}; it must be at most {ROWS}"
    out = nl.ndarray((S, D), dtype=q.dtype, buffer=nl.shared_hbm)
    k_t, v_tiles = load_keys_and_values(k, v)
    for row in range(0, S, ROWS):
        q_t = transposed(load(q[row : row + ROWS]))
        attend(out[row : row + ROWS], q_t, k_t, v_tiles)
    return out


def load(rows):
    """A tile of rows from HBM, in bfloat16."""
    tile = nl.ndarray(rows.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=rows)
    return tile


def transposed(tile):
    """The transpose of a tile of at most [128, 128], by way of the Tensor Engine."""
    flipped = nl.ndarray(tile.shape[::-1], dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=flipped, data=tile)
    result = nl.ndarray(flipped.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=flipped)
    return result


def load_keys_and_values(k, v):
    """k transposed as [D, S], and v as tiles of [128, D]: both stay in SBUF."""
    S, D = k.shape
    k_t = nl.ndarray((D, S), dtype=nl.bfloat16, buffer=nl.sbuf)
    v_tiles = []
    for row in range(0, S, ROWS):
        flipped = nl.ndarray((D, ROWS), dtype=nl.bfloat16, buffer=nl.psum)
        nisa.nc_transpose(dst=flipped, data=load(k[row : row + ROWS]))
        nisa.tensor_copy(dst=k_t[:, row : row + ROWS], src=flipped)
        v_tiles.append(load(v[row : row + ROWS]))
    return k_t, v_tiles


def attend(out, q_t, k_t, v_tiles):
    """One tile of queries over all keys."""
    D, S = k_t.shape
    minus_largest = nl.full((ROWS, 1), 3e38, dtype=nl.float32)
    total = nl.zeros((ROWS, 1), dtype=nl.float32)
    result = nl.zeros((ROWS, D), dtype=nl.float32)
    for key in range(0, S, KEYS):
        scores = nl.ndarray((ROWS, KEYS), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=scores, stationary=q_t, moving=k_t[:, key : key + KEYS])
        minus_largest, shrink, weights, weights_sum = soften(
            scores, minus_largest, 1 / math.sqrt(D)
        )
        # total = total * shrink + sum of the new weights
        nisa.scalar_tensor_tensor(
            dst=total, data=total, op0=nl.multiply, operand0=shrink, op1=nl.add,
            operand1=weights_sum,
        )  # fmt: skip
        block = nl.ndarray((ROWS, D), dtype=nl.float32, buffer=nl.psum)
        for part in range(KEYS // ROWS):
            weights_t = transposed(weights[:, part * ROWS : (part + 1) * ROWS])
            nisa.nc_matmul(dst=block, stationary=weights_t, moving=v_tiles[key // ROWS + part])
        # The result shrinks as the sum did, and grows by weights @ v.
        nisa.scalar_tensor_tensor(
            dst=result, data=result, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=block
        )
    nisa.reciprocal(dst=total, data=total)
    rounded = nl.ndarray((ROWS, D), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=rounded, data=result, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=rounded)


def soften(scores, minus_older, scale):
    """exp(scale * scores - new maximum), its sums, and by how much older results shrink.

    Maxima are kept with their signs turned, as the Scalar Engine adds a bias and subtracts none.
    """
    minus_block = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=minus_block, op=nl.maximum, data=scores, axis=1, negate=True)
    minus_largest = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=minus_largest, data=minus_block, op0=nl.multiply, operand0=scale, op1=nl.minimum,
        operand1=minus_older,
    )  # fmt: skip
    shrink = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=shrink, op=nl.exp, data=minus_older, scale=-1.0, bias=minus_largest)
    weights = nl.ndarray((ROWS, KEYS), dtype=nl.bfloat16, buffer=nl.sbuf)
    weights_sum = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=weights, op=nl.exp, data=scores, bias=minus_largest, scale=scale, reduce_op=nl.add,
        reduce_res=weights_sum, reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )  # fmt: skip
    return minus_largest, shrink, weights, weights_sum


def inputs(S=1024, D=128):
    """q, k and v from their files, which are made of random numbers where there are none."""
    rng = np.random.default_rng(0)
    for name in ("q.npy", "k.npy", "v.npy"):
        if not Path(name).exists():
            np.save(name, rng.standard_normal((S, D)).astype(np.float32))
        yield np.load(name)


def main():
    """Run the kernel on the files and compare it with numpy."""
    q, k, v = inputs()
    scores = np.exp(q @ k.T / math.sqrt(q.shape[1]))
    expected = scores / scores.sum(axis=1, keepdims=True) @ v
    error = np.abs(attention(q, k, v) - expected).max() / np.abs(expected).max()
    assert error < 2**-6, f"attention is off by {error}"
    print(f"attention {list(q.shape)}: error against numpy {error:.1e}")


if __name__ == "__main__":
    main()
