"""A tensor in parts along a dimension, as a loop builds it: one part per trip.

A loop of JAX writes the results of all trips into one tensor, and reads the operands of all trips
from one tensor. In an unrolled loop, a part that is written and later read is the trip's own
tensor, so that parts are not concatenated and cut again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trnsim.graph import Origin
from trnsim.graph.types import TensorType


@dataclass(frozen=True, slots=True)
class Part:
    """A slice of an entry along the stack's dimension.

    Attributes:
        entry: a tensor of the graph, or a constant.
        start: its first index.
    """

    entry: Any
    start: int
    length: int

    def cut(self, start: int, length: int) -> Part:
        """A slice of this part."""
        return Part(self.entry, self.start + start, length)


@dataclass(frozen=True, slots=True)
class Stack:
    """A tensor as parts that follow one another along a dimension.

    Attributes:
        dim: the dimension along which the parts lie.
        parts: the parts in order.
        origin: the origin of the operation that made it.
    """

    type: TensorType
    dim: int
    parts: tuple[Part, ...]
    origin: Origin | None = None

    @property
    def cuts(self) -> tuple[int, ...]:
        """The dimension, and the lengths of the parts."""
        return (self.dim, *(part.length for part in self.parts))

    @classmethod
    def of(cls, entry: Any, type_: TensorType, dim: int) -> Stack | None:
        """An entry as a stack along a dimension; None for a stack along another dimension."""
        if isinstance(entry, Stack):
            return entry if entry.dim == dim else None
        return cls(type_, dim, (Part(entry, 0, type_.shape[dim]),))

    def slice_parts(self, start: int, length: int) -> tuple[Part, ...]:
        """The parts of a slice along the stack's dimension."""
        parts, part_start = list[Part](), 0
        for part in self.parts:
            slice_start, slice_end = (
                max(start, part_start),
                min(start + length, part_start + part.length),
            )
            if slice_start < slice_end:
                parts.append(part.cut(slice_start - part_start, slice_end - slice_start))
            part_start += part.length
        return tuple(parts)

    def replace_slice(self, entry: Any, start: int, length: int) -> Stack:
        """The stack with a slice replaced by an entry."""
        end, extent = start + length, self.type.shape[self.dim]
        parts = (
            *self.slice_parts(0, start),
            Part(entry, 0, length),
            *self.slice_parts(end, extent - end),
        )
        return Stack(self.type, self.dim, parts)

    def slice_stack(self, start: int, shape: Sequence[int]) -> Stack:
        """The stack of a slice of that shape."""
        parts = self.slice_parts(start, shape[self.dim])
        return Stack(TensorType(tuple(shape), self.type.dtype), self.dim, parts)
