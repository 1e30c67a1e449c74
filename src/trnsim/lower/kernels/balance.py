"""Balance of engines: each elementwise instruction goes to the least loaded engine that has it.

A way is one of several lists of instructions for the same work. In the context `balanced` the way
is taken after which the busiest engine has least to do. An instruction counts with its documented
time. Where the Vector Engine and GpSimd share a port to SBUF, GpSimd gains nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, Final

from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.kernels.tiles import Tensor
from trnsim.nki import language as nl
from trnsim.program import current_core

Way = tuple[tuple[Engine, float], ...]
"""One list of instructions for some work: the engine and the seconds of each."""

_LOADS: ContextVar[dict[Engine, float] | None] = ContextVar("loads", default=None)
_SHORT_BYTES: Final = 2
"""Bytes of the formats that have faster modes on the Vector Engine."""


@contextmanager
def balanced() -> Generator[None]:
    """Spread the instructions issued in this context over the engines."""
    token = _LOADS.set({})
    try:
        yield
    finally:
        _LOADS.reset(token)


def lightest(*ways: Way) -> int:
    """The index of the way after which the busiest engine has least to do; 0 outside `balanced`."""
    loads = _LOADS.get()
    if loads is None:
        return 0
    after = [_loads_after(loads, way) for way in ways]
    return min(range(len(ways)), key=lambda at: (max(after[at].values()), sum(after[at].values())))


def _loads_after(loads: dict[Engine, float], way: Way) -> dict[Engine, float]:
    total = dict(loads)
    for engine, seconds in way:
        total[engine] = total.get(engine, 0.0) + seconds
    return total


def record(engine: Engine, tile: Tensor, cycles: float = 1.0) -> None:
    """Record an instruction of an engine, with its cycles for each element."""
    record_way(((engine, seconds(engine, tile, cycles)),))


def record_way(way: Way) -> None:
    """Record the instructions of a way."""
    loads = _LOADS.get()
    if loads is not None:
        loads.update(_loads_after(loads, way))


def seconds(engine: Engine, tile: Tensor, cycles: float) -> float:
    """The seconds of an instruction, from its cycles for each element."""
    elements: int = prod(tile.shape[1:])
    return max(cycles * elements, 1.0) / clock_hz(current_core().core, engine)


def with_number(tile: Tensor, *others: Tensor) -> dict[Engine, float]:
    """Seconds of an operation of a tile with a number or a column, on each engine that has it."""
    core = current_core().core
    fast = core.vector_16bit_copy_speedup if _are_short(tile, *others) else 1.0
    if _uses_psum(tile, *others):
        fast = min(fast, core.vector_16bit_strided_speedup)
    return {
        Engine.vector: seconds(Engine.vector, tile, 1 / fast),
        Engine.scalar: seconds(Engine.scalar, tile, 1.0),
    }


def with_tensor(tile: Tensor, *others: Tensor) -> dict[Engine, float]:
    """Seconds of an operation of two tiles, on each engine that has it; GpSimd cannot use PSUM."""
    cycles = 1.0 if _are_short(tile, *others) else 2.0
    costs = {Engine.vector: seconds(Engine.vector, tile, cycles)}
    if has_own_port() and not _uses_psum(tile, *others):
        costs[Engine.gpsimd] = seconds(Engine.gpsimd, tile, 2.0)
    return costs


def scalar_blocks(tile: Tensor) -> int:
    """The count of blocks of a tile in PSUM that the Scalar Engine copies, not the Vector Engine.

    Outside `balanced` it is half of them. Where engines share ports (see `has_own_port`), these two
    share the port to PSUM, and the faster engine copies all blocks.
    """
    blocks, core = int(tile.shape[1]), current_core().core
    if _LOADS.get() is None:
        return blocks // 2
    if not has_own_port():
        return blocks if core.scalar_clock_hz > core.vector_clock_hz else 0
    ways = [_copy_way(tile, many) for many in range(blocks + 1)]
    many = lightest(*ways)
    record_way(ways[many])
    return many


def _copy_way(tile: Tensor, many: int) -> Way:
    """Copies of a tile in PSUM: the first `many` blocks by the Scalar Engine, then the others."""
    core, is_short = current_core().core, _are_short(tile)
    parts = (
        (Engine.scalar, tile[:, :many], core.scalar_16bit_copy_speedup),
        (Engine.vector, tile[:, many:], core.vector_16bit_strided_speedup),
    )
    return tuple(
        (engine, seconds(engine, part, 1 / speedup if is_short else 1.0))
        for engine, part, speedup in parts
        if part.shape[1]
    )


def choose_engine(costs: dict[Engine, float]) -> Engine:
    """The engine for one instruction; unknown, so that the default applies, outside `balanced`."""
    if _LOADS.get() is None:
        return Engine.unknown
    ways: list[Way] = [((engine, seconds),) for engine, seconds in costs.items()]
    way = ways[lightest(*ways)]
    record_way(way)
    return way[0][0]


def has_own_port() -> bool:
    """True if GpSimd has a port to SBUF of its own, and works beside the Vector Engine."""
    return bool(current_core().core.vector_port_engines == 1)


def _uses_psum(*tiles: Any) -> bool:
    return any(tile.buffer is nl.psum for tile in tiles)


def _are_short(*tiles: Any) -> bool:
    return all(tile.dtype.itemsize == _SHORT_BYTES for tile in tiles)
