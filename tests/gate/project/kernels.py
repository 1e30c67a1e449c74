"""Four kernels of a sample project."""

import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128


def load(source):
    """A tile of rows from HBM."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


@nki.jit
def softmax(x):
    """Softmax of each row of x [N, F]."""
    N, F = x.shape
    out = nl.ndarray((N, F), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, N, ROWS):
        tile = load(x[row : row + ROWS])
        minus_largest = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_largest, op=nl.maximum, data=tile, axis=1, negate=True)
        weights = nl.ndarray((ROWS, F), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=weights, op=nl.exp, data=tile, bias=minus_largest, reduce_op=nl.add,
            reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=weights, data=weights, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=out[row : row + ROWS], src=weights)
    return out


@nki.jit
def add(a, b):
    """a + b, each [N, F]."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for row in range(0, a.shape[0], ROWS):
        left = load(a[row : row + ROWS])
        right = load(b[row : row + ROWS])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out[row : row + ROWS], src=left)
    return out


@nki.jit
def matmul(a_t, b):
    """a_t.T @ b of a_t [K, 128] and b [K, 512]."""
    product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(0, a_t.shape[0], ROWS):
        nisa.nc_matmul(
            dst=product, stationary=load(a_t[k : k + ROWS]), moving=load(b[k : k + ROWS])
        )
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def transpose(x):
    """x [128, 128] with its axes exchanged."""
    flipped = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=flipped, data=load(x))
    result = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=flipped)
    out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out
