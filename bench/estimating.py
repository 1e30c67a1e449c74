"""`estimating.py [FOLDER]`: what an estimate costs, in microseconds an instruction.

A call of a kernel that has never been called, without values, is measured in three parts: the
kernel's Python with the record of its instructions, the schedule, and the interval, which schedules
again with up to 33 sets of constants. Each figure is the best of five, in CPU seconds of this
process on one thread, with what the process keeps for all kernels (imports, layouts of tiles, draws
of constants) already there. A step of plain Python (a call, a lookup, an addition) is measured
between them: the last column is their ratio, which depends less on the machine.

FOLDER holds clones of nki-library and aws-neuron-sdk. Where it is given, kernels of nki-library at
the shapes of published times follow those of this repository.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import nki
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "accuracy"), str(HERE.parent / "examples")]

import attention
from launches import Launch

import kernels
from trnsim import runs

ROUNDS = 5
STEPS = 200_000
TARGET_US = 40
LIBRARY = (
    *("nkl-attncte-vnc-013", "nkl-attncte-014", "nkl-attncte-001"),
    *("nkl-mlptkg-spmd_vnc1-003", "nkl-mlpcte-a-036", "nkl-mlpcte-a-071"),
)
"""Rows of bench/accuracy on one core: attention of three lengths, and MLPs."""


@dataclass
class Spent:
    """CPU seconds of the parts of one estimate, or of a step of plain Python.

    Attributes:
        instructions: how many were recorded.
        distinct: how many of them differ, each of which is checked and priced.
        record_s, schedule_s, interval_s: the time of each part.
        step_s: the time of a step of plain Python, measured beside it.
    """

    instructions: int = 0
    distinct: int = 0
    record_s: list[float] = field(default_factory=list)
    schedule_s: list[float] = field(default_factory=list)
    interval_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)


def step_s():
    """CPU time of a step of plain Python."""
    table = dict.fromkeys(range(1024), 1)

    def look(key):
        return table.get(key, 0)

    total = 0
    start = time.process_time()
    for number in range(STEPS):
        total += look(number & 1023)
    return (time.process_time() - start) / STEPS


def measure(launch):
    """`Spent` on a kernel, as if it had never been called."""
    spent = Spent()

    def timed(*args, **kwargs):
        start = time.process_time()
        try:
            timed_cores = timelines(*args, **kwargs)
            assert timed_cores[0].device_time_s > 0  # found when it is asked for
            return timed_cores
        finally:
            spent.schedule_s.append(time.process_time() - start)

    timelines = runs.timelines
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(runs, "timelines", timed))
        stack.enter_context(redirect_stdout(StringIO()))  # kernels print
        for _ in range(ROUNDS):
            spent.step_s.append(step_s())
            fresh = replace(launch, kernel=nki.jit(launch.kernel.__wrapped__))
            gc.collect()
            start = time.process_time()
            timeline = fresh.run().timeline
            spent.record_s.append(time.process_time() - start - spent.schedule_s[-1])
            start = time.process_time()
            timeline.interval()
            spent.interval_s.append(time.process_time() - start)
    spent.instructions, spent.distinct = len(timeline), len(timeline.program.checked)
    return spent


def ours():
    """(name, launch) of kernels of this repository."""
    for length in (512, 1024, 2048, 4096):
        rows = [np.zeros((length, 128), np.float32)] * 3
        yield f"attention {length}", _of(attention.attention, *rows)
    square = np.zeros((2048, 2048), kernels.BF16)
    yield "matmul 2048", _of(kernels.matmul, square, square)
    yield "layernorm 8192", _of(kernels.layernorm, np.zeros((8192, 512), np.float32))
    tile = np.zeros((kernels.P, kernels.F), np.float32)
    yield "same tile 200 times", _of(kernels.repeated, tile, 200)
    yield "200 widths of a tile", _of(kernels.narrowing, tile, 200)


def _of(kernel, *arguments):
    names = kernel.__wrapped__.__code__.co_varnames
    return Launch(kernel, "trn2", dict(zip(names, arguments, strict=False)))


def of_library(folder):
    """(name, launch) of kernels of nki-library."""
    import builders  # noqa: PLC0415  needs the clone's own imports
    import published  # noqa: PLC0415  likewise

    os.chdir(folder / "nki-library")  # its tests look for files here
    by_id = {row["id"]: row for row in published.rows()}
    for name in LIBRARY:
        yield name, builders.launch(by_id[name], folder)


def show(name, spent):
    """Print the row of one kernel."""
    parts = [min(times) for times in (spent.record_s, spent.schedule_s, spent.interval_s)]
    each = [part / spent.instructions * 1e6 for part in (*parts, sum(parts))]
    ratio = each[-1] / (min(spent.step_s) * 1e6)
    print(
        f"{name:<26} {spent.instructions:>9,} {spent.distinct:>8} "
        f"{' '.join(f'{figure:>9.1f}' for figure in each)} {ratio:>9.0f}",
        flush=True,
    )


def main():
    """Measure and print every kernel."""
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) == 2 else None
    names = ("number", "distinct", "record", "schedule", "interval", "all", "steps")
    widths = (9, 8, 9, 9, 9, 9, 9)
    columns = " ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    print(f"us an instruction, first call without values; all: at most {TARGET_US}")
    print(f"{'':<26} {columns}")
    show_all(ours())
    if folder is not None:
        show_all(of_library(folder))


def show_all(launches):
    """Measure and print each."""
    for name, launch in launches:
        show(name, measure(launch))


if __name__ == "__main__":
    main()
