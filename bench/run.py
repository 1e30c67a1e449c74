"""`make bench`: trnsim with every check on, as a ratio to plain numpy in the same run.

Each pair is run alternately; the figure is the ratio of the best times, with the median of the
pairwise ratios beside it, and the overhead an instruction that is not numerics.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import kernels
import numpy as np

import trnsim

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import attention

ROUNDS = 9


def seconds(call):
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(name, kernel, plain, arrays, tolerance):
    """One line: both times, their ratio, the overhead an instruction."""
    run = trnsim.run(kernel, *arrays)
    error = np.abs(run.outputs - plain(*arrays)).max() / np.abs(run.outputs).max()
    assert error <= tolerance, f"{name}: the two differ by {error}"
    pairs = [
        (seconds(lambda: trnsim.run(kernel, *arrays)), seconds(lambda: plain(*arrays)))
        for _ in range(ROUNDS)
    ]
    ours, theirs = min(a for a, _ in pairs), min(b for _, b in pairs)
    median = statistics.median(a / b for a, b in pairs)
    overhead_us = (ours - theirs) / len(run.program) * 1e6
    print(
        f"{name:<12} {ours * 1e3:8.1f} ms {theirs * 1e3:8.1f} ms   ratio {ours / theirs:5.2f} "
        f"(median {median:5.2f})   {overhead_us:6.1f} us above numpy an instruction, "
        f"{len(run.program)} instructions"
    )


def main():
    """The four programs of which peers' times are known, and shape-only mode."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((1024, 1024)).astype(kernels.BF16) for _ in range(2))
    rows = rng.standard_normal((4096, 2048)).astype(np.float32)
    qkv = [rng.standard_normal((2048, 128)).astype(np.float32) for _ in range(3)]
    print(f"{'':<12} {'trnsim':>11} {'numpy':>11}")
    compare("matmul", kernels.matmul, kernels.matmul_numpy, (left, right), 1e-5)
    compare("softmax", kernels.softmax, kernels.softmax_numpy, (rows,), 1e-5)
    compare("layernorm", kernels.layernorm, kernels.layernorm_numpy, (rows,), 1e-4)
    compare("attention", attention.attention, kernels.attention_numpy, qkv, 1e-2)
    with_values = seconds(lambda: trnsim.run(attention.attention, *qkv))
    shapes_only = seconds(lambda: trnsim.run(attention.attention, *qkv, numerics=False))
    print(f"shape-only attention: {with_values / shapes_only:.1f} times as fast as with values")


if __name__ == "__main__":
    main()
