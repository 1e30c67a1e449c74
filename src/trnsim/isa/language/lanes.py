"""The lane engines (Vector, Scalar, GpSimd): costs and broadcasts, one lane per partition.

Costs are initiation intervals in cycles of the executing engine, from the formulas that the ISA
documents of SDK 2.26 gave (aws-neuron-sdk@0521004c general/nki/api/nki/isa/__init__.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import FLOAT32, Array, Float32Array
from trnsim.facts import Rate
from trnsim.isa.language.instruction import PSUM, Cost
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.strides import step_bytes
from trnsim.memory import Tile

_SHORT_FLOAT_BYTES: Final = 2
"""Bytes of a 16-bit float."""
_CLOCKS: Final[dict[Engine, Callable[[NeuronCore], Rate]]] = {
    Engine.tensor: lambda core: core.tensor_clock_hz,
    Engine.vector: lambda core: core.vector_clock_hz,
    Engine.scalar: lambda core: core.scalar_clock_hz,
    Engine.gpsimd: lambda core: core.gpsimd_clock_hz,
}


def clock_hz(core: NeuronCore, engine: Engine) -> float:
    """Clock frequency of an engine of `core`."""
    return _CLOCKS[engine](core)


def maximum(first: float, second: float) -> float:
    """The larger number; element by element if one is an array.

    A price for many cores at once is computed on arrays with a number for each core.
    """
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return np.maximum(first, second)
    return max(first, second)


def minimum(first: float, second: float) -> float:
    """The smaller number; element by element if one is an array."""
    return -maximum(-first, -second)


def lane_cost(core: NeuronCore, engine: Engine, cycles: float, extra_cycles: float = 0.0) -> Cost:
    """Interval: max(MIN_II, cycles) + extra_cycles; latency: the engine's access latency.

    Published profiles show a longer latency of the Scalar Engine: `scalar_dependent_s` is added.
    """
    hz = clock_hz(core, engine)
    interval = maximum(core.minimum_interval_cycles, cycles) + extra_cycles
    latency_s = core.access_latency_cycles / hz
    if engine is Engine.scalar:
        latency_s += core.scalar_dependent_s
    return Cost(interval_s=interval / hz, latency_s=latency_s)


def copy_speedup(core: NeuronCore, engine: Engine, *tiles: Tile) -> float:
    """Speedup of tensor_copy and tensor_scalar between floats of 8 or 16 bits, else 1.

    On the Vector Engine from v3 on, between 16-bit floats: 4x from SBUF to SBUF with contiguous
    elements in the innermost free dimension, 2x where they are strided, or contiguous with one side
    in PSUM. From v4 on the Scalar Engine has the 2x mode, for all of these. With 8-bit floats the
    speedup is at most that of the core's data path for 8-bit elements.

    Source: trainium2_arch.rst, Vector Engine Performance Mode; trainium3_arch.rst, Compute Engine
    Specifications and Scalar Engine, Performance mode.
    """
    in_psum = sum(tile.memory is PSUM for tile in tiles)
    is_dense = all(map(_is_dense_innermost, tiles))
    if not all(map(_is_short_float, tiles)) or in_psum > (1 if is_dense else 0):
        return 1.0
    if engine is Engine.scalar:
        speedup = core.scalar_16bit_copy_speedup
    elif engine is not Engine.vector:
        return 1.0
    elif in_psum or not is_dense:
        speedup = core.vector_16bit_strided_speedup
    else:
        speedup = core.vector_16bit_copy_speedup
    is_16bit = all(map(is_16bit_float, tiles))
    return speedup if is_16bit else minimum(speedup, core.vector_8bit_copy_speedup)


def is_16bit_float(tile: Tile) -> bool:
    """True if its dtype is bfloat16 or float16."""
    return tile.dtype.is_float and tile.dtype.itemsize == _SHORT_FLOAT_BYTES


def tensor_tensor_speedup(core: NeuronCore, *tiles: Tile) -> float:
    """Speedup of tensor_tensor between floats of 8 or 16 bits in SBUF, else 1.

    With 8-bit floats it is scaled by the ratio of the 8-bit to the 16-bit copy speedup: half on v3.

    Source: trainium2_arch.rst, Vector Engine Performance Mode; trainium3_arch.rst, Compute Engine
    Specifications.
    """
    if not all(map(_is_short_float, tiles)):
        return 1.0
    speedup = core.vector_16bit_tensor_tensor_speedup
    if all(map(is_16bit_float, tiles)):
        return speedup
    ratio = minimum(1.0, core.vector_8bit_copy_speedup / core.vector_16bit_copy_speedup)
    return maximum(1.0, speedup * ratio)


def _is_short_float(tile: Tile) -> bool:
    """True for dtypes with performance modes: floats of 16 bits, and on some cores of 8 bits."""
    return tile.dtype.is_float and tile.dtype.itemsize <= _SHORT_FLOAT_BYTES


def _is_dense_innermost(tile: Tile) -> bool:
    """True if the innermost free dimension longer than 1 is contiguous."""
    return step_bytes(tile) in (None, tile.dtype.itemsize)


def free_axis_operand(operand: Tile | float, data: Array) -> Float32Array | float:
    """A number unchanged; a [P, 1] tile reshaped to broadcast along the free axes of `data`."""
    if isinstance(operand, int | float):
        return operand
    return operand.load().reshape(-1, *[1] * (data.ndim - 1))


def free_axis_bits(operand: Tile | float | None, data: Array) -> Array:
    """The operand along the free axis, as bit patterns of the dtype of `data`."""
    if operand is None or isinstance(operand, int | float):
        low_bits = int(operand or 0) & ((1 << 8 * data.dtype.itemsize) - 1)
        return np.asarray(low_bits, f"u{data.dtype.itemsize}").astype(data.dtype)
    return operand.array.astype(data.dtype).reshape(-1, *[1] * (data.ndim - 1))


def as_stored(bits: Array, dtype: np.dtype[Any]) -> Array:
    """Bit patterns as integers of `dtype` if it has their size; else unchanged."""
    is_same_size = bits.dtype.itemsize == dtype.itemsize
    return bits.view(dtype) if is_same_size and dtype.kind in "iu" else bits


def with_one_shape(first: Array, second: Array) -> tuple[Array, Array]:
    """Both arrays in one shape: [P, F] if tiles of equal free size differ in free dimensions."""
    if first.shape == second.shape:
        return first, second
    return first.reshape(first.shape[0], -1), second.reshape(second.shape[0], -1)


def is_float32(*tiles: Tile) -> bool:
    """True for float32 tiles of one shape at fixed addresses: numpy may compute in place."""
    shape = tiles[0].shape
    return all(t.dtype is FLOAT32 and t.index is None and t.shape == shape for t in tiles)


def is_column(tile: Tile, data: Tile) -> bool:
    """True for a float32 tile [P, 1] at a fixed address, for data [P, F]: numpy broadcasts it."""
    return (
        tile.dtype is FLOAT32
        and tile.index is None
        and len(data.shape) == len(("P", "F"))
        and tile.shape == (data.shape[0], 1)
    )


def column_or_number(operand: Tile | float, out: Tile) -> Array | float:
    """A number, or the values of a tile: a copy if a result in `out` might overwrite them."""
    if not isinstance(operand, Tile):
        return operand
    array = operand.array
    return array.copy() if operand.storage.data is out.storage.data else array


def have_one_shape(*tiles: Tile) -> bool:
    """True for tiles of one shape at fixed addresses, none of a packed dtype."""
    shape = tiles[0].shape
    return all(t.index is None and t.shape == shape and not t.dtype.is_packed for t in tiles)
