"""Operations on windows: reductions, gradients of their extremes, and convolutions.

The elements at one position within all windows (a tap) are a strided view of the operand, which a
fused kernel reads in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from typing import Final

import numpy as np

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.convolution import convolve_taps
from trnsim.graph.building.windows import Windows
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.reductions import ReduceWindow, SelectAndScatter, neutral
from trnsim.lower.legal.products import in_multiplied_formats
from trnsim.lower.rules import legal

_FEW_TAPS: Final = 8
"""Most taps along a dimension that are each read from HBM; more taps are reduced by halves."""


@legal(ReduceWindow)
def reduce_window(b: Build, op: ReduceWindow, operand: Value) -> Value:
    """Reductions over windows, one dimension after the other; floating point in float32."""
    (result_type,) = b.result_types
    rank = len(operand.shape)
    is_float = operand.type.is_floating
    result = b.convert(operand, "float32") if is_float else operand
    number = neutral(op.op, np.dtype(result.type.numpy_dtype()))
    result = b.graph.pad(result, op.low, op.high, (0,) * rank, float(number))
    dilations = op.dilations or (1,) * rank
    for dim in range(rank):
        length, step = op.lengths[dim], op.strides[dim]
        result = _reduce_along(
            b, op.op, result, dim, (length, step, dilations[dim]), result_type.shape[dim]
        )
    return b.convert(result, result_type.dtype)


def _reduce_along(
    b: Build, op: str, x: Value, dim: int, window: tuple[int, int, int], count: int
) -> Value:
    """`count` windows of (length, stride, dilation) along one dimension.

    A long window is computed from two halves, which it shares with other windows.
    """
    length, stride, dilation = window
    if length == x.shape[dim] > 1 and (count, dilation) == (1, 1):  # one window of all elements
        return b.reduce(op, x, [dim], keeps_dims=True)

    def view(value: Value, first: int) -> Value:
        return b.sliced(value, dim, first, count, stride)

    if length <= _FEW_TAPS:
        taps = [view(x, place * dilation) for place in range(length)]
        return reduce(partial(b.ew, op), taps)
    half = length // 2
    distance = half * dilation
    halves = _reduce_along(b, op, x, dim, (half, 1, dilation), (count - 1) * stride + distance + 1)
    pair = b.ew(op, view(halves, 0), view(halves, distance))
    return b.ew(op, pair, view(x, (length - 1) * dilation)) if length % 2 else pair


@legal(SelectAndScatter)
def select_and_scatter(b: Build, op: SelectAndScatter, operand: Value, source: Value) -> Value:
    """The source summed at the extremes of its windows, in the shape of the operand."""
    (result_type,) = b.result_types
    if not operand.shape:
        return source
    windows = Windows(op.lengths, op.strides, op.low, (1,) * len(operand.shape))
    window_counts = source.shape
    taps = windows.taps(b, windows.pad_to_windows(b, operand, window_counts), window_counts)
    inside = _taps_inside(b, windows, operand.shape, window_counts)
    tap_numbers = _extreme_taps(b, op.op, taps, inside)
    updates = b.convert(source, "float32") if source.type.is_floating else source
    parts: list[Value] = []
    for number in range(len(taps)):
        is_here = b.ew("compare", tap_numbers, float(number), dtype="bool", direction="EQ")
        parts.append(b.ew("select", is_here, updates, 0.0, dtype=updates.dtype))
    gradient = windows.sum_tap_gradients(b, parts, operand.shape)
    return b.convert(gradient, result_type.dtype)


def _taps_inside(
    b: Build, windows: Windows, lengths: Sequence[int], window_counts: Sequence[int]
) -> list[Value | None]:
    """For each tap, 1 in windows whose tap is inside the operand, else 0; None without padding."""
    ones = b.filled(1.0, TensorType(tuple(lengths), "float32"))
    padded = windows.pad_to_windows(b, ones, window_counts)
    if padded.shape == ones.shape:
        return [None for _ in windows.offsets()]
    return list(windows.taps(b, padded, window_counts))


def _extreme_taps(
    b: Build, op: str, taps: Sequence[Value], inside: Sequence[Value | None]
) -> Value:
    """For each window the number of the first tap with its extreme; -1 if no tap is inside.

    NaN counts as the extreme.
    """
    direction = "GE" if op == "maximum" else "LE"
    extremes, tap_numbers = taps[0], b.filled(0.0, TensorType(taps[0].shape, "float32"))
    if inside[0] is not None:
        tap_numbers = b.ew("subtract", inside[0], 1.0)
    for number, (tap, is_inside) in enumerate(zip(taps[1:], inside[1:], strict=True), start=1):
        is_at_least = b.ew("compare", extremes, tap, dtype="bool", direction=direction)
        is_nan = b.ew("compare", extremes, extremes, dtype="bool", direction="NE")
        is_better = b.ew("not", b.ew("or", is_at_least, is_nan))
        if is_inside is not None:
            is_first = b.ew("compare", tap_numbers, 0.0, dtype="bool", direction="LT")
            is_tap_inside = b.ew("compare", is_inside, 0.0, dtype="bool", direction="NE")
            is_better = b.ew("and", b.ew("or", is_better, is_first), is_tap_inside)
        extremes = b.ew("select", is_better, tap, extremes)
        tap_numbers = b.ew("select", is_better, float(number), tap_numbers, dtype="float32")
    return tap_numbers


@legal(Convolution)
def convolution(b: Build, op: Convolution, lhs: Value, rhs: Value) -> Value:
    """A convolution: a product for each tap, or one product over all windows if they are few."""
    (result_type,) = b.result_types
    low, high, gaps = ((0, 0, *sizes) for sizes in (op.low, op.high, op.gaps))
    image, kernels = in_multiplied_formats(b, lhs, rhs)
    padded = b.graph.pad(image, low, high, gaps)
    window_counts = result_type.shape[2:]
    if not window_counts:  # one window, of one element
        padded, kernels, window_counts = (
            b.graph.reshape(padded, (*padded.shape, 1)),
            b.graph.reshape(kernels, (*kernels.shape, 1)),
            (1,),
        )
    rank = len(window_counts)
    windows = Windows(kernels.shape[2:], op.strides or (1,), (0,) * rank, op.dilations or (1,))
    if not op.is_reversed and prod(window_counts) < prod(windows.kernel):
        sums = _sum_few_windows(b, padded, kernels, windows, window_counts, op.groups)
        return b.convert(sums, result_type.dtype)
    taps = windows.taps(b, padded, window_counts)
    sums = convolve_taps(b, taps[::-1] if op.is_reversed else taps, kernels, op.groups)
    return b.convert(b.graph.reshape(sums, result_type.shape), result_type.dtype)


def _sum_few_windows(
    b: Build,
    image: Value,
    kernels: Value,
    windows: Windows,
    window_counts: Sequence[int],
    groups: int,
) -> Value:
    """The sums of a convolution with fewer windows than taps, such as a kernel's gradient.

    This is im2col: the elements under a window are a column for each image, which is contracted
    over channels and taps.
    """
    images, channels = image.shape[0], image.shape[1] // groups
    # Windows and taps exchange roles: the elements of one window are one strided view.
    window_taps = Windows(tuple(window_counts), windows.dilation, windows.padding, windows.stride)
    window_elements = window_taps.taps(b, image, windows.kernel)
    grouped = (groups, images, 1, channels * prod(windows.kernel))
    columns = [_images_by_group(b, part, groups, grouped) for part in window_elements]
    column_matrix = b.graph.reshape(
        b.graph.concatenate(columns, 2), (groups, images * len(window_elements), grouped[-1])
    )
    rows = b.graph.reshape(kernels, (groups, kernels.shape[0] // groups, grouped[-1]))
    sums = b.graph.dot_general(rows, column_matrix, (2, 2), "float32")
    sums = b.graph.reshape(sums, (kernels.shape[0], images, *window_counts))
    return b.graph.transpose(sums, (1, 0, *range(2, len(sums.shape))))


def _images_by_group(b: Build, part: Value, groups: int, shape: Sequence[int]) -> Value:
    """``[groups, N, 1, C * places]`` of ``[N, groups * C, *places]``."""
    images, channels, *places = part.shape
    split = b.graph.reshape(part, (images, groups, channels // groups, *places))
    return b.graph.reshape(b.graph.transpose(split, (1, 0, *range(2, len(split.shape)))), shape)
