"""Padding of images on the chip, and sums of padded images such as the gradient of a pooling.

Images in SBUF with channels along the partitions are padded there: engines copy whole rows, but a
transfer would move elements with zeros between them one by one. The terms of a sum of padded images
are not padded: each is added to the elements of the sum to which padding would move it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.layout import Pad
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.computing.evaluation import Evaluation
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.image import fill_padding
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    gather_slice,
    is_aligned,
    load_tile,
    slice_of,
    write_span,
)
from trnsim.lower.emit.window_sums import (
    IMAGE_RANKS,
    OUTER_DIMS,
    image_pair,
    is_of_windows,
    partition_dims,
)
from trnsim.lower.kernels import movement, tiles
from trnsim.lower.kernels.balance import balanced
from trnsim.lower.kernels.instructions import binary, copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_SUM_BYTES: Final = 48 * 1024
"""Most bytes of a partition for images that are added up at once."""
_SPAN_ELEMENTS: Final = 2048
"""Elements of a partition that are added at once, or one row if that is longer."""


@emitter(Pad)
def pad(emission: Emission, node: Node) -> None:
    """Emit a padding: of images in SBUF if they fit there, else from HBM to HBM."""
    sums = emission.facts.window_sums
    if node.result.number in sums.inner:
        root = sums.roots[node.result.number]
        _add_windows(emission, root, sums.parts[root.number])
    elif not _pad_on_chip(emission, node):
        emission.run_kernel(movement.pad, node)


@dataclass(frozen=True, slots=True)
class _DataRange:
    """The elements of an axis that padding keeps.

    Attributes:
        first: index of the first one in the operand.
        count: number of elements.
        start: index of the first one in the result.
        step: distance from one to the next in the result.
    """

    first: int
    count: int
    start: int
    step: int

    def operand_indices(self) -> slice:
        """The indices of these elements in the operand."""
        return slice(self.first, self.first + self.count)

    def places(self, first: int, count: int) -> slice:
        """The indices in the result of `count` elements from index `first` of the operand on."""
        at = self.start + (first - self.first) * self.step
        return slice(at, at + (count - 1) * self.step + 1, self.step)


def _data_ranges(node: Node) -> tuple[_DataRange, _DataRange]:
    """The rows and columns that a padding keeps; a sequence is an image of one row."""
    operation: Any = node.operation
    ranges: list[_DataRange] = (
        [] if len(node.result.shape) > IMAGE_RANKS[0] else [_DataRange(0, 1, 0, 1)]
    )
    for dim in range(OUTER_DIMS, len(node.result.shape)):
        low, step = operation.low[dim], operation.interior[dim] + 1
        first = max(-(low // step), 0)
        end = min(node.values[0].shape[dim], -((low - node.result.shape[dim]) // step))
        ranges.append(_DataRange(first, max(end - first, 0), low + first * step, step))
    return ranges[0], ranges[1]


def _image_size(value: Value) -> tuple[int, int]:
    """Rows and columns of an image; a sequence is an image of one row."""
    return image_pair(value.shape[OUTER_DIMS:], 1)


def _frame(value: Value, p_dims: tuple[int, ...]) -> Frame:
    """The frame with the dimensions `p_dims` along the partitions, the others along the columns."""
    others = tuple(dim for dim in range(len(value.shape)) if dim not in p_dims)
    return Frame(value.shape, p_dims, others)


def _pad_on_chip(emission: Emission, node: Node) -> bool:
    """Pad images in SBUF, if SBUF holds the result and windows read it; else False."""
    (operand,), result = node.values, node.result
    image = _image_place(emission, operand) if is_of_windows(emission.facts, node) else None
    if image is None:
        return False
    place, p_dims = image
    frame, source_frame = _frame(result, p_dims), _frame(operand, p_dims)
    nbytes = frame.blocks * frame.columns * ITEM_BYTES[result.dtype]
    if nbytes > emission.residents.free_bytes():
        return False
    blocks = [
        TileSpan(block, 1, min(P, source_frame.rows - block * P), 0, source_frame.columns)
        for block in range(source_frame.blocks)
    ]
    on_chip = [_columns_of(place, source_frame, span) for span in blocks if place.is_on_chip]
    if None in on_chip:
        return False
    padded = emission.residents.allocate(frame, result)
    with balanced():
        for number, span in enumerate(blocks):
            source = on_chip[number] if on_chip else None
            if source is None:
                source = load_tile(place, source_frame, span, place.storage.dtype)
            _pad_block(node, source[:, 0], padded.storage.tile[: span.partitions, number])
    emission.places[result.number] = [padded]
    return True


def _image_place(emission: Emission, operand: Value) -> tuple[TensorPlace, tuple[int, ...]] | None:
    """The place of images that are padded, and the dimensions along the partitions.

    None unless the images lie in SBUF by channels, or row-major in HBM in blocks that are small
    enough to be loaded at once.
    """
    places, by_channels = emission.materialize(operand), partition_dims(operand.shape)
    for place in places:
        for p_dims in ((1,), (0, 1)):
            if is_aligned(place, _frame(operand, p_dims)):
                return place, p_dims
    if _frame(operand, by_channels).columns * ITEM_BYTES[operand.dtype] > _SUM_BYTES:
        return None
    stored = (place for place in places if not (place.is_on_chip or place.is_generated))
    dense = (place for place in stored if place == in_hbm(place.storage, operand.shape))
    return next(((place, by_channels) for place in dense), None)


def _columns_of(place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor | None:
    """The tile of a span of an aligned place: a view or a copy; None if neither has all columns."""
    tile = slice_of(place, frame, span)
    if tile is None:
        tile = gather_slice(place, frame, span)
    return tile if tile is not None and tile.shape[2] == span.columns else None


def _pad_block(node: Node, source: Tensor, target: Tensor) -> None:
    """Copy a block of channels [channels, elements] into `target`, and fill its padding."""
    operation: Any = node.operation
    (operand,), channels = node.values, source.shape[0]
    images = source.shape[1] // prod(_image_size(operand))
    rows, columns = _data_ranges(node)
    target = target.reshape((channels, images, *_image_size(node.result)))
    source = source.reshape((channels, images, *_image_size(operand)))
    sides = [(axis.start, axis.count, axis.step) for axis in (rows, columns)]
    fill_padding(target, sides[0], sides[1], operation.number)
    if not rows.count or not columns.count:
        return
    data = source[:, :, rows.operand_indices(), columns.operand_indices()]
    places = target[:, :, rows.places(rows.first, rows.count)]
    places = places[:, :, :, columns.places(columns.first, columns.count)]
    together = max(_SPAN_ELEMENTS // (rows.count * columns.count), 1)
    for first, count in tiles.pieces(images, together):
        copied(data[:, first : first + count], target.dtype, places[:, first : first + count])


# Sums of padded images


def _add_windows(emission: Emission, sum_: Value, parts: Sequence[Node]) -> None:
    """Emit a sum of padded images: each part's elements are added where padding would move them."""
    p_dims = partition_dims(sum_.shape)
    frame = _frame(sum_, p_dims)
    evaluations = [_evaluation(emission, part.values[0], p_dims) for part in parts]
    if emission.facts.is_output_only(sum_):
        place = in_hbm(tiles.output(sum_.shape, sum_.dtype), sum_.shape)
    else:
        place = emission.residents.allocate(frame, sum_)
    image_bytes = prod(_image_size(sum_)) * ITEM_BYTES[sum_.dtype]
    images = frame.columns // prod(_image_size(sum_))
    together = max(_SUM_BYTES // image_bytes, 1)
    with balanced():
        for block in range(frame.blocks):
            for first, count in tiles.pieces(images, together):
                box = _ImageBox(block, min(P, frame.rows - block * P), first, count)
                _add_block(frame, place, box, list(zip(parts, evaluations, strict=True)))
    for number in (sum_.number, *(part.result.number for part in parts)):
        emission.places[number] = [place]


def _evaluation(emission: Emission, value: Value, p_dims: tuple[int, ...]) -> Evaluation:
    """The computation of a value that is padded, in the frame of the sum."""
    evaluation = Evaluation(emission, value, is_stored=False)
    if evaluation.pending_leaves():
        emission.materialize(value)
        evaluation = Evaluation(emission, value, is_stored=False)
    evaluation.frame = _frame(value, p_dims)
    return evaluation


@dataclass(frozen=True, slots=True)
class _ImageBox:
    """`count` images from number `first` on, in the first `partitions` of a block of partitions."""

    block: int
    partitions: int
    first: int
    count: int


def _add_block(
    frame: Frame, place: TensorPlace, box: _ImageBox, parts: Sequence[tuple[Node, Evaluation]]
) -> None:
    """Compute the sum for a box of images."""
    size = _image_size(parts[0][0].result)
    span = TileSpan(box.block, 1, box.partitions, box.first * prod(size), box.count * prod(size))
    total: Any = slice_of(place, frame, span) if place.is_on_chip else None
    if total is None:
        total = new((span.partitions, 1, span.columns), place.storage.dtype)
    nisa.memset(dst=total, value=0.0)
    images = total[:, 0].reshape((box.partitions, box.count, *size))
    for node, evaluation in parts:
        _add_part(node, evaluation, images, box)
    if not place.is_on_chip:
        write_span(place, frame, span, total)


def _add_part(node: Node, evaluation: Evaluation, images: Tensor, box: _ImageBox) -> None:
    """Add the elements of one term, several images or several rows of an image at a time."""
    (high, wide), (rows, columns) = _image_size(node.values[0]), _data_ranges(node)
    if not rows.count or not columns.count:
        return
    images_together = _SPAN_ELEMENTS // (rows.count * wide)
    lines = rows.count if images_together else max(_SPAN_ELEMENTS // wide, 1)
    for image, count in tiles.pieces(box.count, max(images_together, 1)):
        for at, many in tiles.pieces(rows.count, lines):
            # Several images are read with all of their rows, as they lie.
            row, read = (0, high) if count > 1 else (rows.first + at, many)
            start = (box.first + image) * high * wide + row * wide
            elements = ((count - 1) * high + read) * wide
            tile = evaluation.tile(TileSpan(box.block, 1, box.partitions, start, elements))
            if tile.shape[1:] != (1, elements):
                tile = copied(tile, tile.dtype, new((box.partitions, 1, elements), tile.dtype))
            tile = tile[:, 0].reshape((box.partitions, count, read, wide))
            first = rows.first + at - row
            tile = tile[:, :, first : first + many, columns.operand_indices()]
            target = images[:, image : image + count, rows.places(rows.first + at, many)]
            target = target[:, :, :, columns.places(columns.first, columns.count)]
            binary(target, nl.add, target, tile)
