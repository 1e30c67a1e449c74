"""Views as operators: a recording has the geometry of a view, a graph needs the calls that make it.

Each dimension of a view is a dimension of its base, with the same stride or a multiple of it, or a
repetition, with stride 0. If that is not so, the base is flattened, and reshaped so that it has
dimensions of the view's strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

from trnsim.xla.cuts.values import Geometry


@dataclass(frozen=True, slots=True)
class ViewCall:
    """A call of a view operator on the result of the one before.

    Attributes:
        operator: its full name ("aten::slice.Tensor").
        arguments: those after the tensor.
    """

    operator: str
    arguments: tuple[Any, ...]


def view_calls(base: Geometry, view: Geometry) -> list[ViewCall] | None:
    """The calls that make a view of a base; None if no chain of these operators makes it."""
    shape, strides, first, dtype = base
    if dtype is not view[3] or 0 in shape or 0 in view[0]:
        return None
    offset = view[2] - first
    if offset < 0:
        return None
    calls = _by_dimensions(tuple(shape), tuple(strides), tuple(view[0]), tuple(view[1]), offset)
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    if calls is None and _is_flat([shape[dim] for dim in order], [strides[dim] for dim in order]):
        calls = _by_flat_memory(prod(shape), tuple(view[0]), tuple(view[1]), offset)
        if calls is not None and order != list(range(len(shape))):
            calls.insert(0, ViewCall("aten::permute", (order,)))
    return calls


def _by_dimensions(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    view_shape: tuple[int, ...],
    view_strides: tuple[int, ...],
    offset: int,
) -> list[ViewCall] | None:
    """The calls for a view whose dimensions are slices of the base's; None if they are not.

    Dimensions of the base that the view lacks have one element selected.
    """
    dims = sorted(range(len(shape)), key=lambda dim: -strides[dim])
    starts, rest = dict[int, int](), offset
    for dim in dims:
        at = min(rest // strides[dim], shape[dim] - 1) if strides[dim] else 0
        starts[dim], rest = at, rest - at * strides[dim]
    if rest:
        return None
    base_dims = _base_dims(shape, strides, view_shape, view_strides, starts)
    if base_dims is None:
        return None
    calls: list[ViewCall] = []
    for dim in range(len(shape)):
        view_dim = base_dims.index(dim) if dim in base_dims else None
        begin = starts[dim]
        if view_dim is None:
            if shape[dim] > 1:
                calls.append(ViewCall("aten::slice.Tensor", (dim, begin, begin + 1)))
            continue
        step = view_strides[view_dim] // strides[dim]
        end = begin + (view_shape[view_dim] - 1) * step + 1
        if (begin, end, step) != (0, shape[dim], 1):
            calls.append(ViewCall("aten::slice.Tensor", (dim, begin, end, step)))
    return calls + _ordered(base_dims, len(shape), view_shape)


def _base_dims(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    view_shape: tuple[int, ...],
    view_strides: tuple[int, ...],
    starts: dict[int, int],
) -> list[int | None] | None:
    """By dimension of the view, its dimension of the base; None if it is of length 1 or repeated.

    None if some dimension fits no dimension of the base.
    """
    free = [dim for dim in range(len(shape)) if shape[dim] > 1]
    base_dims: list[int | None] = []
    for length, step in zip(view_shape, view_strides, strict=True):
        if length == 1 or not step:
            base_dims.append(None)
            continue
        fitting = [
            dim
            for dim in free
            if strides[dim]
            and not step % strides[dim]
            and starts[dim] + (length - 1) * (step // strides[dim]) < shape[dim]
        ]
        if not fitting:
            return None
        nearest = max(fitting, key=lambda dim: strides[dim])
        free.remove(nearest)
        base_dims.append(nearest)
    return base_dims


def _ordered(base_dims: list[int | None], rank: int, view_shape: tuple[int, ...]) -> list[ViewCall]:
    """The calls that order dimensions, drop those of length 1, and repeat."""
    order = [dim for dim in base_dims if dim is not None]
    calls: list[ViewCall] = []
    others = [dim for dim in range(rank) if dim not in order]
    whole_order = [*order, *others]
    if whole_order != list(range(rank)):
        calls.append(ViewCall("aten::permute", (whole_order,)))
    lengths = [view_shape[at] if dim is not None else 1 for at, dim in enumerate(base_dims)]
    if others or None in base_dims:
        calls.append(ViewCall("aten::view", (lengths,)))
    if lengths != list(view_shape):
        calls.append(ViewCall("aten::expand", (list(view_shape),)))
    return calls


def _is_flat(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if elements lie in memory in the order of the dimensions."""
    step = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _by_flat_memory(
    elements: int, view_shape: tuple[int, ...], view_strides: tuple[int, ...], offset: int
) -> list[ViewCall] | None:
    """The calls for a view of a flattened base; None if the view's strides do not divide it.

    The base is reshaped to the strides of the view, each of which divides the larger ones.
    """
    steps = sorted(
        {step for n, step in zip(view_shape, view_strides, strict=True) if n > 1 and step}
    )
    steps.reverse()
    if any(long % short for long, short in pairwise(steps)):
        return None
    if not steps or steps[-1] != 1:
        steps.append(1)
    if elements % steps[0]:
        return None
    bounds = [elements, *steps]
    shape = tuple(a // b for a, b in pairwise(bounds))
    calls = _by_dimensions(shape, tuple(steps), view_shape, view_strides, offset)
    return None if calls is None else [ViewCall("aten::view", (list(shape),)), *calls]
