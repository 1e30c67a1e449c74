"""Five kernels and the best edge of each, confirmed by writing the kernel in that order by hand.

Every pair of named instructions of a kernel is tried as an edge `depends_on(kind=schedule)`. The
edge with the shortest device time is then compared with a version of the kernel that issues its
instructions in the order that the edge asks for, without an edge.

    python bench/schedules.py
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import permutations

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim
from trnsim.errors import IllegalInstruction


def tile(columns, dtype=nl.float32, buffer=nl.sbuf):
    """An uninitialized tile of 128 rows."""
    return nl.ndarray((128, columns), dtype, buffer=buffer)


def link(named, edge):
    """The edge of the kernel's call."""
    if edge is not None:
        consumer, producer = edge
        named[consumer].depends_on(named[producer], kind=nisa.dependency.schedule)


def stored(result):
    """A kernel's result: the tile in HBM."""
    out = nl.ndarray(result.shape, result.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


@nki.jit
def urgent_load(large, small, edge=None, is_by_hand=False):
    """A chain begins with a small load, which waits behind a large one."""
    big, little, named = tile(8192), tile(512), {}

    def load_large():
        named["large"] = nisa.dma_copy(big, large)

    def load_small():
        named["small"] = nisa.dma_copy(little, small)

    for load in (load_small, load_large) if is_by_hand else (load_large, load_small):
        load()
    for _ in range(8):
        nisa.activation(little, nl.exp, little, scale=0.0)
    nisa.tensor_tensor(big[:, 0:512], big[:, 0:512], little, nl.add)
    link(named, edge)
    return stored(big)


@nki.jit
def short_step(large, small, edge=None, is_by_hand=False):
    """The Vector Engine takes a long step that can wait before a short one that others wait for."""
    del large, small
    side, chain, named = tile(8192), tile(512), {}
    nisa.memset(chain, 1.0, engine=nisa.engine.gpsimd)

    def long():
        named["long"] = nisa.memset(side, 2.0, engine=nisa.engine.vector)
        named["long again"] = nisa.tensor_scalar(side, side, nl.add, 1.0)

    def short():
        named["short"] = nisa.tensor_scalar(chain, chain, nl.add, 1.0)

    # The order of issue alone is not enough: long() is ready first, and would overtake short().
    with nl.no_reorder() if is_by_hand else nullcontext():
        for step in (short, long) if is_by_hand else (long, short):
            step()
    for _ in range(24):
        nisa.activation(chain, nl.exp, chain, scale=0.0)
    nisa.tensor_tensor(side[:, 0:512], side[:, 0:512], chain, nl.add)
    link(named, edge)
    return stored(side)


@nki.jit
def first_tile(large, small, edge=None, is_by_hand=False):
    """GpSimd prepares a tile for the end of the kernel before the one that the rest begins with."""
    del large, small
    last, first, named = tile(4096), tile(1024), {}

    def prepare_last():
        named["last"] = nisa.memset(last, 2.0, engine=nisa.engine.gpsimd)

    def prepare_first():
        named["first"] = nisa.memset(first, 1.0, engine=nisa.engine.gpsimd)

    both = (prepare_first, prepare_last) if is_by_hand else (prepare_last, prepare_first)
    for prepare in both:
        prepare()
    for _ in range(6):
        nisa.tensor_scalar(first, first, nl.multiply, 1.0)
    nisa.tensor_tensor(last[:, 0:1024], last[:, 0:1024], first, nl.add)
    link(named, edge)
    return stored(last)


@nki.jit
def tables(large, small, edge=None, is_by_hand=False):
    """Two functions take turns on the Scalar Engine, which loads a table at each change."""
    del large
    source, named = tile(512), {}
    results = [tile(512) for _ in range(4)]
    nisa.dma_copy(source, small)
    functions = [("exp 0", nl.exp), ("gelu 0", nl.gelu), ("exp 1", nl.exp), ("gelu 1", nl.gelu)]
    for at in (0, 2, 1, 3) if is_by_hand else range(4):
        name, function = functions[at]
        named[name] = nisa.activation(results[at], function, source)
    for first, second in ((0, 2), (1, 3), (0, 1)):
        nisa.tensor_tensor(results[first], results[first], results[second], nl.add)
    link(named, edge)
    return stored(results[0])


@nki.jit
def urgent_product(large, small, edge=None, is_by_hand=False):
    """The Tensor Engine takes a long sum of products before one that a chain begins with."""
    moving, weight, named = tile(4096, nl.bfloat16), tile(128, nl.bfloat16), {}
    long_sum, one = (tile(512, buffer=nl.psum) for _ in range(2))
    chain, result = tile(512), tile(512)
    nisa.dma_copy(moving, large[:, 0:4096])
    nisa.dma_copy(weight, small[:, 0:128])

    def many():
        for number in range(16):
            part = moving[:, 512 * (number % 8) : 512 * (number % 8) + 512]
            named[f"term {number}"] = nisa.nc_matmul(long_sum, weight, part)

    def single():
        named["one"] = nisa.nc_matmul(one, weight, moving[:, 0:512])

    for products in (single, many) if is_by_hand else (many, single):
        products()
    nisa.tensor_copy(chain, one)
    for _ in range(8):
        nisa.activation(chain, nl.exp, chain, scale=0.0)
    nisa.tensor_tensor(result, chain, long_sum, nl.add)
    link(named, edge)
    return stored(result)


KERNELS = (urgent_load, short_step, first_tile, tables, urgent_product)
LARGE, SMALL = np.ones((128, 8192), np.float32), np.ones((128, 512), np.float32)


@dataclass(frozen=True)
class Row:
    """The device times of a kernel: as written, with its best edge, and in that order by hand."""

    kernel: str
    edge: tuple[str, str]
    plain_s: float
    edge_s: float
    by_hand_s: float


def run(kernel, edge=None, *, is_by_hand=False, has_values=False):
    """A run of one of the kernels."""
    return trnsim.run(kernel, LARGE, SMALL, edge, is_by_hand, numerics=has_values)


def names_of(kernel):
    """The instructions that a kernel names."""
    names = []

    def spy(named, edge):
        del edge
        names.extend(named)

    kernel_globals = kernel.__wrapped__.__globals__
    kept, kernel_globals["link"] = kernel_globals["link"], spy
    try:
        run(kernel)
    finally:
        kernel_globals["link"] = kept
    return names


def best_row(kernel):
    """The edge with the shortest time, of all pairs of named instructions that close no cycle."""
    times_s = {}
    for edge in permutations(names_of(kernel), 2):
        try:
            times_s[edge] = run(kernel, edge).timeline.device_time_s
        except IllegalInstruction:  # it closes a cycle
            continue
    best = min(times_s, key=times_s.get)
    plain_s = run(kernel).timeline.device_time_s
    by_hand_s = run(kernel, is_by_hand=True).timeline.device_time_s
    return Row(kernel.title, best, plain_s, times_s[best], by_hand_s)


def main():
    """Print the table."""
    print("kernel         as written  with the edge  by hand   best edge")
    for kernel in KERNELS:
        row = best_row(kernel)
        columns = zip((row.plain_s, row.edge_s, row.by_hand_s), (10, 14, 9), strict=True)
        times = " ".join(f"{f'{1e6 * time_s:.2f} us':>{width}}" for time_s, width in columns)
        print(f"{row.kernel:14} {times}   {' after '.join(row.edge)}")


if __name__ == "__main__":
    main()
