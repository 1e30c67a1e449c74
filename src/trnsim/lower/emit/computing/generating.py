"""Tensors that each reader generates in SBUF: iota and random numbers."""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph.ops.leaves import Iota, Rng
from trnsim.isa import FREE_DIMENSIONS
from trnsim.lower.emit.places.tensor_place import TensorPlace, TileSource
from trnsim.lower.emit.places.walk import Frame, TileSpan, axes_along
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_RANDOM_BITS: Final = 32
_BELOW_ONE: Final = 1 - 2.0**-24
"""The largest float32 below 1."""


class IotaSource(TileSource):
    """Positions along one dimension: the place has stride 1 in that dimension, else 0."""

    def tile(self, place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor | None:
        """The positions of a span's elements; None if they are not evenly spaced."""
        rows, columns = axes_along(place, frame.p_dims), axes_along(place, frame.f_dims)
        is_part = span.columns < frame.columns and len(columns) > 1
        if len(rows) > 1 or len(columns) >= FREE_DIMENSIONS or is_part:
            return None
        row_step = rows[0][1][0] if rows else 0
        pattern = [[step, length] for length, (step,) in columns]
        first = place.offset[0] + span.block * frame.block * row_step
        if len(pattern) <= 1:
            step = pattern[0][0] if pattern else 0
            pattern, first = [[step, span.columns]], first + span.start * step
        positions = new((span.partitions, span.blocks, span.columns), self.dtype)
        blocks = [[frame.block * row_step, span.blocks]]
        nisa.iota(
            dst=positions, pattern=blocks + pattern, offset=first, channel_multiplier=row_step
        )
        return positions


class RandomSource(TileSource):
    """Uniform numbers in [0, 1): 32 random bits as a fraction of 2**32.

    Float32 would round the largest of them to 1, so they become the largest number below 1.
    """

    def tile(self, place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor:
        """New random numbers for the elements of a span."""
        del place, frame
        bits = new((span.partitions, span.blocks, span.columns), nl.uint32)
        nisa.rng(dst=bits)
        numbers = new(bits.shape)
        nisa.tensor_scalar(
            dst=numbers,
            data=bits,
            op0=nl.multiply,
            operand0=2.0**-_RANDOM_BITS,
            op1=nl.minimum,
            operand1=_BELOW_ONE,
        )
        return numbers


def generated_place(operation: Iota | Rng) -> TensorPlace:
    """The place of an iota or of random numbers."""
    shape, dim = operation.shape, operation.dim if isinstance(operation, Iota) else -1
    storage: Any = (IotaSource if dim >= 0 else RandomSource)(dtype_of(operation.dtype))
    return TensorPlace(storage, shape, tuple((int(at == dim),) for at in range(len(shape))), (0,))
