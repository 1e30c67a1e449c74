"""A kernel as one wrote it for NKI 0.2, in January 2026: `trnsim migrate` brings it to today's."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit(mode="torchxla")
def gated_product(a, b, turns):
    """relu(a.T @ b), scaled by 1.5 as often as `turns` says; a is [128, 128], b is [128, 512]."""
    product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.hbm)  # what the kernel returns
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer="sbuf")
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer="sbuf")
    nisa.dma_copy(dst=left, src=a, dge_mode=2)
    nisa.dma_copy(dst=right, src=b, dge_mode=2)

    count = nl.ndarray((1, 1), dtype=nl.int32, buffer="sbuf")
    nisa.dma_copy(dst=count, src=turns)
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    for _turn in nl.dynamic_range(register):
        # the same tile in every turn
        nisa.tensor_scalar(dst=right, data=right, op0=nl.multiply, operand0=1.5)

    nisa.nc_matmul(dst=product, stationary=left, moving=right)
    nisa.activation(dst=product, op=nl.relu, data=product)
    nisa.dma_copy(dst=result, src=product)
    return result
