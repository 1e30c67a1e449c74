"""Views as operators: a recording has the geometry of a view, a graph needs the calls that make it.

A dimension of a view is a dimension of its base, with the same stride or a multiple of it, or a
repetition, with stride 0. The base of any other view is flattened, and reshaped to dimensions of
the view's strides.
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
    """A call of a view operator on the result of the call before it.

    Attributes:
        operator: its full name ("aten::slice.Tensor").
        arguments: its arguments after the tensor.
    """

    operator: str
    arguments: tuple[Any, ...]


def view_calls(base: Geometry, view: Geometry) -> list[ViewCall] | None:
    """The calls that make a view of a base; None if no chain of these operators makes it."""
    shape, strides, base_offset, dtype = base
    if dtype is not view[3] or 0 in shape or 0 in view[0]:
        return None
    offset = view[2] - base_offset
    if offset < 0:
        return None
    calls = _dimension_calls(tuple(shape), tuple(strides), tuple(view[0]), tuple(view[1]), offset)
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim], dim))
    if calls is None and _is_flat([shape[dim] for dim in order], [strides[dim] for dim in order]):
        calls = _flat_memory_calls(prod(shape), tuple(view[0]), tuple(view[1]), offset)
        if calls is not None and order != list(range(len(shape))):
            calls.insert(0, ViewCall("aten::permute", (order,)))
    return calls


def _dimension_calls(
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
    starts, remaining_offset = dict[int, int](), offset
    for dim in dims:
        index = min(remaining_offset // strides[dim], shape[dim] - 1) if strides[dim] else 0
        starts[dim], remaining_offset = index, remaining_offset - index * strides[dim]
    if remaining_offset:
        return None
    base_dims = _base_dims(shape, strides, view_shape, view_strides, starts)
    if base_dims is None:
        return None
    calls: list[ViewCall] = []
    for dim in range(len(shape)):
        view_dim = base_dims.index(dim) if dim in base_dims else None
        start = starts[dim]
        if view_dim is None:
            if shape[dim] > 1:
                calls.append(ViewCall("aten::slice.Tensor", (dim, start, start + 1)))
            continue
        step = view_strides[view_dim] // strides[dim]
        end = start + (view_shape[view_dim] - 1) * step + 1
        if (start, end, step) != (0, shape[dim], 1):
            calls.append(ViewCall("aten::slice.Tensor", (dim, start, end, step)))
    return calls + _order_calls(base_dims, len(shape), view_shape)


def _base_dims(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    view_shape: tuple[int, ...],
    view_strides: tuple[int, ...],
    starts: dict[int, int],
) -> list[int | None] | None:
    """For each dimension of the view the dimension of the base; None if some has none.

    A dimension of length 1, or with stride 0, has None in the list.
    """
    free_dims = [dim for dim in range(len(shape)) if shape[dim] > 1]
    base_dims: list[int | None] = []
    for length, step in zip(view_shape, view_strides, strict=True):
        if length == 1 or not step:
            base_dims.append(None)
            continue
        candidate_dims = [
            dim
            for dim in free_dims
            if strides[dim]
            and not step % strides[dim]
            and starts[dim] + (length - 1) * (step // strides[dim]) < shape[dim]
        ]
        if not candidate_dims:
            return None
        widest_dim = max(candidate_dims, key=lambda dim: strides[dim])
        free_dims.remove(widest_dim)
        base_dims.append(widest_dim)
    return base_dims


def _order_calls(
    base_dims: list[int | None], rank: int, view_shape: tuple[int, ...]
) -> list[ViewCall]:
    """The calls that order dimensions, drop dimensions of length 1, and repeat."""
    order = [dim for dim in base_dims if dim is not None]
    calls: list[ViewCall] = []
    other_dims = [dim for dim in range(rank) if dim not in order]
    full_order = [*order, *other_dims]
    if full_order != list(range(rank)):
        calls.append(ViewCall("aten::permute", (full_order,)))
    lengths = [view_shape[index] if dim is not None else 1 for index, dim in enumerate(base_dims)]
    if other_dims or None in base_dims:
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


def _flat_memory_calls(
    elements: int, view_shape: tuple[int, ...], view_strides: tuple[int, ...], offset: int
) -> list[ViewCall] | None:
    """The calls for a view of a flattened base; None if the view's strides do not divide it.

    The base is reshaped to the strides of the view, each of which divides all larger strides.
    """
    steps = sorted(
        {step for n, step in zip(view_shape, view_strides, strict=True) if n > 1 and step}
    )
    steps.reverse()
    if any(larger % smaller for larger, smaller in pairwise(steps)):
        return None
    if not steps or steps[-1] != 1:
        steps.append(1)
    if elements % steps[0]:
        return None
    bounds = [elements, *steps]
    shape = tuple(a // b for a, b in pairwise(bounds))
    calls = _dimension_calls(shape, tuple(steps), view_shape, view_strides, offset)
    return None if calls is None else [ViewCall("aten::view", (list(shape),)), *calls]
