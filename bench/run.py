"""`make bench`: trnsim with every check on, as a ratio to plain numpy in the same run.

The kernel's first call is traced; from the third on its Python is called and compared with a
record; a replay, which has to be asked for by name, executes its instructions alone (design note
0012). All three are compared: a fresh kernel, one that has been called before, and its replay. Each
is run alternately with numpy; the figure is the ratio of the best times, with the median of the
pairwise ratios beside it. Times are CPU seconds of this process on one thread, which other work on
the machine disturbs less than wall time.

The times of a run are found when they are asked for: none of the calls does, but that without
values (`shapes only`).

What is not numerics in a first call is measured in a run of its own: the time that an instruction
spends between the kernel's call and its return, less the time in its `execute`. Its median is that
of all instructions of the program; tensors that the kernel makes and slices in between are not in
it, and are in the figure "> numpy", all of the difference shared out over the instructions.

Then comes a program of a million instructions: recorded without values, then timed again from the
record. The memory is the peak of the whole process. Last comes the table of `calls.py`: kernels as
users have them, small and large.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import calls
import nki
import numpy as np

import kernels
import trnsim
from trnsim.isa import Instruction
from trnsim.program import CoreContext
from trnsim.timing import choose_order, replay

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import attention

ROUNDS = 15
CALLS_TRACED = 2

PEERS_MS = {
    "numpy, tile by tile": (33.9, 30.2, 23.5, 53.7),
    "triton-viz, NKI": (56.8, 55.5, None, None),
    "Pallas, interpret=True": (103, 213, 240, 92),
    "Pallas, TPU interpreter": (1054, 452, 265, 695),
    "the same with races": (1583, 337, 338, 1310),
    "Triton's interpreter": (646, 798, 938, 731),
}
"""matmul, softmax, layernorm, attention; triton-viz's attention is of another kernel, Triton's
matmul and attention only after casting bfloat16 to float32."""


def seconds(call):
    """CPU time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def overhead_us(kernel, arrays):
    """The median time of an instruction outside its `execute`."""
    spent, numerics = [], [0.0]

    def timed(function, note):
        def call(*args):
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                note(time.perf_counter() - start)

        return call

    def issued(elapsed):
        spent.append(elapsed - sum(numerics))
        numerics.clear()

    with ExitStack() as patches:
        issue = timed(CoreContext.issue, issued)
        patches.enter_context(mock.patch.object(CoreContext, "issue", issue))
        for made in Instruction.registry.values():
            if "execute" in vars(made):
                execute = timed(made.execute, numerics.append)
                patches.enter_context(mock.patch.object(made, "execute", execute))
        trnsim.run(kernel, *arrays)
    return statistics.median(spent) * 1e6


def fresh(kernel):
    """The kernel as if it had never been called."""
    return nki.jit(kernel.__wrapped__)


def compare(name, kernel, plain, arrays, tolerance):
    """One line: the times, their ratios, the overhead an instruction."""

    def again():
        """From one line: a record is of calls from there."""
        return trnsim.run(kernel, *arrays)

    for _ in range(CALLS_TRACED):
        run = again()
    replay = trnsim.record(kernel, *arrays)
    error = np.abs(run.outputs - plain(*arrays)).max() / np.abs(run.outputs).max()
    assert error <= tolerance, f"{name}: the two differ by {error}"
    ways = (
        lambda: trnsim.run(fresh(kernel), *arrays),
        again,
        lambda: replay(*arrays),
        lambda: plain(*arrays),
    )
    rounds = [[seconds(way) for way in ways] for _ in range(ROUNDS)]
    shapes_only = min(
        seconds(lambda: trnsim.run(fresh(kernel), *arrays, numerics=False).total_time_s)
        for _ in range(ROUNDS)
    )
    *times, theirs = (min(times) for times in zip(*rounds, strict=True))
    medians = [statistics.median(times[i] / times[3] for times in rounds) for i in range(3)]
    count = len(run.program)
    pairs = zip(times, medians, strict=True)
    ratios = "   ".join(f"{best / theirs:5.2f} {median:6.2f}" for best, median in pairs)
    print(
        f"{name:<10} {' '.join(f'{t * 1e3:7.1f}' for t in (*times, theirs))}   {ratios}"
        f"   {count:6d} {overhead_us(fresh(kernel), arrays):9.1f}"
        f" {(times[0] - theirs) / count * 1e6:9.1f}"
        f"   {shapes_only / count * 1e6:9.1f} {times[0] / shapes_only:6.1f}x"
    )


def time_again(rounds):
    """A long program, recorded and then timed again: us an instruction, seconds, the peak."""
    tile = np.zeros((kernels.P, kernels.F), np.float32)
    start = time.process_time()
    run = trnsim.run(kernels.repeated, tile, rounds, numerics=False)
    program, _ = run.program, run.total_time_s
    recorded = time.process_time()
    replay([program], program.core, choose_order([program], program.core))
    again = time.process_time() - recorded
    count = len(program)
    print(
        f"\n{count} instructions: recorded at {(recorded - start) / count * 1e6:.1f} us each, "
        f"timed again in {again:.1f} s, {again / count * 1e6:.1f} us each{peak_memory()}"
    )


def peak_memory():
    """The largest memory that this process ever held, where the system says."""
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return ""
    unit = 1 if sys.platform == "darwin" else 1024
    return f"; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9:.2f} GB"


def main():
    """The four programs of which peers' times are known."""
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((1024, 1024)).astype(kernels.BF16) for _ in range(2))
    rows = rng.standard_normal((4096, 2048)).astype(np.float32)
    qkv = [rng.standard_normal((2048, 128)).astype(np.float32) for _ in range(3)]
    print(
        f"{'':<10} {'ms':^31}   {'first / numpy':^12}  {'again, <= 1.8':^13}"
        f"  {'replay, <= 1.2':^13}  {'us an instruction, first':^27}   {'shapes only':^17}"
    )
    print(
        f"{'':<10} {'first':>7} {'again':>7} {'replay':>7} {'numpy':>7}   "
        + "   ".join(3 * [f"{'best':>5} {'median':>6}"])
        + f"   {'number':>6} {'overhead':>9} {'> numpy':>9}"
        f"   {'us each':>9} {'faster':>7}"
    )
    compare("matmul", kernels.matmul, kernels.matmul_numpy, (left, right), 1e-5)
    compare("softmax", kernels.softmax, kernels.softmax_numpy, (rows,), 1e-5)
    compare("layernorm", kernels.layernorm, kernels.layernorm_numpy, (rows,), 1e-4)
    compare("attention", attention.attention, kernels.attention_numpy, qkv, 1e-2)
    print("\nPeers on the same shapes, ms, measured elsewhere in other runs (2 cores, Zen 3):")
    for peer, times in PEERS_MS.items():
        figures = "  ".join(f"{'-' if t is None else t:>9}" for t in times)
        print(f"  {peer:<24} {figures}")
    time_again(200_000)
    calls.table()


if __name__ == "__main__":
    main()
