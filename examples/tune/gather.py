"""Rows of a table by index, whose blocks are parameters.

trnsim tune examples/tune/gather.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def gather(table, indices, rows=128, parts=1, has_indices_first=True, stores=1):
    """``out[i] = table[indices[i]]`` of a table [R, F] and indices [N, 1].

    Args:
        table: the table.
        indices: the indices, int32.
        rows: rows that one transfer gathers.
        parts: parts of a row that are gathered apart.
        has_indices_first: whether all indices are loaded before any row.
        stores: tiles of rows that are stored one after the other, at the end of their group.
    """
    F, N = table.shape[1], indices.shape[0]
    out = nl.ndarray((N, F), dtype=table.dtype, buffer=nl.shared_hbm)
    width = F // parts
    kept = {start: load(indices, start, rows) for start in range(0, N, rows) if has_indices_first}
    for group in range(0, N, rows * stores):
        tiles = []
        for start in range(group, min(group + rows * stores, N), rows):
            index = kept.get(start)
            index = load(indices, start, rows) if index is None else index
            tile = nl.ndarray((rows, F), dtype=table.dtype, buffer=nl.sbuf)
            for column in range(0, F, width):
                source = table.ap(
                    pattern=[[F, rows], [1, width]], offset=column, vector_offset=index,
                    indirect_dim=0,
                )  # fmt: skip
                nisa.dma_copy(dst=tile[:, column : column + width], src=source)
            tiles.append((start, tile))
        for start, tile in tiles:
            nisa.dma_copy(dst=out[start : start + rows], src=tile)
    return out


def load(indices, start, rows):
    """The indices of a block of rows, one to a partition."""
    tile = nl.ndarray((rows, 1), dtype=indices.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=indices[start : start + rows])
    return tile


gather_parameters = {
    "rows": [16, 32, 64, 128],
    "parts": [1, 2, 4],
    "has_indices_first": [True, False],
    "stores": [1, 2, 4],
}


def gather_inputs():
    """A table of float32 and 1,024 indices."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((4096, 1024), dtype=np.float32)
    return table, rng.integers(0, 4096, (1024, 1)).astype(np.int32)


def gather_reference(table, indices):
    """The same by numpy."""
    return table[indices[:, 0]]
