"""Strides of the innermost free dimension, and their cost.

Source: trainium_inferentia2_arch.rst, Data Movement, Performance Consideration: Access pattern.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

FAR_BYTES: Final = 16
"""Largest step between elements that stream at the full rate, in bytes."""

_ONE_PASS_BYTES: Final = 2


def step_bytes(tile: Tile) -> int | None:
    """The step, in bytes, of the innermost free dimension longer than 1; None if there is none.

    A dimension that repeats one element has a step of 0.
    """
    shape, strides = tile.pattern.shape, tile.pattern.strides_bytes
    for dim in range(len(shape) - 1, 0, -1):
        if shape[dim] > 1:
            return strides[dim]
    return None


def is_far_apart(engine: Engine, operands: Mapping[str, object]) -> bool:
    """True if elements of one of `operands` lie so far apart that the instruction slows down.

    DMA transfers do not slow down. On the Tensor Engine only the moving tile counts: the stationary
    tile is loaded during an earlier instruction. A moving tile whose dtype takes several passes
    does not count either: it is read at less than half the rate in any case.
    """
    return engine is not Engine.dma and any(
        abs(step_bytes(tile) or 0) > FAR_BYTES
        for name, tile in operands.items()
        if isinstance(tile, Tile) and (engine is not Engine.tensor or _streams(name, tile))
    )


def _streams(name: str, tile: Tile) -> bool:
    """True if a tile streams through the array in one pass."""
    return name == "moving" and tile.dtype.itemsize <= _ONE_PASS_BYTES
