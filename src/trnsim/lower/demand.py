"""A lower bound of the elements of each value that the outputs of a graph need.

A demand is a box: a mask of the needed indices along each dimension. An element of a product needs
a row of one operand and a column of the other; an element of attention needs a query and the keys
that it sees. If the needed elements are not a box, the demand is a box within them, so it is never
too large. If the needed indices depend on values, the same number of leading indices stands for
them; indices that follow from tokens are those of representative tokens (`lookup_indices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.collectives import AllGather, AllReduce, CollectivePermute, ReduceScatter
from trnsim.graph.ops.contraction import Attention, Convolution, DotGeneral
from trnsim.graph.ops.control_flow import Branching, While
from trnsim.graph.ops.layout import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.reductions import Reduce, ReduceWindow, Scan, Sort, TopK
from trnsim.graph.types import Array
from trnsim.lower.lookup_indices import known_indices

Mask: TypeAlias = npt.NDArray[np.bool_]
Box: TypeAlias = tuple[Mask, ...]
"""A mask for each dimension: the needed elements are all combinations of the masks' indices."""

_MOST_MASK_ELEMENTS: Final = 1 << 26
"""Maximum number of elements of a reshape whose masks are combined element by element."""


def demands(graph: Graph, output_boxes: Sequence[Box | None] | None = None) -> dict[int, Box]:
    """The needed box of each value, by its number; values that are not needed have no entry.

    `output_boxes` are the needed boxes of the outputs; None if all of their elements are needed.
    """
    boxes = (
        [whole_box(value.shape) for value in graph.outputs]
        if output_boxes is None
        else output_boxes
    )
    boxes_by_number = dict[int, Box]()

    def add(value: Value, box: Box) -> None:
        before = boxes_by_number.get(value.number)
        boxes_by_number[value.number] = box if before is None else _union(before, box)

    for value, box in zip(graph.outputs, boxes, strict=True):
        if box is not None:
            add(value, box)
    indices = known_indices(graph)
    for node in reversed(graph.nodes):
        boxes = [boxes_by_number.get(value.number) for value in node.results]
        if not any(box is not None and count_elements(box) for box in boxes):
            continue
        for value, box in zip(node.values, _operand_boxes(node, boxes, indices), strict=True):
            if box is not None and count_elements(box):
                add(value, box)
    return boxes_by_number


def whole_box(shape: Sequence[int]) -> Box:
    """The box of all elements of a shape."""
    return tuple(np.ones(length, np.bool_) for length in shape)


def count_elements(box: Box) -> int:
    """The number of elements in a box."""
    return prod(int(np.count_nonzero(mask)) for mask in box)


def fraction_of(box: Box | None, shape: Sequence[int]) -> Fraction:
    """The fraction of a value's elements that are in a box; 0 for None."""
    return Fraction(count_elements(box), prod(shape) or 1) if box is not None else Fraction()


def _union(first: Box, second: Box) -> Box:
    """The union of two boxes if they differ in at most one dimension, else the larger box."""
    if sum(bool((a != b).any()) for a, b in zip(first, second, strict=True)) <= 1:
        return tuple(a | b for a, b in zip(first, second, strict=True))
    return max(first, second, key=count_elements)


def _operand_boxes(
    node: Node, boxes: list[Box | None], indices: Mapping[int, Array]
) -> list[Box | None]:
    """The needed box of each operand for the needed boxes of the results."""
    operation: Any = node.operation
    if isinstance(operation, Attention):
        return _attention_boxes(node, boxes)
    box = max((box for box in boxes if box is not None), key=count_elements)
    if node.kind is Kind.ELEMENTWISE:
        return [box] * len(node.values)
    if type(operation) in _LOOKUPS:
        return _lookup_boxes(node, box, indices)
    rule = _RULES.get(type(operation))
    if rule is not None and len(node.results) == 1:
        return rule(node, box)
    part, operand_indices = _share_of(node, boxes), _needed_operands(node, boxes)
    return [
        _leading_box(value.shape, part) if index in operand_indices else None
        for index, value in enumerate(node.values)
    ]


def _needed_operands(node: Node, boxes: list[Box | None]) -> set[int]:
    """The indices of the operands that needed results depend on; loops and branches need some."""
    operation = node.operation
    if len(node.values) < len(node.operands):  # numbers among them
        return {*range(len(node.values))}
    results = {index for index, box in enumerate(boxes) if box is not None}
    if isinstance(operation, Branching):
        return {0}.union(
            *({index + 1 for index in _read_inputs(b, results)} for b in operation.branches)
        )
    if not isinstance(operation, While) or not operation.condition or not operation.body:
        return {*range(len(node.values))}
    indices = results | _read_inputs(operation.condition, {0})
    while (further := indices | _read_inputs(operation.body, indices)) != indices:
        indices = further
    return indices


def _read_inputs(graph: Graph, outputs: set[int]) -> set[int]:
    """The indices of the inputs of a graph on which the outputs number `outputs` depend."""
    boxes = [
        whole_box(value.shape) if index in outputs else None
        for index, value in enumerate(graph.outputs)
    ]
    read = demands(graph, boxes)
    return {index for index, value in enumerate(graph.inputs) if value.number in read}


def _share_of(node: Node, boxes: list[Box | None]) -> Fraction:
    """The needed fraction of a result's elements; of several results the largest."""
    pairs = zip(boxes, node.results, strict=True)
    return max(fraction_of(box, value.shape) for box, value in pairs)


def _leading_box(shape: Sequence[int], part: Fraction) -> Box:
    """A box of at most the fraction `part` of a value's elements, at the first indices.

    It stands for needed elements that are not known, as only their number matters.
    """
    box: list[Mask] = []
    for length in shape:
        count = min(int(part * length), length)
        box.append(np.arange(length) < max(count, 1))
        if count:
            box += whole_box(shape[len(box) :])
            return tuple(box)
        part *= length
    return tuple(box) if part >= 1 else tuple(np.zeros(length, np.bool_) for length in shape)


def _broadcast_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    pairs = zip(node.values[0].shape, operation.dims, strict=True)
    return [tuple(box[dim] if length > 1 else np.ones(1, np.bool_) for length, dim in pairs)]


def _slice_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    masks = whole_box(node.values[0].shape)
    for mask, result_mask, start, step in zip(
        masks, box, operation.starts, operation.strides, strict=True
    ):
        mask[:] = False
        mask[start + np.flatnonzero(result_mask) * step] = True
    return [masks]


def _transpose_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    return [tuple(box[operation.permutation.index(dim)] for dim in range(len(box)))]


def _reverse_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    return [tuple(mask[::-1] if dim in operation.dims else mask for dim, mask in enumerate(box))]


def _concatenate_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    parts: list[Box | None] = []
    first = 0
    for value in node.values:
        length = value.shape[operation.dim]
        part = box[operation.dim][first : first + length]
        parts.append((*box[: operation.dim], part, *box[operation.dim + 1 :]))
        first += length
    return parts


def _pad_boxes(node: Node, box: Box) -> list[Box | None]:
    """The operand's needed elements; the padding number is ignored."""
    operation: Any = node.operation
    masks: list[Mask] = []
    for dim, length in enumerate(node.values[0].shape):
        positions = operation.low[dim] + np.arange(length) * (operation.interior[dim] + 1)
        is_kept = (positions >= 0) & (positions < len(box[dim]))
        mask = np.zeros(length, np.bool_)
        mask[is_kept] = box[dim][positions[is_kept]]
        masks.append(mask)
    return [tuple(masks)]


def _reduce_boxes(node: Node, box: Box) -> list[Box | None]:
    operation: Any = node.operation
    result_masks = iter(box)
    masks = [
        np.ones(length, np.bool_) if dim in operation.dims else next(result_masks)
        for dim, length in enumerate(node.values[0].shape)
    ]
    return [tuple(masks)]


def _product_boxes(node: Node, box: Box) -> list[Box | None]:
    """The needed rows or columns of each operand, over the whole contraction."""
    operation: Any = node.operation
    sides: list[Box | None] = []
    for value, contracted, free in zip(node.values, operation.contracting, box[-2:], strict=True):
        summed = np.ones(value.shape[contracted], np.bool_)
        is_last = contracted == len(value.shape) - 1
        sides.append((*box[:-2], *((free, summed) if is_last else (summed, free))))
    return sides


def _attention_boxes(node: Node, boxes: list[Box | None]) -> list[Box | None]:
    """The rows of needed queries, and the keys and values that any of them attends to."""
    operation: Any = node.operation
    result, sums = boxes
    query, key = (value.shape for value in node.values[:2])
    box = max(
        (side for side in (result[:-1] if result else None, sums) if side), key=count_elements
    )
    *batch, rows = box
    starts, ends = operation.visible_keys(query[-2], key[-2])
    visible = interval_counts(starts[rows], ends[rows], key[-2]) > 0
    width = np.ones(query[-1], np.bool_)
    values = None
    if result:
        *value_batch, value_rows, columns = result
        read = interval_counts(starts[value_rows], ends[value_rows], key[-2]) > 0
        values = (*value_batch, read, columns)
    bias: list[Box | None] = [(*batch, rows, visible)] * (len(node.values) - 3)
    return [(*batch, rows, width), (*batch, visible, width), values, *bias]


def interval_counts(starts: Array, ends: Array, length: int) -> Array:
    """For each index below `length` the number of intervals ``[start, end)`` that contain it."""
    change = np.bincount(starts, minlength=length + 1) - np.bincount(ends, minlength=length + 1)
    return change[:length].cumsum()


def _convolution_boxes(node: Node, box: Box) -> list[Box | None]:
    """The elements of images under needed windows, and the kernels of needed channels."""
    operation: Any = node.operation
    image, kernel = (value.shape for value in node.values)
    groups = box[1].reshape(operation.groups, -1).any(1)
    channels = np.repeat(groups, kernel[1])
    windows = tuple(
        _indices_under(_Windows(*sides), mask)
        for mask, sides in zip(
            box[2:],
            zip(
                image[2:],
                kernel[2:],
                operation.strides,
                operation.low,
                operation.dilations,
                operation.gaps,
                strict=True,
            ),
            strict=True,
        )
    )
    return [(box[0], channels, *windows), (box[1], *whole_box(kernel[1:]))]


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows along a dimension.

    Attributes:
        length: elements of the dimension.
        taps: elements that a window reads.
        stride: the distance between the starts of neighbouring windows.
        low: positions of padding before the first element.
        dilation: the distance between neighbouring taps.
        gap: zeros between neighbouring elements of the dimension.
    """

    length: int
    taps: int
    stride: int
    low: int
    dilation: int
    gap: int = 0


def _indices_under(windows: _Windows, mask: Mask) -> Mask:
    """The indices along a dimension under the windows of needed elements."""
    period = windows.gap + 1
    first = np.flatnonzero(mask)[:, None] * windows.stride - windows.low
    positions = first + np.arange(windows.taps) * windows.dilation
    end = windows.length * period
    indices = positions[(positions >= 0) & (positions < end) & (positions % period == 0)]
    index_mask = np.zeros(windows.length, np.bool_)
    index_mask[indices // period] = True
    return index_mask


def _lookup_boxes(node: Node, box: Box, indices: Mapping[int, Array]) -> list[Box | None]:
    """The rows that a lookup reads; the same number of leading rows if their indices are unknown.

    `indices` are the known ones, by the number of their value.
    """
    part = fraction_of(box, node.result.shape)
    first, *others = node.values
    read = None
    if all(value.number in indices for value in others):
        rule = _gather_boxes if isinstance(node.operation, Gather) else _dynamic_slice_boxes
        read = rule(node, box, [indices[value.number] for value in others])
    if read is None and node.operation == Gather.in_rows(first.shape):
        read = (*box[:-1], np.arange(first.shape[-1]) < np.count_nonzero(box[-1]))
    if read is None:
        rows = part * Fraction(node.result.type.elements, first.type.elements or 1)
        read = _leading_box(first.shape, rows)
    return [read, *(_leading_box(value.shape, part) for value in others)]


def _gather_boxes(node: Node, box: Box, starts: list[Array]) -> Box | None:
    """The elements that a gather reads by indices of one dimension; None for other gathers."""
    operation: Any = node.operation
    shape, sizes = node.values[0].shape, operation.slice_sizes
    if len(operation.start_index_map) != 1 or operation.operand_batching_dims:
        return None
    (indexed,) = operation.start_index_map
    offsets = iter([box[dim] for dim in sorted(operation.offset_dims)])
    slice_masks = [
        np.ones(1, np.bool_) if dim in operation.collapsed_slice_dims else next(offsets)
        for dim in range(len(shape))
    ]
    rows = [mask for dim, mask in enumerate(box) if dim not in operation.offset_dims]
    vectors = starts[0]
    if operation.index_vector_dim < vectors.ndim:
        vectors = vectors.take(0, operation.index_vector_dim)
    indices = vectors[np.ix_(*rows)].reshape(-1, 1)
    read = whole_box(shape)
    for dim, mask in enumerate(slice_masks):
        start = np.clip(indices, 0, shape[dim] - sizes[dim]) if dim == indexed else np.zeros((1, 1))
        read[dim][:] = False
        read[dim][(start.astype(int) + np.flatnonzero(mask)).ravel()] = True
    return read


def _dynamic_slice_boxes(node: Node, box: Box, starts: list[Array]) -> Box:
    """The operand's elements that a dynamic slice reads for `box`, if its starts are known."""
    read = whole_box(node.values[0].shape)
    for mask, result_mask, start in zip(read, box, starts, strict=True):
        first = min(max(int(start), 0), len(mask) - len(result_mask))
        mask[:] = False
        mask[first + np.flatnonzero(result_mask)] = True
    return read


def _windows_boxes(node: Node, box: Box) -> list[Box | None]:
    """The elements under windows of needed elements; the initial number is ignored."""
    operation: Any = node.operation
    dilations = operation.dilations or (1,) * len(box)
    shape = node.values[0].shape
    sides = zip(shape, operation.lengths, operation.strides, operation.low, dilations, strict=True)
    return [
        tuple(_indices_under(_Windows(*side), mask) for mask, side in zip(box, sides, strict=True))
    ]


def _sort_boxes(node: Node, box: Box) -> list[Box | None]:
    """Whole lines: an element of a sort or top-k depends on all elements of its line."""
    operation: Any = node.operation
    dim = (operation.dim if isinstance(operation, Sort) else -1) % len(box)
    line = np.ones(node.values[0].shape[dim], np.bool_)
    return [(*box[:dim], line, *box[dim + 1 :])]


def _scan_boxes(node: Node, box: Box) -> list[Box | None]:
    """Needed lines up to their last needed index."""
    del node
    last = np.flatnonzero(box[-1]).max(initial=-1)
    return [(*box[:-1], np.arange(len(box[-1])) <= last)]


def _all_reduce_boxes(node: Node, box: Box) -> list[Box | None]:
    """Each operand is needed at the indices of the result."""
    return [box] * len(node.values)


def _all_gather_boxes(node: Node, box: Box) -> list[Box | None]:
    """The indices within a member's part that are needed of every member."""
    operation: Any = node.operation
    parts = box[operation.dim].reshape(operation.size, -1)
    return [(*box[: operation.dim], parts.all(0), *box[operation.dim + 1 :])]


def _reduce_scatter_boxes(node: Node, box: Box) -> list[Box | None]:
    """Each member's part is needed at the indices of the result."""
    operation: Any = node.operation
    tiled = np.tile(box[operation.dim], operation.size)
    return [(*box[: operation.dim], tiled, *box[operation.dim + 1 :])]


def _reshape_boxes(node: Node, box: Box) -> list[Box | None]:
    """The operand's box, one group of dimensions after another.

    The dimensions of a group become a group of the result with as many elements.
    """
    shape, target = node.values[0].shape, node.result.shape
    if 0 in shape:
        return [None]
    masks: list[Mask] = []
    end = target_end = 0
    while end < len(shape) or target_end < len(target):
        first, target_first = end, target_end
        end, target_end = min(end + 1, len(shape)), min(target_end + 1, len(target))
        while (lacking := prod(shape[first:end]) - prod(target[target_first:target_end])) != 0:
            end, target_end = (end + 1, target_end) if lacking < 0 else (end, target_end + 1)
        masks += _reshape_box(box[target_first:target_end], shape[first:end])
    return [tuple(masks)]


def _reshape_box(masks: Box, shape: Sequence[int]) -> Box:
    """A box of another shape within the reshaped elements of the box `masks`."""
    if all(mask.all() for mask in masks):
        return whole_box(shape)
    lengths = [length for length in shape if length > 1]
    if [len(mask) for mask in masks if len(mask) > 1] == lengths:
        long_masks = iter([mask for mask in masks if len(mask) > 1])
        return tuple(next(long_masks) if length > 1 else np.ones(1, np.bool_) for length in shape)
    if prod(shape) > _MOST_MASK_ELEMENTS:
        return _leading_box(shape, fraction_of(masks, [len(mask) for mask in masks]))
    flat: Any = reduce(np.logical_and.outer, masks)
    return _inner_box(flat.reshape(shape))


def _inner_box(mask: Any) -> Box:
    """A box within a mask: all of it if it is a box, else its full rows, else part of a row."""
    dims = range(mask.ndim)
    masks = tuple(mask.any(axis=tuple(dim for dim in dims if dim != kept_dim)) for kept_dim in dims)
    if count_elements(masks) == int(mask.sum()):
        return masks
    rows = mask.reshape(len(mask), -1)
    full_rows = rows.all(1)
    if full_rows.any():
        return (full_rows, *whole_box(mask.shape[1:]))
    longest_row = int(rows.sum(1).argmax())
    return (np.arange(len(mask)) == longest_row, *_inner_box(mask[longest_row]))


_LOOKUPS: Final = (DynamicSlice, Gather)
_RULES: Final[dict[type, Callable[[Node, Box], list[Box | None]]]] = {
    AllGather: _all_gather_boxes,
    AllReduce: _all_reduce_boxes,
    BroadcastInDim: _broadcast_boxes,
    CollectivePermute: _all_reduce_boxes,
    Concatenate: _concatenate_boxes,
    Convolution: _convolution_boxes,
    DotGeneral: _product_boxes,
    Pad: _pad_boxes,
    Reduce: _reduce_boxes,
    ReduceScatter: _reduce_scatter_boxes,
    ReduceWindow: _windows_boxes,
    Reshape: _reshape_boxes,
    Reverse: _reverse_boxes,
    Scan: _scan_boxes,
    Slice: _slice_boxes,
    Sort: _sort_boxes,
    TopK: _sort_boxes,
    Transpose: _transpose_boxes,
}
