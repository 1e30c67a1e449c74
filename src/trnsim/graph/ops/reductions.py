"""Reductions, scans, sorting, and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.ops.layout import Pad, are_dims, strided
from trnsim.graph.types import FLOATS, INTEGERS, Array, Shape, TensorType, widen

BODIES: Final[dict[str, Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
"""The functions of two elements by which reductions combine."""
_EXTREMES: Final = ("maximum", "minimum")
"""Reductions that choose one of the elements."""

_F32: Final = "float32"


class Reduce(Operation, kind=Kind.REDUCTION):
    """The sum (add), product (multiply), maximum or minimum over `dims`, which go away.

    Over no elements it is the function's neutral element: 0, 1, or the type's lowest or highest
    value. Engines reduce in float32, so sums and extremes of integers are exact up to 2**24.
    """

    operands = ("operand",)
    names_dtype = True
    reads_stored = True  # of integers the neutral element is their type's
    op: str = "add"
    dims: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type without `dims`."""
        if self.op not in BODIES:
            self.refuse(f"by {self.op}; legal: {', '.join(BODIES)}")
        if list(self.dims) != sorted(self.dims) or not are_dims(self.dims, len(tensors[0].shape)):
            self.refuse(f"of {tensors[0]} over {self.dims}; legal: its dimensions in order")
        shape = tuple(n for dim, n in enumerate(tensors[0].shape) if dim not in self.dims)
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The elements combined over `dims`."""
        start = neutral(self.op, operand.dtype)
        return np.asarray(BODIES[self.op].reduce(widen(operand), self.dims, initial=start))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Reductions over the last dimensions, the first ones, and both ends."""
        return tuple(
            Example(cls(op, dims), (TensorType((3, 4, 40), dtype),), (values,))
            for op in BODIES
            for dims in ((2,), (1, 2), (0,), (0, 1), (0, 2))
            for dtype in (_F32, "bfloat16", "int32")
            for values in ("edges" if op in _EXTREMES and dtype != "int32" else "small",)
        )


class Scan(Operation, kind=Kind.KERNEL, source="CHLO dialect, scan"):
    """Running sums (add), products, maxima or minima along the last dimension.

    Engines scan in float32, so results of integers are exact up to 2**24.
    """

    operands = ("operand",)
    legal = ((*FLOATS, *INTEGERS),)
    tolerance = 2.0**-12  # each sum of a long row is rounded
    op: str = "add"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        if self.op not in BODIES or not tensors[0].shape:
            self.refuse(f"of {tensors[0]} by {self.op}; legal: {', '.join(BODIES)} of a row")
        return (tensors[0],)

    def reference(self, operand: Array) -> Array:
        """Running results along the last dimension."""
        return np.asarray(BODIES[self.op].accumulate(operand, -1))

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each body, also along more than one tile."""
        return tuple(
            Example(cls(op), (TensorType(shape, _F32),), ("small",))
            for op in BODIES
            for shape in ((3, 40), (2, 2050))
        )


class TopK(Operation, kind=Kind.KERNEL, source="CHLO dialect, top_k"):
    """Indices of the k largest elements of each last dimension, the largest first, int32.

    NaN counts as the largest; of equal elements the first comes first. CHLO's values are gathered
    by these indices. Engines search in float32, so integers beyond 2**24 may count as equal, and
    for k > 1 a kernel refuses NaN, whose order AWS does not document.
    """

    operands = ("operand",)
    k: int = 1

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """K indices for each row."""
        if not tensors[0].shape or not 0 < self.k <= tensors[0].shape[-1]:
            self.refuse(f"of {tensors[0]} with k={self.k}; legal: 1 to the last dimension's length")
        return (TensorType((*tensors[0].shape[:-1], self.k), "int32"),)

    def reference(self, operand: Array) -> Array:
        """The indices."""
        return _sorting_indices(operand, -1, is_descending=True)[..., : self.k]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """One, eight, nine, all."""
        operands = (TensorType((3, 40), _F32),)
        return tuple(Example(cls(k), operands, ("distinct",)) for k in (1, 8, 9, 40))


class Sort(Operation, kind=Kind.KERNEL):
    """The operands sorted along `dim` by the first of them.

    NaN of either sign counts as the largest number, and -0 as 0, as in jax.lax.sort and
    torch.sort.

    Attributes:
        dim: the dimension; -1 is the last.
        is_descending: whether the largest comes first.
        is_stable: whether equal elements keep their order.
    """

    operands = ("*operands",)
    dim: int = -1
    is_descending: bool = False
    is_stable: bool = True

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operands' types."""
        if len({tensor.shape for tensor in tensors}) != 1:
            self.refuse(f"of {', '.join(map(str, tensors))}; legal: operands of one shape")
        if not -1 <= self.dim < len(tensors[0].shape) or not tensors[0].shape:
            self.refuse(
                f"of {tensors[0]} along {self.dim}; legal: one of its dimensions, -1 the last"
            )
        return tensors

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """The operands in the order of the first."""
        order = _sorting_indices(operands[0], self.dim, is_descending=self.is_descending)
        return tuple(np.take_along_axis(operand, order, self.dim) for operand in operands)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Ascending and descending, with a second operand."""
        operands = (TensorType((3, 40), _F32), TensorType((3, 40), "int32"))
        return tuple(
            Example(cls(1, down), operands, ("distinct", "distinct")) for down in (False, True)
        )


def _sorting_indices(values: Array, dim: int, *, is_descending: bool) -> Array:
    """Indices that sort `values` along `dim`, stably."""
    if not is_descending:
        return np.argsort(values, dim, kind="stable")
    reversed_order = np.argsort(np.flip(values, dim), dim, kind="stable")
    return np.flip(values.shape[dim] - 1 - reversed_order, dim)


class WindowOperation(Operation, abstract=True):
    """Windows that move over the operand.

    Attributes:
        lengths: length of a window in each dimension.
        strides: distance between windows.
        low: padding before the first element; negative padding removes elements.
        high: padding after the last element.
    """

    lengths: Shape = ()
    strides: Shape = ()
    low: Shape = ()
    high: Shape = ()

    def _counts(self, shape: Shape, dilations: Shape) -> Shape:
        """The number of windows in each dimension."""
        attributes = (self.lengths, self.strides, self.low, self.high, dilations)
        if any(len(attribute) != len(shape) for attribute in attributes):
            self.refuse(f"of {shape} by windows of {self.lengths}; legal: a number a dimension")
        if min(self.lengths, default=1) < 1:
            self.refuse(f"by windows of {self.lengths}; legal: from 1")
        if min((*self.strides, *dilations), default=1) < 1:
            self.refuse(f"by strides of {self.strides} and {dilations}; legal: from 1")
        if any(sum(amounts) < 0 for amounts in zip(shape, self.low, self.high, strict=True)):
            self.refuse(f"of {shape} padded by {self.low} and {self.high}; legal: lengths from 0")
        return tuple(
            max((n + a + z - ((w - 1) * d + 1)) // s + 1, 0)
            for n, w, s, a, z, d in zip(
                shape, self.lengths, self.strides, self.low, self.high, dilations, strict=True
            )
        )


class ReduceWindow(WindowOperation, kind=Kind.KERNEL):
    """The sum (add), product (multiply), maximum or minimum of each window.

    Attributes:
        op: the body; its neutral element is the padding.
        dilations: distance between elements of a window; 1 by default.
    """

    operands = ("operand",)
    reads_stored = True  # of integers the neutral element is their type's
    op: str = "add"
    dilations: Shape = ()

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """An element for each window."""
        if self.op not in BODIES:
            self.refuse(f"by {self.op}; legal: {', '.join(BODIES)}")
        shape = self._counts(tensors[0].shape, self.dilations or (1,) * len(tensors[0].shape))
        return (TensorType(shape, tensors[0].dtype),)

    def reference(self, operand: Array) -> Array:
        """The elements of each window combined."""
        steps = self.dilations or (1,) * operand.ndim
        start = neutral(self.op, operand.dtype)
        wide = Pad(self.low, self.high, (0,) * operand.ndim, start).reference(widen(operand))
        counts = self._counts(operand.shape, steps)
        result = np.full(counts, start, wide.dtype)
        for at in np.ndindex(*self.lengths):
            part = wide[
                tuple(
                    strided(i * d, n, s)
                    for i, d, n, s in zip(at, steps, counts, self.strides, strict=True)
                )
            ]
            result = BODIES[self.op](result, part)
        return result

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Overlapping windows with padding, and dilated ones."""
        operands = (TensorType((2, 9, 10), _F32),)
        return tuple(
            Example(
                cls((1, 3, 2), (1, 2, 1), (0, 1, 0), (0, 1, 1), op, steps), operands, ("small",)
            )
            for op in BODIES
            for steps in ((), (1, 2, 3))
        )


class SelectAndScatter(WindowOperation, kind=Kind.KERNEL):
    """The gradient of a maximum or minimum over windows.

    Each element of `source` is added at the extreme of its window of the operand, the first of
    several. Padding is never chosen.
    """

    operands = ("operand", "source")
    op: str = "maximum"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        windows = self._counts(tensors[0].shape, (1,) * len(tensors[0].shape))
        if self.op not in _EXTREMES:
            self.refuse(f"by {self.op}; legal: {', '.join(_EXTREMES)}")
        if tensors[1].shape != windows:
            self.refuse(f"of {tensors[0]} with {tensors[1]}; legal: a source of {windows}")
        return (TensorType(tensors[0].shape, tensors[1].dtype),)

    def reference(self, operand: Array, source: Array) -> Array:
        """Sums at the extremes."""
        numbers = np.arange(operand.size).reshape(operand.shape)
        wide = Pad(self.low, self.high, (0,) * operand.ndim, -1.0).reference(numbers)
        elements, sums = operand.ravel(), np.zeros(operand.size, source.dtype)
        best: Callable[..., Any] = np.argmax if self.op == "maximum" else np.argmin
        for place in np.ndindex(*source.shape):
            start = [i * s for i, s in zip(place, self.strides, strict=True)]
            window = wide[
                tuple(slice(at, at + n) for at, n in zip(start, self.lengths, strict=True))
            ]
            inside = window[window >= 0]
            if inside.size:
                sums[inside[best(elements[inside])]] += source[place]
        return sums.reshape(operand.shape)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Windows that touch, and that overlap."""
        operand = TensorType((2, 8, 10), _F32)
        return (
            Example(
                cls((1, 2, 2), (1, 2, 2), (0, 0, 0), (0, 0, 0)),
                (operand, TensorType((2, 4, 5), _F32)),
                ("distinct", "small"),
            ),
            Example(
                cls((1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 0, 0)),
                (operand, TensorType((2, 4, 5), _F32)),
                ("distinct", "small"),
            ),
        )


def neutral(op: str, dtype: Any) -> Any:
    """The neutral element of a function: 0, 1, or the type's lowest or highest value."""
    if op in ("add", "multiply") or dtype == np.bool_:
        return op in ("multiply", "minimum")
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return limits.min if op == "maximum" else limits.max
    return -np.inf if op == "maximum" else np.inf
