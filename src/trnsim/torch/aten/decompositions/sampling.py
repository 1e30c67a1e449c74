"""Sampling of images at arbitrary points, and its gradients: gathers and scatters of table rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

_BILINEAR, _NEAREST = 0, 1  # torch.nn.functional.grid_sample, mode
_ZEROS, _BORDER = 0, 1  # padding_mode
_CORNERS: Final = {_BILINEAR: ((0, 0), (0, 1), (1, 0), (1, 1)), _NEAREST: ((0, 0),)}


@dataclass(frozen=True, slots=True)
class _Points:
    """Positions at which a grid reads an image, each value [points, 1].

    Attributes:
        positions: along height and along width, between 0 and length - 1.
        slope: the derivative of each position by its grid coordinate.
        first_rows: the first table row of the image of the batch that each point reads.
        lengths: height and width.
        mode: the mode of interpolation, bilinear or nearest.
    """

    positions: list[Value]
    slope: list[Value]
    first_rows: Value
    lengths: list[int]
    mode: int

    def neighbor(self, b: Build, corner: tuple[int, int]) -> tuple[Value, list[Value], list[Value]]:
        """The neighbour of each point at a corner of the square of pixels around it.

        Returns:
            The neighbour's table row [points]; for each dimension, 1 inside the image, else 0, and
            for each dimension its weight, each [points, 1].
        """
        rows: list[Value] = [self.first_rows]
        inside_flags: list[Value] = []
        weights: list[Value] = []
        for dim, (position, step) in enumerate(zip(self.positions, corner, strict=True)):
            last = float(self.lengths[dim] - 1)
            corner_pixel = b.ew(
                "round_nearest_even" if self.mode == _NEAREST else "floor", position
            )
            pixel = b.ew("add", corner_pixel, float(step)) if step else corner_pixel
            is_from_start = b.ew("compare", pixel, 0.0, dtype="float32", direction="GE")
            is_to_end = b.ew("compare", pixel, last, dtype="float32", direction="LE")
            inside_flags.append(b.ew("multiply", is_from_start, is_to_end))
            if self.mode == _BILINEAR:
                weights.append(
                    b.ew("subtract", 1.0, b.ew("abs", b.ew("subtract", position, pixel)))
                )
            clamped_pixel = b.ew("minimum", b.ew("maximum", pixel, 0.0), last)
            rows.append(b.ew("multiply", clamped_pixel, float(prod(self.lengths[dim + 1 :]))))
        row = b.convert(b.total(rows), "int32")
        return b.graph.reshape(row, (row.type.elements,)), inside_flags, weights


def _points(
    b: Build, x: Value, grid: Value, mode: int, padding: int, is_aligned: bool
) -> tuple[_Points, Value]:
    """The points that a grid reads, and the image as a table of pixels [N * H * W, C]."""
    if mode not in (_BILINEAR, _NEAREST) or padding not in (_ZEROS, _BORDER):
        raise Unlowered("bicubic sampling, or reflection at the border")
    batch, channels, *lengths = x.shape
    points = grid.type.elements // 2
    coordinates = b.graph.reshape(b.convert(grid, "float32"), (points, 2))
    table = b.graph.reshape(b.graph.transpose(x, (0, 2, 3, 1)), (batch * prod(lengths), channels))
    positions = [  # the grid has x, along W, first
        _pixel_positions(b, b.sliced(coordinates, 1, 1 - dim, 1), n, padding, is_aligned)
        for dim, n in enumerate(lengths)
    ]
    image_index = b.graph.iota((batch, points // batch), 0)
    first_rows = b.ew("multiply", b.graph.reshape(image_index, (points, 1)), float(prod(lengths)))
    first_rows = b.convert(first_rows, "float32")
    return _Points(
        [position for position, _ in positions],
        [slope for _, slope in positions],
        first_rows,
        lengths,
        mode,
    ), table


def _pixel_positions(
    b: Build, coordinates: Value, length: int, padding: int, is_aligned: bool
) -> tuple[Value, Value]:
    """Pixel positions (0 to length - 1) of grid coordinates (-1 to 1), and their derivative."""
    scale = (length - 1) / 2 if is_aligned else length / 2
    shift = scale if is_aligned else (length - 1) / 2
    positions = b.ew("add", b.ew("multiply", coordinates, scale), shift)
    slope = b.filled(scale, TensorType(positions.shape, "float32"))
    if padding == _BORDER:  # beyond the border nothing changes
        is_from_start = b.ew("compare", positions, 0.0, dtype="float32", direction="GT")
        is_to_end = b.ew("compare", positions, float(length - 1), dtype="float32", direction="LT")
        slope = b.ew("multiply", slope, b.ew("multiply", is_from_start, is_to_end))
        positions = b.ew("minimum", b.ew("maximum", positions, 0.0), float(length - 1))
    return positions, slope


def _product(b: Build, factors: list[Value]) -> Value:
    return reduce(lambda product, factor: b.ew("multiply", product, factor), factors)


def grid_sampler(
    b: Build, x: Value, grid: Value, mode: int, padding: int, is_aligned: bool
) -> Value:
    """Elements of x [N, C, H, W] at the points of a grid [N, OH, OW, 2], between -1 and 1."""
    points, table = _points(b, x, grid, mode, padding, is_aligned)
    terms: list[Value] = []
    for corner in _CORNERS[mode]:
        row, inside_flags, weights = points.neighbor(b, corner)
        pixels = b.graph.gather(table, row)
        weight = b.broadcast(_product(b, inside_flags + weights), pixels.shape)
        terms.append(b.ew("multiply", pixels, weight, dtype="float32"))
    shape = (x.shape[0], *grid.shape[1:3], x.shape[1])
    return b.as_result(b.graph.transpose(b.graph.reshape(b.total(terms), shape), (0, 3, 1, 2)))


def grid_sampler_backward(
    b: Build,
    grad: Value,
    x: Value,
    grid: Value,
    mode: int,
    padding: int,
    is_aligned: bool,
    output_mask: list[bool],
) -> tuple[Value | None, Value]:
    """Gradients of the image, scattered to the pixels that were read, and of the grid.

    The image has one if the first element of `output_mask` is true. PyTorch returns that of the
    grid always, whatever the second element says.
    """
    points, table = _points(b, x, grid, mode, padding, is_aligned)
    grads = b.graph.transpose(b.convert(grad, "float32"), (0, 2, 3, 1))
    grads = b.graph.reshape(grads, (grid.type.elements // 2, x.shape[1]))
    image_gradient: Value | TensorType = TensorType(table.shape, "float32")
    coordinate_terms: list[list[Value]] = [[], []]
    for corner in _CORNERS[mode]:
        row, inside_flags, weights = points.neighbor(b, corner)
        weight = b.broadcast(_product(b, inside_flags + weights), grads.shape)
        image_gradient = b.graph.scatter(image_gradient, row, b.ew("multiply", grads, weight))
        if mode == _BILINEAR:
            products = b.ew("multiply", grads, b.convert(b.graph.gather(table, row), "float32"))
            channel_sum = b.reduce("add", products, [1], keeps_dims=True)
            for dim, step in enumerate(corner):
                term = _product(
                    b, [channel_sum, *inside_flags, weights[1 - dim], points.slope[dim]]
                )
                coordinate_terms[dim].append(term if step else b.ew("negate", term))
    if not isinstance(image_gradient, Value):
        raise Unlowered("sampling without points")
    grid_gradient = b.as_result(_grid_gradient(b, coordinate_terms, grid), int(output_mask[0]))
    if not output_mask[0]:
        return None, grid_gradient
    channels_last = b.graph.reshape(image_gradient, (x.shape[0], *x.shape[2:], x.shape[1]))
    return b.as_result(b.graph.transpose(channels_last, (0, 3, 1, 2))), grid_gradient


def _grid_gradient(b: Build, coordinate_terms: list[list[Value]], grid: Value) -> Value:
    """The gradient of the grid, width first; zeros for nearest sampling, which is constant."""
    if not coordinate_terms[0]:
        return b.filled(0.0, TensorType(grid.shape, "float32"))
    sides = [b.total(terms) for terms in reversed(coordinate_terms)]
    pairs = b.graph.concatenate(sides, 1)
    return b.graph.reshape(pairs, grid.shape)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "grid_sampler_2d": grid_sampler,
    "grid_sampler_2d_backward": grid_sampler_backward,
}
