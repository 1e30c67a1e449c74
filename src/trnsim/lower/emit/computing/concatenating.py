"""Concatenations: each operand is computed in, or moved to, its part of the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.layout import Concatenate
from trnsim.lower.emit.computing.evaluation import Evaluation
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.framing import is_by_channels
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.spans import tile_spans
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import write_all
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    axes_along,
    is_aligned,
    load_tile,
    runs,
    slice_of,
    write_span,
)
from trnsim.lower.emit.window_sums import IMAGE_RANKS
from trnsim.lower.kernels import tiles
from trnsim.nki import isa as nisa

_TRANSFER_ELEMENTS: Final = 1 << 14
"""Elements of a partition in one transfer."""


def emit_image_concatenation(emission: Emission, node: Node) -> bool:
    """Emit a concatenation of images along channels; False for other nodes."""
    operation: Any = node.operation
    shape = node.result.shape
    if operation.dim != 1 or len(shape) not in IMAGE_RANKS or not node.result.type.is_floating:
        return False
    if not all(node.result.shape) or not _is_of_images(emission, node):
        return False
    frame = Frame(shape, (1,), (0, *range(2, len(shape))))
    result_place = emission.residents.allocate(frame, node.result)
    first = 0  # the channel of the result at which the next operand begins
    for value in node.values:
        starts = [first if dim == 1 else 0 for dim in range(len(shape))]
        target = result_place.sliced(value.shape, starts, (1,) * len(shape))
        _place_operand(emission, value, target)
        first += value.shape[1]
    emission.places[node.result.number] = [result_place]
    return True


def emit_returned_concatenation(emission: Emission, node: Node) -> bool:
    """Emit a concatenation that is an output with an operand on the chip; False for others.

    The operand is written to its part of the result directly, instead of to HBM and then copied.
    """
    if not emission.facts.is_output(node.result) or not all(node.result.shape):
        return False
    parts = [(value, emission.materialize(value)[0]) for value in node.values if all(value.shape)]
    if not any(place.is_on_chip for _, place in parts):
        return False
    dim = node.operation.dim if isinstance(node.operation, Concatenate) else 0
    output = tiles.output(node.result.shape, node.result.dtype)
    # `first` is the index along `dim` at which the next operand begins in the result.
    result_place, first = in_hbm(output, node.result.shape), 0
    for value, place in parts:
        starts = [first if axis == dim else 0 for axis in range(len(value.shape))]
        write_all(place, value, result_place.sliced(value.shape, starts, (1,) * len(starts)))
        first += value.shape[dim]
    emission.places[node.result.number] = [result_place]
    return True


def _is_of_images(emission: Emission, node: Node) -> bool:
    """True if a convolution or pooling reads the result, or an elementwise function of it."""
    pending, visited = [node.result], set[int]()
    while pending:
        value = pending.pop()
        if value.number in visited:
            continue
        visited.add(value.number)
        for reader in emission.facts.readers(value):
            if is_by_channels(reader, value):
                return True
            if reader.kind is Kind.ELEMENTWISE and reader.result.shape == value.shape:
                pending.append(reader.result)
    return False


def _place_operand(emission: Emission, value: Value, target: TensorPlace) -> None:
    """Put a value into `target`, its part of the result: computed there, or copied."""
    frame = Frame(value.shape, (1,), (0, *range(2, len(value.shape))))
    if _try_compute_in_place(emission, value, target, frame):
        return
    source = _source_place(emission, value, frame)
    for span in tile_spans(frame, 0, frame.columns, 1, _TRANSFER_ELEMENTS):
        if source.is_on_chip:
            _copy_from_chip(source, target, frame, span)
        else:
            _copy_from_hbm(source, target, frame, span)


def _try_compute_in_place(
    emission: Emission, value: Value, target: TensorPlace, frame: Frame
) -> bool:
    """Compute a value straight into its part of the result; False if it has to be copied there.

    It has to be copied if it is not computed now, or has other readers. A value whose frame is not
    `frame`, or whose part does not begin at a block, is computed now into a place of its own.
    """
    places = emission.places.get(value.number)
    node = emission.facts.producers.get(value.number)
    if node is None or (places is not None and not places[0].is_pending):
        return False
    is_shared = emission.facts.uses.get(value.number, 0) > 1
    if is_shared or is_view(node) or (places is None and node.kind is not Kind.ELEMENTWISE):
        return False
    if emission.unconverted_place(value) is not None:  # its operand is copied, and so converted
        return False
    evaluation = Evaluation(emission, value, places[0] if places else None)
    starts_block = not target.is_on_chip or target.offset[0] % frame.block == 0
    if starts_block and evaluation.frame == frame:
        evaluation.fill(target)
        return True
    emission.places[value.number] = [evaluation.run()]
    return False


def _source_place(emission: Emission, value: Value, frame: Frame) -> TensorPlace:
    """A place of a value: in HBM, or in SBUF with channels along the partitions."""
    unconverted = emission.unconverted_place(value)
    if unconverted is not None:
        return unconverted
    for place in emission.materialize(value):
        if not place.is_on_chip or is_aligned(place, frame):
            return place
    return in_hbm(emission.dense(value), value.shape)


def _copy_from_chip(source: TensorPlace, target: TensorPlace, frame: Frame, span: TileSpan) -> None:
    """Copy a span from SBUF to HBM or SBUF."""
    dtype = source.storage.tile.dtype
    part = slice_of(source, frame, span)
    if part is None or part.shape[2] != span.columns:
        part = load_tile(source, frame, span, dtype)
    if not target.is_on_chip:
        write_span(target, frame, span, part)
        return
    first = span.block * frame.block
    for row, count, dst in _target_views(target, first, span.partitions, span.start, span.columns):
        src = part[row : row + count, 0]
        if (target.offset[0] + first + row) % target.storage.block == row:
            nisa.tensor_copy(dst=dst, src=src)
        else:
            nisa.dma_copy(dst=dst, src=src)


def _copy_from_hbm(source: TensorPlace, target: TensorPlace, frame: Frame, span: TileSpan) -> None:
    """Copy a span from HBM to HBM or SBUF."""
    first = span.block * frame.block
    # `row` and `at` count from the first row and column of the span, `piece` from `row`.
    p_axes, f_axes = axes_along(source, frame.p_dims), axes_along(source, frame.f_dims)
    for row, rows, p_begin, p_step in runs(p_axes, first, span.partitions, 1):
        for at, length, f_begin, f_step in runs(f_axes, span.start, span.columns, 1):
            begin = source.offset[0] + p_begin[0] + f_begin[0]
            views = _target_views(target, first + row, rows, span.start + at, length)
            for piece, count, dst in views:
                pattern = [(p_step[0], count), (f_step[0], length)]
                view = tiles.strided(source.storage, pattern, begin + piece * p_step[0])
                nisa.dma_copy(dst=dst, src=view)


def _target_views(
    target: TensorPlace, row: int, rows: int, start: int, columns: int
) -> Iterator[tuple[int, int, Any]]:
    """Views of `rows` rows of a target from `row` on, and of `columns` columns from `start` on.

    Yields (first row, counted from `row`; number of rows; view): one for each block in SBUF, and
    one for all rows in HBM.
    """
    if not target.is_on_chip:
        step = target.storage.shape[1]
        offset = target.offset[0] + row * step + start
        yield 0, rows, tiles.strided(target.storage, [(step, rows), (1, columns)], offset)
        return
    matrix, at = target.storage, 0
    while at < rows:
        block, partition = divmod(target.offset[0] + row + at, matrix.block)
        count = min(rows - at, matrix.block - partition)
        yield at, count, matrix.tile[partition : partition + count, block, start : start + columns]
        at += count
