"""A transpose, whose blocks and engines are parameters.

trnsim tune examples/tune/transpose.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

ROWS = 128


@nki.jit
def transpose(x, columns=128, by="tensor", copies_on=nisa.engine.vector, gathers=1):
    """x.T of x [M, N].

    Args:
        x: the matrix.
        columns: columns of x that one transfer loads.
        by: what exchanges the axes of a tile: the tensor engine, or a transfer (dma).
        copies_on: the engine that takes tiles out of PSUM.
        gathers: tiles of the result that are stored together.
    """
    M, N = x.shape
    out = nl.ndarray((N, M), dtype=x.dtype, buffer=nl.shared_hbm)
    wide = ROWS * gathers
    for col in range(0, N, columns):
        for row in range(0, M, wide):
            results = [
                nl.ndarray((ROWS, wide), dtype=x.dtype, buffer=nl.sbuf)
                for _ in range(columns // ROWS)
            ]
            for part in range(gathers):
                at = row + part * ROWS
                source = x[at : at + ROWS, col : col + columns]
                exchange(results, slice(part * ROWS, (part + 1) * ROWS), source, by, copies_on)
            for tile, result in enumerate(results):
                start = col + tile * ROWS
                nisa.dma_copy(dst=out[start : start + ROWS, row : row + wide], src=result)
    return out


def exchange(results, place, source, by, copies_on):
    """Write the transposes of the square tiles of a source [128, N] to a place of each result."""
    if by == "dma":
        for tile, result in enumerate(results):
            columns = slice(tile * ROWS, (tile + 1) * ROWS)
            nisa.dma_transpose(dst=result[:, place], src=source[:, columns])
        return
    loaded = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=source)
    for tile, result in enumerate(results):
        flipped = nl.ndarray((ROWS, ROWS), dtype=source.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=flipped, data=loaded[:, tile * ROWS : (tile + 1) * ROWS])
        nisa.tensor_copy(dst=result[:, place], src=flipped, engine=copies_on)


transpose_parameters = {
    "columns": [128, 256, 512, 1024],
    "by": ["tensor", "dma"],
    "copies_on": [nisa.engine.vector, nisa.engine.scalar],
    "gathers": [1, 2, 4, 8],
}


def transpose_inputs():
    """A matrix of bfloat16."""
    return (np.random.default_rng(0).standard_normal((1024, 1024)).astype(nl.bfloat16),)


def transpose_reference(x):
    """numpy's transpose."""
    return x.T
