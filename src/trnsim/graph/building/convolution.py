"""Convolutions as products: the elements under each tap of a window become columns.

The columns are written to HBM once; they are as many times as large as the input as a kernel has
taps. If each channel has a kernel of its own, the Vector Engine multiplies and adds instead, as a
product with one row would leave most of the Tensor Engine idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from trnsim.graph import Graph, Value
from trnsim.graph.building.build import Build


def convolve_taps(b: Build, taps: Sequence[Value], weight: Value, groups: int) -> Value:
    """The convolution [N, O, *places] of weight [O, C / groups, *kernel] with taps [N, C, *places].

    A tap has the input's elements under one element of the kernel.
    """
    batch, channels, *places = taps[0].shape
    if groups == channels == weight.shape[0]:
        return _channel_by_channel(b, taps, weight)
    rows = _weight_matrix(b, weight, groups)
    convolved = b.graph.dot_general(rows, join_taps(b, taps, groups), (2, 1), "float32")
    return _batch_first(b, convolved, batch, places)


def join_taps(b: Build, taps: Sequence[Value], groups: int) -> Value:
    """Join taps ``[N, C, *places]`` to columns ``[groups, C / groups * taps, N * places]``."""
    batch, channels, *places = taps[0].shape
    order = (1, 0, *range(2, len(places) + 2))
    flat = batch * prod(places)
    rows = [b.graph.reshape(b.graph.transpose(tap, order), (channels, 1, flat)) for tap in taps]
    columns = b.graph.concatenate(rows, 1)
    return b.graph.reshape(columns, (groups, channels // groups * len(rows), flat))


def _batch_first(b: Build, x: Value, batch: int, places: Sequence[int]) -> Value:
    """Images ``[N, C, *places]`` from the result ``[groups, C / groups, N * places]``."""
    channels = x.shape[0] * x.shape[1]
    image = b.graph.reshape(x, (channels, batch, *places))
    return b.graph.transpose(image, (1, 0, *range(2, len(places) + 2)))


def _weight_matrix(b: Build, weight: Value, groups: int) -> Value:
    """Kernels ``[groups * out, in, *kernel]`` as matrices ``[groups, out, in * taps]``."""
    outer, inner, *kernel = weight.shape
    return b.graph.reshape(weight, (groups, outer // groups, inner * prod(kernel)))


def batch_groups_in_channels(graph: Graph, x: Value, groups: int) -> Value:
    """Groups of images ``[groups * N, C, *D]`` as channels of images ``[N, groups * C, *D]``."""
    if groups == 1:
        return x
    batch, channels, *lengths = x.shape
    grouped = graph.reshape(x, (groups, batch // groups, channels, *lengths))
    ordered = graph.transpose(grouped, (1, 0, *range(2, len(grouped.shape))))
    return graph.reshape(ordered, (batch // groups, groups * channels, *lengths))


def _channel_by_channel(b: Build, taps: Sequence[Value], weight: Value) -> Value:
    """The sum over taps of each channel's own weight times its elements."""
    numbers = b.graph.reshape(weight, (weight.shape[0], len(taps)))
    numbers = b.graph.transpose(numbers, (1, 0))
    terms: list[Value] = []
    for number, tap in enumerate(taps):
        row = b.sliced(numbers, 0, number, 1)
        weights = b.graph.reshape(row, (weight.shape[0],))
        wide = b.graph.broadcast_in_dim(weights, tap.shape, (1,))
        terms.append(b.ew("multiply", tap, wide, dtype="float32"))
    return b.total(terms)
