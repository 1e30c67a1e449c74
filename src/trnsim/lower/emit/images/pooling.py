"""Reductions over windows, such as poolings, in the layout of convolutions.

First the elements of each row of a window are reduced, then the results of its rows. Overlapping
windows share the results of rows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.graph import Node, Value
from trnsim.graph.ops.reductions import ReduceWindow, neutral
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.image import Band, Image, WindowBox, WindowGrid
from trnsim.lower.emit.images.kernels import TapBoxes
from trnsim.lower.emit.places.walk import Frame, TileSpan, write_span
from trnsim.lower.emit.window_sums import IMAGE_RANKS, OUTER_DIMS, image_pair
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_BAND_BYTES: Final = 16 * 1024
"""Bytes of a partition for a band of the padded images."""


def is_emitted(node: Node) -> bool:
    """True if `reduce_window` can emit a node: windows over the last dimensions of images."""
    operation = node.operation
    if not isinstance(operation, ReduceWindow):
        return False
    (value,) = node.values
    outer = slice(0, OUTER_DIMS)
    sizes = (operation.lengths, operation.strides, operation.dilations or (1, 1))
    return (
        len(value.shape) in IMAGE_RANKS
        and value.dtype in ("float32", "bfloat16")
        and all(numbers[outer] == (1, 1) for numbers in sizes)
        and not any((*operation.low[outer], *operation.high[outer]))
        and all((*value.shape, *node.result.shape))
    )


@emitter(ReduceWindow)
def reduce_window(emission: Emission, node: Node) -> None:
    """Emit a pooling, every block of channels, band by band."""
    operation: Any = node.operation
    value = _before_widening(emission, node.values[0])
    image = Image(
        emission, value, window_grid(node), padding_value=float(neutral(operation.op, np.float32))
    )
    shape = node.result.shape
    frame = Frame(shape, (1,), (0, *range(2, len(shape))))
    result = emission.residents.allocate(frame, node.result)
    rows = max(_window_rows_at_once(image), 1)
    for part in _bands(image.grid, rows):
        band = image.band(part, TapBoxes((1, 1)))
        for block in range(frame.blocks):
            channels = min(frame.block, frame.rows - block * frame.block)
            first = part.row * part.columns + part.image * image.grid.windows
            span = TileSpan(block, 1, channels, first, part.count)
            if result.is_on_chip:
                dst = result.storage.tile[:channels, block, first : first + part.count]
                _reduce_windows(operation.op, image.grid, band, part, block, dst)
            else:
                tile = new((channels, 1, part.count), dtype_of(node.result.dtype))
                _reduce_windows(operation.op, image.grid, band, part, block, tile[:, 0])
                write_span(result, frame, span, tile)
    emission.places[node.result.number] = [result]


def _before_widening(emission: Emission, value: Value) -> Value:
    """The operand of `value` if it is a conversion to float32, else the value.

    Engines convert their operands to float32 themselves.
    """
    producer = emission.facts.producers.get(value.number)
    is_widened = producer is not None and isinstance(producer.operation, Convert)
    if producer is None or not is_widened or not producer.values[0].type.is_floating:
        return value
    return producer.values[0] if value.dtype == "float32" else value


def window_grid(node: Node) -> WindowGrid:
    """The window grid; a sequence is an image of one row."""
    operation: Any = node.operation
    shape = node.values[0].shape

    return WindowGrid(
        images=shape[0],
        channels=shape[1],
        image_size=image_pair(shape[OUTER_DIMS:], 1),
        window_counts=image_pair(node.result.shape[OUTER_DIMS:], 1),
        kernel=image_pair(operation.lengths[OUTER_DIMS:], 1),
        strides=image_pair(operation.strides[OUTER_DIMS:], 1),
        low_padding=image_pair(operation.low[OUTER_DIMS:], 0),
        gaps=(0, 0),
        dilations=image_pair(operation.dilations[OUTER_DIMS:] or (1, 1), 1),
    )


def _window_rows_at_once(image: Image) -> int:
    """The count of rows of windows whose elements are in SBUF at once."""
    grid = image.grid
    overlap = grid.reach(0, 1) - grid.strides[0]
    image_rows = _BAND_BYTES // image.row_bytes
    return min((image_rows - overlap) // grid.strides[0], grid.window_counts[0])


def _bands(grid: WindowGrid, rows: int) -> list[WindowBox]:
    """Rows of windows, image by image."""
    window_rows, window_columns = grid.window_counts
    return [
        WindowBox(number, first, 0, 1, min(rows, window_rows - first), window_columns)
        for number in range(grid.images)
        for first in range(0, window_rows, rows)
    ]


def _reduce_windows(
    op: str, grid: WindowGrid, band: Band, part: WindowBox, block: int, dst: Tensor
) -> None:
    """Write the reduction of every window of `part` to dst [channels, windows]."""
    channels, function = dst.shape[0], getattr(nl, op)
    images = band.tile[:channels, block, : band.rows * band.width]
    images = images.reshape((channels, band.rows, band.width))
    (tap_rows, tap_columns), (row_stride, column_stride) = grid.kernel, grid.strides
    row_dilation, column_dilation = grid.dilations

    def columns(tap: int) -> Tensor:
        start = tap * column_dilation
        end = start + (part.columns - 1) * column_stride + 1
        return images[:, :, start:end:column_stride]

    lines = columns(0)
    if tap_columns > 1:
        lines = _combine(function, [columns(tap) for tap in range(tap_columns)], None)

    def rows(tap: int) -> Tensor:
        start = tap * row_dilation
        return lines[:, start : start + (part.rows - 1) * row_stride + 1 : row_stride]

    target = dst.reshape((channels, part.rows, part.columns))
    if tap_rows > 1:
        _combine(function, [rows(tap) for tap in range(tap_rows)], target)
    else:
        nisa.tensor_copy(dst=target, src=rows(0))


def _combine(function: Any, views: list[Tensor], dst: Tensor | None) -> Tensor:
    """The elementwise reduction of several views, in float32 or written to `dst` if given."""
    combined: Tensor = views[0]
    for number, view in enumerate(views[1:], start=2):
        is_last = number == len(views)
        target: Tensor = dst if is_last and dst is not None else new(combined.shape)
        nisa.tensor_tensor(dst=target, data1=combined, data2=view, op=function)
        combined = target
    return combined
