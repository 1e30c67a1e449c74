"""Six kernels, small and large, called in five ways, as ratios to the same tiles in plain numpy.

usage: calls.py [NAME ...] [--rounds N]

Each row runs in a process of its own. Each way of calling takes turns with numpy alone: CPU seconds
on one thread, the best of its rounds over the best of numpy's. (If all ways took turns, numpy would
find its arrays in the caches, and a record what the writer of the report has left.) The ways are

- cold: the very first call of any kernel in the process,
- first: the first call of a kernel whose instructions the process has seen in another kernel,
- again: a call of a kernel that has been called before, which is compared with its record,
- record: a call of what `trnsim.record` gives,
- report: a call again with its HTML report.

Only the report asks for the time of the run, which is found then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import kernels_called
import nki
import numpy as np

import kernels
import trnsim
from trnsim.errors import EmulatorError

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import attention

WAYS = ("cold", "first", "again", "record", "report")
LIMITS = {"first": (15.0, 3.0), "again": (3.0, 1.5), "record": (1.5, 1.1)}
"""By way, the most that a small and a large kernel should take, in times of numpy."""
ROUNDS = {"small": 40, "large": 9}


class Case(NamedTuple):
    """A kernel with its plain version; `shapes` are those of its inputs, small and large.

    Attributes:
        kernel: the kernel.
        plain: the same tiles in numpy.
        arrays: a function from "small" or "large" to the inputs.
        tolerance: the largest difference of their results, relative to the largest result.
    """

    kernel: object
    plain: object
    arrays: object
    tolerance: float


def _random(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def _matmul(size):
    side = {"small": 512, "large": 2048}[size]
    return tuple(_random(side, side, dtype=kernels.BF16) for _ in range(2))


def _attention(size):
    rows = {"small": 512, "large": 2048}[size]
    return tuple(_random(rows, 128) for _ in range(3))


def _rows(size):
    shape = {"small": (512, 256), "large": (4096, 2048)}[size]
    return _random(*shape), _random(1, shape[1])


def _elementwise(size):
    return (_random(*{"small": (512, 128), "large": (8192, 1024)}[size]),)


def _gather(size):
    rows, columns = {"small": (512, 64), "large": (16384, 512)}[size]
    indices = np.random.default_rng(rows).integers(0, rows, (rows, 1)).astype(np.int32)
    return _random(rows, columns), indices


CASES = {
    "matmul": Case(kernels.matmul, kernels.matmul_numpy, _matmul, 1e-5),
    "attention": Case(attention.attention, kernels.attention_numpy, _attention, 1e-2),
    "rmsnorm": Case(kernels_called.rmsnorm, kernels_called.rmsnorm_numpy, _rows, 1e-5),
    "elementwise": Case(kernels_called.ten, kernels_called.ten_numpy, _elementwise, 1e-5),
    "gather": Case(kernels_called.gather, kernels_called.gather_numpy, _gather, 0),
    "LNC=2": Case(kernels_called.ten[2], kernels_called.ten_numpy, _elementwise, 1e-5),
}


def seconds(call):
    """CPU time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def fresh(kernel):
    """The kernel as if it had never been called."""
    renewed = nki.jit(kernel.__wrapped__)
    return renewed[kernel.cores] if kernel.cores > 1 else renewed


def row(case, size, rounds):
    """Way -> its best time over that of numpy, or what trnsim refused; and the ms of numpy."""
    arrays = case.arrays(size)
    cold = seconds(lambda: trnsim.run(fresh(case.kernel), *arrays))

    def again():
        """A call from one line: a record is of calls from there."""
        return trnsim.run(case.kernel, *arrays)

    for _ in range(3):
        run = again()
    expected = case.plain(*arrays)
    error = np.abs(run.outputs - expected).max() / np.abs(expected).max()
    assert error <= case.tolerance, f"the two differ by {error}"
    refused, report = {}, Path(tempfile.mkdtemp(), "report.html")
    ways = {
        "first": lambda: trnsim.run(fresh(case.kernel), *arrays),
        "again": again,
        "report": lambda: again().report(report),
    }
    try:
        replay = trnsim.record(case.kernel, *arrays)
        replay(*arrays)
        ways["record"] = lambda: replay(*arrays)
    except EmulatorError as refusal:
        refused["record"] = str(refusal).partition("\n")[0]
    best = dict.fromkeys([*ways, "numpy"], np.inf)
    for name, way in ways.items():
        for _ in range(rounds):
            best[name] = min(best[name], seconds(way))
            best["numpy"] = min(best["numpy"], seconds(lambda: case.plain(*arrays)))
    ratios = {name: best[name] / best["numpy"] for name in ways}
    return {"cold": cold / best["numpy"], **ratios, **refused}, best["numpy"], len(run.program)


def show(name, size, ratios, numpy_s, count):
    """One line of the table; a ratio above its limit has a mark."""
    cells = []
    for way in WAYS:
        ratio = ratios[way]
        if isinstance(ratio, str):
            cells.append(f"{'refused':>9}")
            continue
        limit = LIMITS.get(way, (np.inf, np.inf))[size == "large"]
        cells.append(f"{ratio:8.2f}{'!' if ratio > limit else ' '}")
    print(f"{name:<12} {size:<6} {numpy_s * 1e3:9.3f} {count:6d} {' '.join(cells)}", flush=True)


def table(names=(), rounds=None):
    """Print the table: a process for each row."""
    print(f"\n{'':<12} {'':<6} {'numpy ms':>9} {'number':>6} " + " ".join(f"{w:>8} " for w in WAYS))
    for name in names or CASES:
        for size in ROUNDS:
            command = [sys.executable, __file__, name, "--size", size]
            command += ["--rounds", str(rounds)] if rounds else []
            subprocess.run(command, check=True)  # noqa: S603  this file
    print("!: above " + "; ".join(f"{w} {s:g} small, {b:g} large" for w, (s, b) in LIMITS.items()))


def main():
    """The table of all cases or of those named, or one row of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *CASES])
    parser.add_argument("--size", choices=ROUNDS)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    if options.size is None:
        table(options.names, options.rounds)
        return
    for name in options.names:
        rounds = options.rounds or ROUNDS[options.size]
        show(name, options.size, *row(CASES[name], options.size, rounds))


if __name__ == "__main__":
    main()
