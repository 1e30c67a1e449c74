"""A matmul of any shape, in tiles whose edges need no code of their own: docs/grids.md.

Run it: python examples/matmul_grids.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = 128  # partitions: rows of a tile
BANK = 512  # float32 columns of one PSUM bank


@nki.jit
def matmul(a_t, b):
    """``a_t.T @ b`` of a_t [K, M] and b [K, N], in float32."""
    out = nl.ndarray((a_t.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    results = nl.tiles(out, tile_shape=(P, BANK))
    lefts = load(nl.tiles(a_t, tile_shape=(P, P)))
    rights = load(nl.tiles(b, tile_shape=(P, BANK)))
    for m in range(results.shape[0]):
        for n in range(results.shape[1]):
            result = results[m, n]
            sums = nl.ndarray(result.element_shape, dtype=nl.float32, buffer=nl.psum)
            for k in range(lefts.shape[0]):
                nisa.nc_matmul(dst=sums, stationary=lefts[k, m].data, moving=rights[k, n].data)
            tile = nl.ndarray(result.element_shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=sums)
            nisa.dma_copy(dst=result.data, src=tile)
    return out


def load(source):
    """The tiles of a grid in SBUF, with one transfer for each row of tiles."""
    tiles = nl.alloc_tiles(
        tile_shape=source.tile_shape,
        element_shape=source.element_shape,
        buffer=nl.sbuf,
        dtype=source.dtype,
    )
    for row in range(source.shape[0]):
        nisa.dma_copy(dst=tiles[row].data, src=source[row].data)
    return tiles


def main():
    """Multiply matrices of which no length is a multiple of a tile, and compare with numpy."""
    rng = np.random.default_rng(0)
    a_t, b = (rng.standard_normal((300, n)).astype(np.float32) for n in (200, 1100))
    expected = a_t.T @ b
    error = np.abs(matmul(a_t, b) - expected).max() / np.abs(expected).max()
    print(f"200 x 300 by 300 x 1100: equal to numpy's product within 1e-5: {error < 1e-5}")


if __name__ == "__main__":
    main()
