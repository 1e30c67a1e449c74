"""One matmul in four steps, each faster than the one before: docs/tutorial-profile.md.

    trnsim run examples/matmul_steps.py 1 --report step1

Each kernel computes ``a_t.T @ b`` from a_t [K, M] and b [K, N], with operands in bfloat16 and sums
in float32.
"""

import sys

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = 128  # partitions: rows of a tile
BANK = 512  # float32 columns of one PSUM bank


def load(source):
    """A tile of `source` in SBUF, rounded to bfloat16 on the way."""
    tile = nl.ndarray(source.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(out, sums):
    """The sums in PSUM to `out` in HBM."""
    tile = nl.ndarray(sums.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=sums)
    nisa.dma_copy(dst=out, src=tile)


@nki.jit
def step1(a_t, b):
    """Square tiles, each loaded where it is needed."""
    (K, M), N = a_t.shape, b.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(0, M, P):
        for n in range(0, N, P):
            sums = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, K, P):
                left = load(a_t[k : k + P, m : m + P])
                right = load(b[k : k + P, n : n + P])
                nisa.nc_matmul(dst=sums, stationary=left, moving=right)
            store(out[m : m + P, n : n + P], sums)
    return out


@nki.jit
def step2(a_t, b):
    """A whole PSUM bank of columns at a time: longer streams, larger transfers."""
    (K, M), N = a_t.shape, b.shape[1]
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in range(0, M, P):
        for n in range(0, N, BANK):
            sums = nl.ndarray((P, BANK), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, K, P):
                left = load(a_t[k : k + P, m : m + P])
                right = load(b[k : k + P, n : n + BANK])
                nisa.nc_matmul(dst=sums, stationary=left, moving=right)
            store(out[m : m + P, n : n + BANK], sums)
    return out


@nki.jit
def step3(a_t, b):
    """Every row of both matrices crosses from HBM once, and stays in SBUF."""
    return multiply(a_t, b)


@nki.jit
def step4(a_t, b):
    """The same, of matrices that are bfloat16 in HBM: half the bytes."""
    return multiply(a_t, b)


def multiply(a_t, b):
    """The product from rows that are loaded once, in the format of `b`."""
    (K, M), N = a_t.shape, b.shape[1]
    out = nl.ndarray((M, N), dtype=b.dtype, buffer=nl.shared_hbm)
    lefts = [load(a_t[k : k + P]) for k in range(0, K, P)]
    rights = [load(b[k : k + P]) for k in range(0, K, P)]
    for m in range(0, M, P):
        for n in range(0, N, BANK):
            sums = nl.ndarray((P, BANK), dtype=nl.float32, buffer=nl.psum)
            for left, right in zip(lefts, rights, strict=True):
                nisa.nc_matmul(
                    dst=sums, stationary=left[:, m : m + P], moving=right[:, n : n + BANK]
                )
            store(out[m : m + P, n : n + BANK], sums)
    return out


STEPS = {"1": step1, "2": step2, "3": step3, "4": step4}


def inputs(step):
    """a_t and b: seeded noise, in bfloat16 for the last step."""
    rng = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if step == "4" else np.float32
    return [rng.standard_normal((1024, n)).astype(dtype) for n in (512, 1024)]


def main(step):
    """Run one step and compare it with numpy."""
    a_t, b = inputs(step)
    expected = a_t.astype(np.float32).T @ b.astype(np.float32)
    result = STEPS[step](a_t, b).astype(np.float32)
    error = np.abs(result - expected).max() / np.abs(expected).max()
    assert error < 2**-7, f"step {step} is off by {error}"


if __name__ == "__main__":
    main(sys.argv[1])
