"""`make bench`: how long worlds of ranks take to emulate, and what they keep in memory.

Each row runs in a process of its own: 64 ranks with values and without, one core a rank and two;
then 128 equal ranks without values beside one rank.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

RANKS = 64
EQUAL_RANKS = 128
REPEATS = 15
BUDGETS_S = {0: 3.0, 3: 60.0}
"""Seconds that a row may take."""
BUDGET_MIB = 4
"""Memory that a rank may take beside its tensors."""
ROWS = (
    # loops of 5 instructions, cores of a rank, shape of a tensor, whether there are values
    (9, 1, (128, 512), True),
    (9, 1, (128, 512), False),
    (9, 2, (128, 512), True),
    (400, 2, (32, 64), True),
)
MIB = 1024
"""Kibibytes of a mebibyte: the unit in which the system counts memory."""


@nki.jit
def exchanging(x, loops, ranks=RANKS):
    """An all-reduce of what two products left, again and again."""
    everyone = ncc.ReplicaGroup([list(range(ranks))])
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(loops):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=src, src=tile)
        ncc.all_reduce([src], [dst], everyone, nl.add)
        nisa.dma_copy(dst=tile, src=dst)
    nisa.dma_copy(dst=out, src=tile)
    return out


def measure(number):
    """Print one row."""
    loops, lnc, shape, has_values = ROWS[number]
    x = np.ones(shape, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    world = trnsim.run(
        exchanging[lnc],
        x,
        loops,
        ranks=RANKS,
        instance="trn2.48xlarge",
        numerics=has_values,
        races="warn",
    )
    took_s = time.perf_counter() - begun
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MIB / RANKS
    tensors = tensors_bytes(x, lnc) / MIB**2 if has_values else 0
    what = "with values" if has_values else "shapes alone"
    budget = f" (at most {BUDGETS_S[number]:.0f})" if number in BUDGETS_S else ""
    print(
        f"{RANKS} ranks x {lnc} cores x {len(world.runs[0].program)} instructions, {what}: "
        f"{took_s:.2f} s{budget}, {max(used - tensors, 0):.1f} MiB a rank (at most "
        f"{BUDGET_MIB}) beside {tensors:.1f} of tensors"
    )


def tensors_bytes(x, lnc):
    """The tensors of a rank: three in HBM, and the tile of each core."""
    return x.nbytes * (3 + lnc)


def compare(loops):
    """Print what equal ranks take beside one rank, without values."""
    x = np.ones((128, 512), np.float32)
    took_s = {1: [], EQUAL_RANKS: []}
    for _ in range(1 + REPEATS):  # the first prices the collective, which is kept
        for ranks, times in took_s.items():
            begun = time.perf_counter()
            trnsim.run(
                exchanging,
                ranks=ranks,
                inputs=[(x, loops, ranks)] * ranks,
                instance="trn2.48xlarge",
                numerics=False,
            )
            times.append(time.perf_counter() - begun)
    firsts = {ranks: times.pop(0) for ranks, times in took_s.items()}
    one_s, all_s = (min(times) for times in took_s.values())
    print(
        f"{EQUAL_RANKS} equal ranks x {5 * loops + 2} instructions, shapes alone: "
        f"{1e3 * all_s:.1f} ms, {all_s / one_s:.2f} times one rank's (at most 2); with the first "
        f"pricing {1e3 * firsts[EQUAL_RANKS]:.0f} ms"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        action, number = sys.argv[1:]
        {"measure": measure, "compare": compare}[action](int(number))
    else:
        rows = [("measure", row) for row in range(len(ROWS))]
        for action, number in [*rows, ("compare", 10), ("compare", 400)]:
            subprocess.run([sys.executable, __file__, action, str(number)], check=True)  # noqa: S603  this file
