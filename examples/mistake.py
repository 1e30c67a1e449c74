"""A kernel with a mistake that costs people an afternoon: float32 meets bfloat16 in one matmul.

The chip's compiler refuses it; so does trnsim, and names the line.
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def mistake(a, b):
    """a.T @ b for a of [128, 128] and b of [128, 512], if the dtypes agreed."""
    weights = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=a)
    inputs = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=inputs, src=b)
    product = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=weights, moving=inputs)
    result = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    out = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out
