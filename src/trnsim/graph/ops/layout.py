"""Operations that reorder, select, repeat or pad elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import (
    ELEMENT_TYPES,
    INTEGERS,
    ITEM_BYTES,
    Array,
    Shape,
    TensorType,
)

_F32 = "float32"


def are_dims(dims: Sequence[int], rank: int) -> bool:
    """True if `dims` are dimensions of a tensor of that rank, each at most once."""
    return len(set(dims)) == len(dims) and all(0 <= dim < rank for dim in dims)


class Reshape(Operation, kind=Kind.ALIAS):
    """The same elements in row-major order in another shape."""

    operands = ("operand",)
    shape: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """`shape`, of as many elements."""
        if prod(self.shape) != tensors[0].elements:
            self.refuse(f"of {tensors[0]} to {self.shape}; legal: as many elements")
        return (TensorType(self.shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The elements."""
        return operand.reshape(self.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Another shape, and none."""
        return (
            Example(cls((8, 6)), (TensorType((4, 12), _F32),), ("distinct",)),
            Example(cls(()), (TensorType((1, 1), _F32),), ("distinct",)),
        )


class Reinterpret(Operation, kind=Kind.ALIAS, source="torch.Tensor.view, of another dtype"):
    """The operand's bytes as another type; the last dimension changes by the ratio of sizes.

    It is the same memory; `BitcastConvert` computes element by element.
    """

    operands = ("operand",)
    reads_stored = True
    to: str = "int32"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """A shape of as many bytes."""
        if self.to not in ITEM_BYTES:
            self.refuse(f"of {tensors[0]} to {self.to}; legal: {', '.join(ELEMENT_TYPES)}")
        *outer, last = tensors[0].shape or (1,)
        size = last * ITEM_BYTES[tensors[0].dtype]
        if size % ITEM_BYTES[self.to] or not tensors[0].shape:
            self.refuse(f"of {tensors[0]} to {self.to}; legal: rows of whole elements")
        return (TensorType((*outer, size // ITEM_BYTES[self.to]), self.to),)

    def reference(self, operand: Array) -> Array:
        """The bytes."""
        return np.ascontiguousarray(operand).view(TensorType((), self.to).numpy_dtype())

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """To a type of the same size, a shorter and a longer one."""
        pairs = ((_F32, "int32"), (_F32, "int16"), ("bfloat16", "int32"), ("uint8", "int8"))
        return tuple(
            Example(cls(to), (TensorType((3, 40), source),), ("edges",)) for source, to in pairs
        )


class View(Operation, kind=Kind.VIEW, abstract=True):
    """Elements of an operand in HBM, addressed by other strides; nothing is copied.

    Attributes:
        shape: the shape of the result.
    """

    operands = ("operand",)
    shape: Shape = ()


class BroadcastInDim(View):
    """The operand with its dimension i as dimension ``dims[i]``, repeated along the others."""

    dims: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """`shape`; the operand's lengths are those of the result or 1."""
        fits = are_dims(self.dims, len(self.shape)) and len(self.dims) == len(tensors[0].shape)
        if not fits or any(
            n not in (1, self.shape[dim])
            for n, dim in zip(tensors[0].shape, self.dims, strict=True)
        ):
            self.refuse(
                f"of {tensors[0]} to {self.shape} by {self.dims}; legal: lengths 1 or equal"
            )
        return (TensorType(self.shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The operand, repeated."""
        order = sorted(range(len(self.dims)), key=lambda place: self.dims[place])
        lengths = [1] * len(self.shape)
        for dim, n in zip(self.dims, operand.shape, strict=True):
            lengths[dim] = n
        return np.broadcast_to(operand.transpose(order).reshape(lengths), self.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """A row, a column, a number."""
        return (
            Example(cls((3, 40), (1,)), (TensorType((40,), _F32),), ("edges",)),
            Example(cls((3, 40), (0, 1)), (TensorType((3, 1), _F32),), ("edges",)),
            Example(cls((3, 40), ()), (TensorType((), _F32),), ("distinct",)),
        )


class Slice(View):
    """``shape[d]`` elements of each dimension d: from ``starts[d]`` on, every ``strides[d]``-th."""

    starts: Shape = ()
    strides: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """`shape`, which must lie in the operand."""
        shape, rank = tensors[0].shape, len(tensors[0].shape)
        if any(len(numbers) != rank for numbers in (self.starts, self.shape, self.strides)):
            self.refuse(f"of {tensors[0]} from {self.starts}; legal: a number for each dimension")
        for n, start, count, stride in zip(
            shape, self.starts, self.shape, self.strides, strict=True
        ):
            if start < 0 or stride < 1 or (count and start + (count - 1) * stride >= n):
                self.refuse(f"of {tensors[0]}: {count} from {start} by {stride} of {n}")
        return (TensorType(self.shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The elements."""
        parts = zip(self.starts, self.shape, self.strides, strict=True)
        return operand[tuple(slice(s, s + n * step, step) for s, n, step in parts)]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """With a step, and the last element."""
        operands = (TensorType((5, 40), _F32),)
        return (
            Example(cls((2, 13), (1, 2), (3, 3)), operands, ("distinct",)),
            Example(cls((1, 1), (4, 39), (1, 1)), operands, ("distinct",)),
        )


class Transpose(Operation, kind=Kind.KERNEL):
    """The operand with its dimensions in another order: i of the result is ``permutation[i]``.

    NeuronCore-v2 transposes floating point by a product with ones and zeros, so an infinity or NaN
    makes NaN of others in its block.
    """

    operands = ("operand",)
    permutation: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The permuted lengths."""
        if sorted(self.permutation) != list(range(len(tensors[0].shape))):
            self.refuse(f"of {tensors[0]} by {self.permutation}; legal: each dimension once")
        shape = tuple(tensors[0].shape[dim] for dim in self.permutation)
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The elements."""
        return operand.transpose(self.permutation)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """The last dimension moves, or stays; types of 4, 2 and 1 bytes."""
        shape = (2, 5, 130)
        return tuple(
            Example(cls(order), (TensorType(shape, dtype),), ("edges",))
            for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1))
            for dtype in (_F32, "bfloat16", "int8", "int32", "bool")
        )


class Concatenate(Operation, kind=Kind.KERNEL):
    """The operands one after another along `dim`."""

    operands = ("*parts",)
    dim: int = 0

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """Lengths along `dim` add up; the others agree."""
        if not tensors or not are_dims([self.dim], len(tensors[0].shape)):
            self.refuse(f"of {', '.join(map(str, tensors))} along {self.dim}; legal: a dimension")
        shapes = [list(tensor.shape) for tensor in tensors]
        total = sum(shape.pop(self.dim) for shape in shapes)
        if (
            any(shape != shapes[0] for shape in shapes)
            or len({tensor.dtype for tensor in tensors}) > 1
        ):
            self.refuse(
                f"of {', '.join(map(str, tensors))} along {self.dim}; legal: other lengths and "
                "element types that agree"
            )
        shape = (*shapes[0][: self.dim], total, *shapes[0][self.dim :])
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, *parts: Array) -> Array:
        """The elements."""
        return np.concatenate(parts, self.dim)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Of different lengths."""
        left, right = TensorType((3, 40), _F32), TensorType((3, 7), _F32)
        return (
            Example(cls(1), (left, right), ("distinct",) * 2),
            Example(cls(0), (left, left, left), ("distinct",) * 3),
        )


class Pad(Operation, kind=Kind.KERNEL):
    """The operand with a number before, after and between its elements.

    Attributes:
        low: numbers before each dimension; negative ones remove elements.
        high: numbers after it, likewise.
        interior: numbers between two elements.
    """

    operands = ("operand",)
    low: Shape = ()
    high: Shape = ()
    interior: Shape = ()
    number: float = 0.0

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the number beside integers is neither an infinity nor NaN."""
        super().check(tensors)
        if tensors[0].dtype in INTEGERS and not isfinite(self.number):
            self.refuse(f"of {tensors[0]} with {self.number}; legal: a finite number")

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The padded lengths."""
        rank = len(tensors[0].shape)
        if any(len(numbers) != rank for numbers in (self.low, self.high, self.interior)):
            self.refuse(f"of {tensors[0]} by {self.low}; legal: a number for each dimension")
        lengths = zip(tensors[0].shape, self.low, self.high, self.interior, strict=True)
        shape = tuple(padded_length(*amounts) for amounts in lengths)
        if any(n < 0 for n in shape) or any(gap < 0 for gap in self.interior):
            self.refuse(
                f"of {tensors[0]} by {self.low}, {self.high}, {self.interior}; legal: lengths and "
                "gaps from 0"
            )
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The operand's elements, and the number between and around them."""
        lengths = zip(operand.shape, self.low, self.high, self.interior, strict=True)
        shape = tuple(padded_length(*amounts) for amounts in lengths)
        result = np.full(shape, self.number, operand.dtype)
        places = [
            low + np.arange(n) * (gap + 1)
            for n, low, gap in zip(operand.shape, self.low, self.interior, strict=True)
        ]
        masks = [(at >= 0) & (at < n) for at, n in zip(places, shape, strict=True)]
        kept_places = [at[mask] for at, mask in zip(places, masks, strict=True)]
        result[np.ix_(*kept_places)] = operand[np.ix_(*masks)]
        return result

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Padding that adds elements, that removes some, and that has gaps."""
        operands = (TensorType((3, 40), _F32),)
        return (
            Example(cls((1, 2), (0, 3), (0, 0), 7.0), operands, ("distinct",)),
            Example(cls((0, -2), (2, -3), (1, 2), -1.0), operands, ("distinct",)),
        )


class Reverse(Operation, kind=Kind.KERNEL):
    """The operand with `dims` in the opposite order."""

    operands = ("operand",)
    dims: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        if not are_dims(self.dims, len(tensors[0].shape)):
            self.refuse(f"of {tensors[0]} along {self.dims}; legal: its dimensions, each once")
        return (tensors[0],)

    def reference(self, operand: Array) -> Array:
        """The elements."""
        return np.flip(operand, self.dims)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """One dimension, and both."""
        operands = (TensorType((3, 40), _F32),)
        return tuple(Example(cls(dims), operands, ("distinct",)) for dims in ((1,), (0, 1)))


class DynamicSlice(Operation, kind=Kind.KERNEL):
    """A window of the operand, of `shape`, that begins at `starts`.

    A window that would end outside is moved inside.
    """

    operands = ("operand", "*starts")
    legal = (ELEMENT_TYPES, INTEGERS)
    shape: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The shape."""
        if len(tensors) != len(tensors[0].shape) + 1 or any(tensor.shape for tensor in tensors[1:]):
            self.refuse(f"of {', '.join(map(str, tensors))}; legal: a scalar for each dimension")
        _check_part(self, tensors[0], self.shape)
        return (TensorType(self.shape, tensors[0].dtype),)

    def reference(self, operand: Array, *starts: Array) -> Array:
        """The elements."""
        return operand[_window_slices(operand.shape, self.shape, starts)]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Starts inside and beyond the end."""
        place = TensorType((), "int32")
        operands = (TensorType((5, 40), _F32), place, place)
        return tuple(
            Example(cls((2, 13)), operands, ("distinct", "places", "places"), limit)
            for limit in (3, 100)
        )


class DynamicUpdateSlice(Operation, kind=Kind.KERNEL):
    """The operand with `update` written over a window of it that begins at `starts`.

    A window that would end outside is moved inside.
    """

    operands = ("operand", "update", "*starts")
    legal = (ELEMENT_TYPES, ELEMENT_TYPES, INTEGERS)

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        if len(tensors) != len(tensors[0].shape) + 2 or any(tensor.shape for tensor in tensors[2:]):
            self.refuse(f"of {', '.join(map(str, tensors))}; legal: a scalar for each dimension")
        _check_part(self, tensors[0], tensors[1].shape)
        if tensors[0].dtype != tensors[1].dtype:
            self.refuse(f"of {tensors[0]} with {tensors[1]}; legal: one element type")
        return (tensors[0],)

    def reference(self, operand: Array, update: Array, *starts: Array) -> Array:
        """The elements."""
        result = operand.copy()
        result[_window_slices(operand.shape, update.shape, starts)] = update
        return result

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Starts inside and beyond the end."""
        place = TensorType((), "int32")
        operands = (TensorType((5, 40), _F32), TensorType((2, 13), _F32), place, place)
        return tuple(
            Example(cls(), operands, ("distinct", "distinct", "places", "places"), limit)
            for limit in (3, 100)
        )


def _check_part(operation: Operation, operand: TensorType, part: Shape) -> None:
    """Check that a window fits in the operand."""
    if len(part) != len(operand.shape) or any(
        m > n for m, n in zip(part, operand.shape, strict=True)
    ):
        operation.refuse(f"of {operand} in windows of {part}; legal: lengths up to its own")


def strided(first: int, count: int, stride: int) -> slice:
    """Every `stride`-th of `count` elements from `first` on; nothing for a count of 0."""
    return slice(first, first + max((count - 1) * stride + 1, 0), stride)


def padded_length(length: int, low: int, high: int, gap: int) -> int:
    """A length with `low` before, `high` after, and `gap` between its elements."""
    return low + length + max(length - 1, 0) * gap + high


def _window_slices(shape: Shape, part: Shape, starts: tuple[Array, ...]) -> tuple[slice, ...]:
    """Slices of a window, moved inside."""
    first = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, shape, part, strict=True)]
    return tuple(slice(start, start + m) for start, m in zip(first, part, strict=True))
