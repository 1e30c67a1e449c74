"""Kernels that do one collective between two copies, for the tests of collectives."""

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16, np.int32)


def allocated(shape, dtype, where, name):
    return nl.ndarray(shape, dtype=dtype, buffer=where, name=name)


@nki.jit
def exchange(x, call, shape, where=nl.shared_hbm):
    """`call(srcs, dsts)` from a copy of x to a tensor of `shape`, which is returned."""
    src = allocated(x.shape, x.dtype, where, "src")
    dst = allocated(shape, x.dtype, where, "dst")
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    call([src], [dst])
    nisa.dma_copy(dst=out, src=dst)
    return out


def values(rng, shape, dtype):
    """Values whose sums are rounded in narrow formats."""
    if np.dtype(dtype).kind == "i":
        return rng.integers(-1000, 1000, shape).astype(dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def exchanged(arrays, call, shape, lnc=1, where=nl.shared_hbm, **kwargs):
    """What each rank has after `call` with its array."""
    world = trnsim.run(
        exchange[lnc],
        ranks=len(arrays),
        inputs=[(array, call, shape, where) for array in arrays],
        **{"lnc": lnc, **kwargs},
    )
    return [np.asarray(out) for out in world.outputs]


def groups_of(count, size):
    """`count` ranks in groups of `size`, those of one group apart from each other."""
    step = count // size
    return ncc.ReplicaGroup([list(range(first, count, step)) for first in range(step)])
