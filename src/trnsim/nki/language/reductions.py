"""Reductions along the last free axes, and functions made of them: softmax, rms_norm.

Source: nki.language, Reduction operations.
"""

from __future__ import annotations

from math import prod as product
from typing import Any

import numpy as np

from trnsim.dtypes import FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.nki.arguments import boolean, lengths
from trnsim.nki.language_operators import OPERATORS, ComposedFunction, Operator
from trnsim.nki.tensor import NkiTensor
from trnsim.nki.tiles import as_tile, issue, match_shapes, new_tile, plain_number, spread

Axes = int | tuple[int, ...] | list[int]


class ReductionOperator(Operator):
    """`nl.sum`, `nl.max`, `nl.min`; as an instruction's `op`, sum is add, max is maximum."""

    def _apply(self, x: Any, axis: Axes, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
        """The reduction along the last free axes, as a single instruction."""
        return _reduce(self.name, repr(self), x, axis, dtype, keepdims=keepdims)


def mean(x: NkiTensor, axis: Axes, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The average along the last free axes, summed in float32."""
    tile = as_tile("nl.mean", x)
    first_axis = _first_axis("nl.mean", tile, axis)
    total = _reduce("add", "nl.mean", tile, axis, FLOAT32, keepdims=keepdims)
    return _scaled_tile(
        total, 1.0 / product(tile.shape[first_axis:]), tile.dtype if dtype is None else dtype
    )


def var(x: NkiTensor, axis: Axes, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """The population variance along the last free axes, which are kept with length 1 as in NKI."""
    del keepdims
    tile = as_tile("nl.var", x)
    first_axis = _first_axis("nl.var", tile, axis)
    average = mean(tile, axis, FLOAT32, keepdims=True)
    deviations = _elementwise("subtract", tile, average)
    squares = _elementwise("multiply", deviations, deviations)
    total = _reduce("add", "nl.var", squares, axis, FLOAT32, keepdims=True)
    return _scaled_tile(
        total, 1.0 / product(tile.shape[first_axis:]), tile.dtype if dtype is None else dtype
    )


def softmax(x: NkiTensor, axis: Axes = -1, dtype: Any = None) -> NkiTensor:
    """exp(x - max) divided by its sum along the last free axes."""
    tile = as_tile("nl.softmax", x)
    maxima = _reduce("maximum", "nl.softmax", tile, axis, FLOAT32, keepdims=True)
    powers = OPERATORS["exp"](_elementwise("subtract", tile, maxima))
    total = _reduce("add", "nl.softmax", powers, axis, FLOAT32, keepdims=True)
    reciprocals = OPERATORS["reciprocal"](total)
    return _elementwise("multiply", powers, reciprocals, tile.dtype if dtype is None else dtype)


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Axes,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """``x / sqrt(sum(x * x) / n + epsilon) * w``, in float32 or in `compute_dtype`.

    The sum is along `axis`; `n` is the number of its elements.
    """
    count = plain_number(n)
    if not isinstance(count, int | float) or not count > 0:
        raise IllegalInstruction(
            f"nl.rms_norm(n={count!r}); legal: the number of elements along axis, at least 1",
            fix="pass the length of the axis: n=x.shape[1]",
            source="nki.language.rms_norm",
        )
    intermediate_dtype = FLOAT32 if compute_dtype is None else compute_dtype
    tile = as_tile("nl.rms_norm", x)
    squares = _elementwise("multiply", tile, tile, intermediate_dtype)
    total = _reduce("add", "nl.rms_norm", squares, axis, FLOAT32, keepdims=True)
    root = new_tile(total.shape, FLOAT32)
    issue("tensor_scalar", root, total, "multiply", 1.0 / count, False, "add", epsilon)
    normalized = _elementwise("multiply", tile, OPERATORS["rsqrt"](root), intermediate_dtype)
    normalized, weight = match_shapes("nl.rms_norm", normalized, as_tile("nl.rms_norm", w))
    return _elementwise("multiply", normalized, weight, tile.dtype if dtype is None else dtype)


def all(x: NkiTensor, axis: Axes, dtype: Any = None) -> NkiTensor:
    """1 where every element along the last free axes is not zero, else 0."""
    return _reduce("logical_and", "nl.all", x, axis, dtype, keepdims=False)


def _reduce(op: str, label: str, x: Any, axis: Axes, dtype: Any, *, keepdims: bool) -> NkiTensor:
    """The reduction of `x` by the ALU operator `op` along its last axes; `label` is for errors."""
    tile = as_tile(label, x)
    first_axis = _first_axis(label, tile, axis)
    is_kept = boolean(f"{label}, keepdims", keepdims, "nki.language, Reduction operations")
    reduced_lengths = (1,) * (tile.ndim - first_axis) if is_kept else ()
    shape = (*tile.shape[:first_axis], *reduced_lengths)
    shape = shape if len(shape) > 1 else (*shape, 1)  # on chip a free axis stays
    result = new_tile(shape, tile.dtype if dtype is None else dtype)
    issue("tensor_reduce", result, op, tile, tuple(range(first_axis, tile.ndim)))
    return result


def _first_axis(label: str, tile: NkiTensor, axis: Axes) -> int:
    """The first of the axes to reduce, checked to be the tile's last axes."""
    source = "nki.language, Reduction operations: axis"
    named_axes = (
        (axis,) if isinstance(axis, int | np.integer) else lengths(f"{label}: axis", axis, source)
    )
    axes = sorted(dim + tile.ndim if dim < 0 else dim for dim in named_axes)
    if not axes or axes[0] < 1 or axes != list(range(axes[0], tile.ndim)):
        raise IllegalInstruction(
            f"{label} along axis {axis} of {tile}; legal: the last free axes, such as "
            f"{list(range(1, tile.ndim))}",
            fix="permute the tile so that the axes to reduce come last; transpose it to reduce "
            "partitions",
            source=source,
        )
    return axes[0]


def _elementwise(op: str, x: NkiTensor, y: NkiTensor, dtype: Any = FLOAT32) -> NkiTensor:
    """`x op y`, y repeated along the free axes where it has length 1."""
    result = new_tile(x.shape, dtype)
    issue("tensor_tensor", result, x, spread(y, x.shape), op)
    return result


def _scaled_tile(tile: NkiTensor, factor: float, dtype: Any) -> NkiTensor:
    result = new_tile(tile.shape, dtype)
    issue("tensor_scalar", result, tile, "multiply", factor)
    return result


FUNCTIONS: dict[str, Operator] = {
    "sum": ReductionOperator("add", "sum"),
    "max": ReductionOperator("maximum", "max"),
    "min": ReductionOperator("minimum", "min"),
    "prod": ReductionOperator("multiply", "prod"),
    **{f.__name__: ComposedFunction(f) for f in (mean, var, all, softmax, rms_norm)},
}
"""The functions by their names in `nki.language`."""
