"""Sums of rows so far, in a loop on the device as NKI 0.4 to 0.6 write it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def running_sum(x):
    """Row i of the result is the sum of the rows 0 to i of `x` [rows, columns], float32."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
    row = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(total, 0.0)
    for i in nl.dynamic_range(rows):
        place = [[columns, 1], [1, columns]]
        nisa.dma_copy(dst=row, src=x.ap(place, scalar_offset=i))
        nisa.tensor_tensor(total, total, row, nl.add)
        nisa.dma_copy(dst=out.ap(place, scalar_offset=i), src=total)
    return out


if __name__ == "__main__":
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    print("equal to numpy:", np.array_equal(running_sum(x), np.cumsum(x, axis=0)))
