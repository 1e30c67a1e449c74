"""A matmul whose tile sizes, loop order and engines are parameters.

trnsim tune examples/tune/matmul.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def matmul(a_t, b, columns=128, keeps="a", depth=1, copies_on=nisa.engine.vector):
    """a_t.T @ b of a_t [K, M] and b [K, N].

    Args:
        a_t: the left matrix, transposed.
        b: the right matrix.
        columns: columns of b in a tile of the result.
        keeps: the matrix whose part stays in SBUF while the other one streams past.
        depth: tiles of K that one transfer loads.
        copies_on: the engine that takes results out of PSUM.
    """
    (K, M), (_, N) = a_t.shape, b.shape
    out = nl.ndarray((M, N), dtype=a_t.dtype, buffer=nl.shared_hbm)
    rows, cols = range(0, M, ROWS), range(0, N, columns)
    for outer in rows if keeps == "a" else cols:
        kept = load(a_t, outer, ROWS, depth) if keeps == "a" else load(b, outer, columns, depth)
        for inner in cols if keeps == "a" else rows:
            if keeps == "a":
                row, col, left, right = outer, inner, kept, load(b, inner, columns, depth)
            else:
                row, col, left, right = inner, outer, load(a_t, inner, ROWS, depth), kept
            product = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.psum)
            for k in range(K // ROWS):
                nisa.nc_matmul(dst=product, stationary=left[:, k, :], moving=right[:, k, :])
            result = nl.ndarray((ROWS, columns), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=product, engine=copies_on)
            nisa.dma_copy(dst=out[row : row + ROWS, col : col + columns], src=result)
    return out


def load(matrix, start, columns, depth):
    """Columns of a matrix [K, N] as [128, K / 128, columns]."""
    K, N = matrix.shape
    tile = nl.ndarray((ROWS, K // ROWS, columns), dtype=matrix.dtype, buffer=nl.sbuf)
    for k in range(0, K // ROWS, depth):
        part = matrix.ap([[N, ROWS], [N * ROWS, depth], [1, columns]], offset=k * ROWS * N + start)
        nisa.dma_copy(dst=tile[:, k : k + depth, :], src=part)
    return tile


matmul_parameters = {
    "columns": [128, 256, 384, 512],
    "keeps": ["a", "b"],
    "depth": [1, 2, 4, 8],
    "copies_on": [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd],
}
matmul_tolerance = 0.02


def matmul_inputs():
    """Two matrices of bfloat16."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((1024, 512)).astype(nl.bfloat16) for _ in range(2))


def matmul_reference(a_t, b):
    """numpy's product."""
    return a_t.astype(np.float32).T @ b.astype(np.float32)
