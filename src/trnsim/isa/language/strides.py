"""Strides of the innermost free dimension, and what they cost.

Source: trainium_inferentia2_arch.rst, Data Movement, Performance Consideration: Access pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.arch import NeuronCore

FAR_BYTES: Final = 16
"""Largest distance of elements that stream at the full rate."""

_ONE_PASS_BYTES: Final = 2


def step_bytes(tile: Tile) -> int | None:
    """Bytes between elements of the innermost free dimension longer than 1; None if there is none.

    A dimension that repeats one element has a step of 0.
    """
    shape, strides = tile.pattern.shape[1:], tile.pattern.strides_bytes[1:]
    steps = [step for length, step in zip(shape, strides, strict=True) if length > 1]
    return steps[-1] if steps else None


def slowdown(core: NeuronCore, engine: Engine, operands: Mapping[str, object]) -> float:
    """Factor on an instruction's interval if elements of its tiles lie far apart, else 1.

    On the Tensor Engine the moving tile streams. The stationary one is loaded during an earlier
    instruction, and dtypes that take several passes are read at less than half the rate anyhow.
    """
    if engine is Engine.dma:
        return 1.0
    is_far = any(
        abs(step_bytes(tile) or 0) > FAR_BYTES
        for name, tile in operands.items()
        if isinstance(tile, Tile) and (engine is not Engine.tensor or _streams(name, tile))
    )
    return core.strided_slowdown if is_far else 1.0


def _streams(name: str, tile: Tile) -> bool:
    """Whether a tile streams through the array in one pass."""
    return name == "moving" and tile.dtype.itemsize <= _ONE_PASS_BYTES
