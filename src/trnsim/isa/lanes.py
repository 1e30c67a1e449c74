"""What the lane engines (Vector, Scalar, GpSimd) share: one lane a partition, streaming along F.

Costs are initiation intervals in cycles of the executing engine, from the formulas that the ISA
documents of SDK 2.26 gave (aws-neuron-sdk@0521004c general/nki/api/nki/isa/__init__.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.isa.instruction import PSUM, Cost
from trnsim.isa.modes import Engine

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Array, Float32Array
    from trnsim.facts import Rate
    from trnsim.memory import Tile


_CLOCKS: Final[dict[Engine, Callable[[NeuronCore], Rate]]] = {
    Engine.tensor: lambda core: core.tensor_clock_hz,
    Engine.vector: lambda core: core.vector_clock_hz,
    Engine.scalar: lambda core: core.scalar_clock_hz,
    Engine.gpsimd: lambda core: core.gpsimd_clock_hz,
}


def clock_hz(core: NeuronCore, engine: Engine) -> float:
    """Clock of an engine of `core`."""
    return _CLOCKS[engine](core)


def lane_cost(core: NeuronCore, engine: Engine, cycles: float, extra_cycles: float = 0.0) -> Cost:
    """max(MIN_II, cycles) + extra, then the access latency until the result can be read."""
    hz = clock_hz(core, engine)
    interval = max(core.minimum_interval_cycles, cycles) + extra_cycles
    return Cost(interval_s=interval / hz, latency_s=core.access_latency_cycles / hz)


def copy_speedup(core: NeuronCore, *tiles: Tile) -> float:
    """Vector Engine performance mode of one-input instructions, with 16-bit data.

    4x from SBUF to SBUF when contiguous, 2x when strided or when one side is PSUM, else 1x.

    Source: trainium2_arch.rst, Vector Engine performance mode.
    """
    if any(tile.dtype.itemsize != _PERFORMANCE_MODE_BYTES for tile in tiles):
        return 1.0
    in_psum = any(tile.memory is PSUM for tile in tiles)
    is_dense = all(tile.pattern.is_contiguous(tile.dtype.itemsize, 1) for tile in tiles)
    if in_psum or not is_dense:
        return float(core.vector_16bit_strided_speedup)
    return float(core.vector_16bit_copy_speedup)


_PERFORMANCE_MODE_BYTES = 2


def along_free_axis(operand: Tile | float, data: Array) -> Float32Array | float:
    """A number as it is; a [P, 1] tile shaped to be broadcast along the free axes of `data`."""
    if isinstance(operand, int | float):
        return operand
    return operand.load().reshape(-1, *[1] * (data.ndim - 1))


def bits_along_free_axis(operand: Tile | float | None, data: Array) -> Array:
    """As `along_free_axis`, as bit patterns of the dtype of `data`."""
    if operand is None or isinstance(operand, int | float):
        low_bits = int(operand or 0) & ((1 << 8 * data.dtype.itemsize) - 1)
        return np.asarray(low_bits, f"u{data.dtype.itemsize}").astype(data.dtype)
    return operand.array.astype(data.dtype).reshape(-1, *[1] * (data.ndim - 1))


def same_shape(first: Array, second: Array) -> tuple[Array, Array]:
    """Both arrays in one shape: tiles of equal free size may divide it differently."""
    if first.shape == second.shape:
        return first, second
    return first.reshape(first.shape[0], -1), second.reshape(second.shape[0], -1)
