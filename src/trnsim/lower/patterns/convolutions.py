"""Convolutions that equal a simpler operation: a product, or a convolution of fewer dimensions."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from trnsim.graph import Graph, Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.patterns import form_of
from trnsim.graph.rewriting import Match, Pattern

_OUTER_DIMS: Final = 2
"""Dimensions before the spatial ones: batch, channels."""
_VOLUME_RANK: Final = 5
"""Rank of volumes: batch, channels, depth, height, width."""


def _has_single_window(match: Match) -> bool:
    operation: Any = match.node.operation
    image, kernels = match.node.values
    is_plain = operation.groups == 1 and not operation.is_reversed
    is_covered = len(image.shape) > _OUTER_DIMS and image.shape[2:] == kernels.shape[2:]
    return is_plain and is_covered and all(image.shape) and set(match.node.result.shape[2:]) == {1}


def _product(match: Match) -> Value:
    """The product ``[N, O, 1, ...]`` of images and kernels, each as one row."""
    graph, result = match.graph, match.node.result
    images, kernels = (
        graph.reshape(side, (side.shape[0], prod(side.shape[1:]))) for side in match.node.values
    )
    return graph.reshape(graph.dot_general(images, kernels, (1, 1), result.dtype), result.shape)


SINGLE_WINDOW = Pattern(
    "single windows",
    "a convolution with kernels as large as the images is one product",
    before=form_of(Convolution),
    when=_has_single_window,
    after=_product,
)


def _is_of_volumes(match: Match) -> bool:
    shapes = (match.node.result.shape, *(value.shape for value in match.node.values))
    return len(shapes[0]) == _VOLUME_RANK and all(0 not in shape for shape in shapes)


def _fold_depth(match: Match) -> Value:
    """The convolution of volumes, computed as one of images ``[N * windows, C * K, H, W]``.

    The kernels of the images are ``[O, C / groups * K, *W]``. The K slices of a window along the
    depth become channels, and each window along the depth becomes an image.
    """
    graph, node = match.graph, match.node
    operation: Any = node.operation
    volumes, kernels = node.values
    batch, outputs, windows, *sizes = node.result.shape
    images = _depth_as_channels(graph, volumes, operation, kernels.shape[2], windows)
    outer, inner, taps, *kernel = kernels.shape
    flat_kernels = graph.reshape(kernels, (outer, inner * taps, *kernel))
    options = ("strides", "low", "high", "gaps", "dilations")
    in_plane = replace(operation, **{name: getattr(operation, name)[1:] for name in options})
    convolved = graph.apply(in_plane, images, flat_kernels, dtype=node.result.dtype)
    split = graph.reshape(convolved, (batch, windows, outputs, *sizes))
    return graph.transpose(split, (0, 2, 1, 3, 4))


def _depth_as_channels(
    graph: Graph, volumes: Value, operation: Any, taps: int, windows: int
) -> Value:
    """Images ``[N * windows, C * taps, H, W]`` from volumes ``[N, C, D, H, W]``."""
    low, high, gaps = (
        (0, 0, side[0], 0, 0) for side in (operation.low, operation.high, operation.gaps)
    )
    padded = graph.pad(volumes, low, high, gaps)
    batch, channels, _, *sizes = padded.shape
    shape, steps = (batch, channels, windows, *sizes), (1, 1, operation.strides[0], 1, 1)
    starts = [(0, 0, tap * operation.dilations[0], 0, 0) for tap in range(taps)]
    if operation.is_reversed:
        starts.reverse()
    slices = [
        graph.reshape(
            graph.transpose(graph.slice(padded, start, shape, steps), (0, 2, 1, 3, 4)),
            (batch * windows, channels, 1, *sizes),
        )
        for start in starts
    ]
    return graph.reshape(graph.concatenate(slices, 2), (batch * windows, channels * taps, *sizes))


VOLUME = Pattern(
    "volumes",
    "a convolution of volumes is one of images, with the depth of its windows as channels",
    before=form_of(Convolution),
    when=_is_of_volumes,
    after=_fold_depth,
)
