"""Rows gathered by index, as many as a number on the device says: docs/scalars.md.

Run it: python examples/ragged_gather.py
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def gather(table, indices, count):
    """``out[i] = table[indices[i]]`` for i < count, the other rows of `out` are zero.

    table [R, F]; indices [N, 1] int32; count [1, 1] int32, at most N.
    """
    F = table.shape[1]
    N = indices.shape[0]
    out = nl.ndarray((N, F), dtype=table.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.zeros((N, F), dtype=table.dtype))

    def copy_row(i):
        index = nisa.scalar_load(indices.ap([[1, 1], [1, 1]], scalar_offset=i))
        nisa.dma_copy(
            dst=out.ap([[F, 1], [1, F]], scalar_offset=i),
            src=table.ap([[F, 1], [1, F]], scalar_offset=index),
        )

    nl.fori_loop(0, nisa.scalar_load(count), copy_row)
    return out


def main():
    """Gather five of eight rows, and compare with numpy."""
    table = np.random.default_rng(0).standard_normal((100, 64)).astype(np.float32)
    indices = np.array([[7], [99], [0], [7], [42], [1], [2], [3]], np.int32)
    out = gather(table, indices, np.array([[5]], np.int32))
    expected = np.where(np.arange(8)[:, None] < 5, table[indices[:, 0]], 0)
    print(f"5 of 8 rows gathered: equal to numpy: {np.array_equal(out, expected)}")


if __name__ == "__main__":
    main()
