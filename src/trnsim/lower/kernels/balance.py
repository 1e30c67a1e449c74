"""Balance of engines: each elementwise instruction goes to the least loaded engine that has it.

An alternative is one of several lists of instructions for the same work. In the context `balanced`
the alternative is chosen that leaves the busiest engine least to do, by the documented times of
instructions. On chips on which the Vector Engine and GpSimd share a port to SBUF, GpSimd would gain
nothing and is left out.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from math import prod
from typing import Any, Final

from trnsim.context_values import context_value
from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.kernels.tiles import Tensor
from trnsim.nki import language as nl
from trnsim.program import current_core

Alternative = tuple[tuple[Engine, float], ...]
"""One list of instructions for some work: the engine and the seconds of each."""

_LOADS: ContextVar[dict[Engine, float] | None] = ContextVar("loads", default=None)
_FAST_BYTES: Final = 2
"""Bytes of an element of the formats with faster modes on the Vector Engine."""


def balanced() -> AbstractContextManager[None]:
    """Spread the instructions issued in this context over the engines."""
    return context_value(_LOADS, {})


def lightest_alternative(*alternatives: Alternative) -> int:
    """Index of the alternative that leaves the busiest engine least to do; 0 outside `balanced`."""
    loads = _LOADS.get()
    if loads is None:
        return 0
    totals = [_loads_after(loads, alternative) for alternative in alternatives]
    return min(
        range(len(alternatives)),
        key=lambda index: (max(totals[index].values()), sum(totals[index].values())),
    )


def _loads_after(loads: dict[Engine, float], alternative: Alternative) -> dict[Engine, float]:
    total = dict(loads)
    for engine, seconds in alternative:
        total[engine] = total.get(engine, 0.0) + seconds
    return total


def record(engine: Engine, tile: Tensor, cycles: float = 1.0) -> None:
    """Record an instruction of an engine, with its cycles for each element."""
    record_alternative(((engine, seconds(engine, tile, cycles)),))


def record_alternative(alternative: Alternative) -> None:
    """Record the instructions of an alternative."""
    loads = _LOADS.get()
    if loads is not None:
        for engine, seconds in alternative:
            loads[engine] = loads.get(engine, 0.0) + seconds


def seconds(engine: Engine, tile: Tensor, cycles: float) -> float:
    """The seconds of an instruction, from its cycles for each element."""
    elements: int = prod(tile.shape[1:])
    return max(cycles * elements, 1.0) / clock_hz(current_core().core, engine)


def scalar_operand_times_s(tile: Tensor, *others: Tensor) -> dict[Engine, float]:
    """Seconds of an operation of a tile with a scalar, on each engine that has it.

    A scalar is a number, or a column: one element a partition.
    """
    core = current_core().core
    speedup = core.vector_16bit_copy_speedup if _are_16_bit(tile, *others) else 1.0
    if _uses_psum(tile, *others):
        speedup = min(speedup, core.vector_16bit_strided_speedup)
    return {
        Engine.vector: seconds(Engine.vector, tile, 1 / speedup),
        Engine.scalar: seconds(Engine.scalar, tile, 1.0),
    }


def tensor_operand_times_s(tile: Tensor, *others: Tensor) -> dict[Engine, float]:
    """Seconds of an operation of two tiles, on each engine that has it; GpSimd cannot use PSUM."""
    cycles = 1.0 if _are_16_bit(tile, *others) else 2.0
    costs = {Engine.vector: seconds(Engine.vector, tile, cycles)}
    if gpsimd_has_own_port() and not _uses_psum(tile, *others):
        costs[Engine.gpsimd] = seconds(Engine.gpsimd, tile, 2.0)
    return costs


def scalar_blocks(tile: Tensor) -> int:
    """The number of blocks of a tile in PSUM that the Scalar Engine copies, not the Vector Engine.

    Outside `balanced` it is half of them. On chips where GpSimd shares a port with the Vector
    Engine, the Scalar and the Vector Engine share the port to PSUM: the faster one copies all
    blocks.
    """
    blocks, core = int(tile.shape[1]), current_core().core
    if _LOADS.get() is None:
        return blocks // 2
    if not gpsimd_has_own_port():
        return blocks if core.scalar_clock_hz > core.vector_clock_hz else 0
    alternatives = [_copies(tile, scalar_count) for scalar_count in range(blocks + 1)]
    scalar_count = lightest_alternative(*alternatives)
    record_alternative(alternatives[scalar_count])
    return scalar_count


def _copies(tile: Tensor, scalar_count: int) -> Alternative:
    """Copies of a tile in PSUM: `scalar_count` blocks by the Scalar Engine, then the others."""
    core, is_16_bit = current_core().core, _are_16_bit(tile)
    parts = (
        (Engine.scalar, tile[:, :scalar_count], core.scalar_16bit_copy_speedup),
        (Engine.vector, tile[:, scalar_count:], core.vector_16bit_strided_speedup),
    )
    return tuple(
        (engine, seconds(engine, part, 1 / speedup if is_16_bit else 1.0))
        for engine, part, speedup in parts
        if part.shape[1]
    )


def choose_engine(costs: dict[Engine, float]) -> Engine:
    """The engine for an instruction; outside `balanced` `Engine.unknown`, the default."""
    if _LOADS.get() is None:
        return Engine.unknown
    alternatives: list[Alternative] = [((engine, seconds),) for engine, seconds in costs.items()]
    alternative = alternatives[lightest_alternative(*alternatives)]
    record_alternative(alternative)
    return alternative[0][0]


def gpsimd_has_own_port() -> bool:
    """True if GpSimd has a port to SBUF of its own, and works beside the Vector Engine."""
    return bool(current_core().core.vector_port_engines == 1)


def _uses_psum(*tiles: Any) -> bool:
    return any(tile.buffer is nl.psum for tile in tiles)


def _are_16_bit(*tiles: Any) -> bool:
    return all(tile.dtype.itemsize == _FAST_BYTES for tile in tiles)
