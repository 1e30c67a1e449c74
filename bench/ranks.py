"""`make bench`: how long worlds of ranks take to emulate, and what they keep in memory.

Each row runs in a process of its own: 64 ranks with values and without, one core a rank and two.
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
def exchanging(x, loops):
    """An all-reduce of what two products left, again and again."""
    everyone = ncc.ReplicaGroup([list(range(RANKS))])
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
    what = "with values" if has_values else "shapes alone"
    print(
        f"{RANKS} ranks x {lnc} cores x {len(world.runs[0].program)} instructions, {what}: "
        f"{took_s:.2f} s, {used:.1f} MiB a rank"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        for row in range(len(ROWS)):
            subprocess.run([sys.executable, __file__, str(row)], check=True)  # noqa: S603  this file
