"""The leaves of a computation: their places, and their tiles of a span."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Value
from trnsim.isa import FREE_DIMENSIONS
from trnsim.lower.emit.computing.gathering import GatheredRows
from trnsim.lower.emit.places.framing import has_no_repeats
from trnsim.lower.emit.places.interleaving import is_interleaved
from trnsim.lower.emit.places.paths import Path, follow, invert_view
from trnsim.lower.emit.places.tensor_place import PendingResult, TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import is_straight
from trnsim.lower.emit.places.walk import (
    MANY_TRANSFERS,
    Frame,
    TileSpan,
    axes_along,
    count_transfers,
    gather_slice,
    has_loadable_columns,
    is_aligned,
    load_tile,
    slice_of,
)
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import Tensor, new

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission


_CHUNK_COLUMNS: Final = 2048
"""Columns of a load that several shorter spans share: rows of 4 KiB of 16-bit elements."""
NEAR_STRIDE: Final = 16
"""Largest stride at which elements are loaded together with the elements between them."""
_STRIDED_LOAD_BYTES: Final = 16 * 1024
"""Maximum bytes of a partition of a load with a stride up to `NEAR_STRIDE`."""
_FEW_PARTITIONS: Final = 32
"""Partitions that a quarter of the DMA engines serves (nki-dma-overview.rst)."""
_MANY_ON_CHIP: Final = 32
"""Maximum transfers within SBUF; a copy to HBM and back takes less time than more of them."""
_MANY_ELEMENTS: Final = 1 << 15
"""Fewest elements of a tensor whose row-major copy takes less time than loads of short runs."""
_CHUNKS_BYTES: Final = 32 * 1024
"""Maximum bytes of a partition for chunks of all blocks."""


class Leaves:
    """The leaves of a fused computation: values that are read, not computed.

    Attributes:
        leaves: (number of a leaf, path of views from it) -> its place, in the shape in which the
            value is computed.
    """

    def __init__(self, emission: Emission) -> None:
        self.emission = emission
        self.leaves: dict[tuple[int, Path], TensorPlace] = {}
        self._values: dict[int, Value] = {}
        self._columns: dict[Any, Tensor] = {}
        self._parts: dict[Any, Tensor] = {}
        self._strip: TileSpan | None = None
        self._is_in_parts = False
        self._chunks: dict[Any, tuple[int, Tensor]] = {}

    @cached_property
    def frame(self) -> Frame:
        """The layout in which the value is computed."""
        raise NotImplementedError

    def is_in_hbm(self) -> bool:
        """True if all leaves lie in HBM."""
        return not any(leaf.is_on_chip or leaf.is_pending for leaf in self.leaves.values())

    def pending_leaves(self) -> list[PendingResult]:
        """The pending results, such as products, among the leaves."""
        return [leaf.storage for leaf in self.leaves.values() if leaf.is_pending]

    def _has_gathered_rows(self) -> bool:
        """True if a leaf is rows that a gather chooses, which are loaded block by block."""
        return any(isinstance(leaf.storage, GatheredRows) for leaf in self.leaves.values())

    def fits_any_frame(self) -> bool:
        """True if the leaves without storage can be generated in every frame."""
        leaves = self.leaves.values()
        return all(leaf.storage.fits_any_frame for leaf in leaves if leaf.is_generated)

    def _dense_leaf(self, number: int, path: Path) -> TensorPlace:
        """A leaf's place in HBM, in the computation's shape, after it is written there densely.

        If no strides view the dense leaf in that shape, its view is written instead.
        """
        value = self._values[number]
        place = follow(path, in_hbm(self.emission.dense(value), value.shape))
        if place is None:
            last = self.emission.facts.follow_path(value, path)
            place = in_hbm(self.emission.dense(last), last.shape)
        return place

    def _ordered_places(self) -> dict[Any, TensorPlace]:
        """The place of each leaf; of a row-major copy if its runs in HBM are short."""
        return {key: self._ordered_place(key, place) for key, place in self.leaves.items()}

    def _ordered_place(self, key: tuple[int, Path], place: TensorPlace) -> TensorPlace:
        """The place of a leaf; of a row-major copy if its runs in HBM are short."""
        if prod(place.shape) < _MANY_ELEMENTS or not is_interleaved(place):
            return place
        number, path = key
        last = self.emission.facts.follow_path(self._values[number], path)
        return in_hbm(self.emission.dense(last), last.shape)

    def leaf_tile(self, key: tuple[int, Path], span: TileSpan) -> Tensor:
        """The tile of a leaf in a span."""
        place = self.leaves[key]
        if self._is_in_parts and not place.is_generated and all(map(any, place.steps)):
            return load_span(place, self.frame, span, place.storage.dtype)
        return self._tile_in_frame(key, place, span)

    def _tile_in_frame(self, key: tuple[int, Path], place: TensorPlace, span: TileSpan) -> Tensor:
        """The tile of a leaf: a view of SBUF if it lies in the frame, else generated or loaded."""
        if place.is_pending or place.is_generated:
            at = (span,) if place.is_pending else (place, self.frame, span)
            is_of_rows = isinstance(place.storage, GatheredRows)
            generated: Tensor | None = (
                self._part_of_strip(key, place, span) if is_of_rows else place.storage.tile(*at)
            )
            if generated is not None:
                return generated
            self.leaves[key] = place = self._dense_leaf(*key)
        if is_aligned(place, self.frame):
            tile = slice_of(place, self.frame, span)
            if tile is None:
                tile = gather_slice(place, self.frame, span)
            if tile is not None:
                return tile
        period = self.emission.constants.periodic_block(key[0], place, self.frame)
        if period is not None:
            end = span.start + span.columns if period.shape[2] > 1 else 1
            return period[: span.partitions, :, min(span.start, end - 1) : end]
        if not varies_along(place, self.frame.f_dims):
            return self._column_tile(key, place, span)
        new_place = place if self._is_in_parts else self._loadable_place(key, place)
        if new_place == place:
            return self._load_leaf(key, place, span)
        self.leaves[key] = new_place
        return self.leaf_tile(key, span)

    def _loadable_place(self, key: tuple[int, Path], place: TensorPlace) -> TensorPlace:
        """The place of a leaf from which transfers can load the frame; a dense or transposed copy.

        A leaf that is not in `self._values` has its own place alone.
        """
        if key[0] not in self._values:
            return place
        if not is_straight(place, self.frame):
            place = self._ordered_place(key, place)
        is_transposable = has_no_repeats(place) and is_aligned(place, self.frame.flipped())
        is_reachable = has_loadable_columns(place, self.frame) or is_transposable
        max_transfers = (
            _MANY_ON_CHIP if place.is_on_chip and not is_transposable else MANY_TRANSFERS
        )
        if not is_reachable or count_transfers(place, self.frame) > max_transfers:
            return self._dense_leaf(*key)
        if (
            not has_no_repeats(place)
            or is_straight(place, self.frame)
            or (has_near_columns(place, self.frame) and not self._is_tall(place))
        ):
            return place
        new_place = self.emission.residents.reframe(place, self.frame)
        self._note_place(key, new_place)
        return new_place

    def _is_tall(self, place: TensorPlace) -> bool:
        """True for long columns on few partitions, which few DMA engines load element by element.

        Such a leaf is loaded with partitions and columns exchanged, and then transposed.
        """
        frame = self.frame
        inner = frame.f_dims[-1]
        reach_bytes = place.shape[inner] * place.steps[inner][0] * place.storage.dtype.itemsize
        return (
            frame.rows <= _FEW_PARTITIONS
            and reach_bytes > _STRIDED_LOAD_BYTES
            and len(axes_along(place, frame.f_dims)) == 1
            and len(axes_along(place, frame.p_dims)) == 1
        )

    def _note_place(self, key: tuple[int, Path], place: TensorPlace) -> None:
        """Record a new place of a leaf for later readers."""
        number, path = key
        value = self._values[number]
        for node in reversed(path):
            operand_place = invert_view(node, place)
            if operand_place is None:
                return
            place = operand_place
        self.emission.add_place(value, place)

    def _column_tile(self, key: tuple[int, Path], place: TensorPlace, span: TileSpan) -> Tensor:
        """The tile of a leaf with one element for each partition, loaded for all blocks at once."""
        if key not in self._columns:
            self._columns[key] = self.emission.constants.column(key[0], place, self.frame)
        return self._columns[key][: span.partitions, span.block : span.block + span.blocks]

    def _load_leaf(self, key: tuple[int, Path], place: TensorPlace, span: TileSpan) -> Tensor:
        """The tile of a leaf, loaded by transfers; a row that spans share is loaded once."""
        is_row = not any(any(place.steps[dim]) for dim in self.frame.p_dims)
        blocks = span.blocks if is_row else (span.block, span.blocks)
        shared_key = (place, self.frame, blocks, span.partitions, span.start, span.columns)
        if shared_key in self._columns:
            return self._columns[shared_key]
        dtype = place.storage.tile.dtype if place.is_on_chip else place.storage.dtype
        strip = self._strip
        if strip is not None and not is_row and strip != span:
            if key not in self._parts:
                self._parts[key] = load_tile(place, self.frame, strip, dtype)
            at, block = span.start - strip.start, span.block - strip.block
            part = self._parts[key][:, block : block + span.blocks]
            return part if part.shape[2] == 1 else part[:, :, at : at + span.columns]
        if not is_row and not place.is_on_chip:
            tile = self._chunk_slice(key, place, span)
            if tile is not None:
                return tile
        if self._is_in_parts:
            tile = load_span(place, self.frame, span, dtype)
        else:
            dense_run = load_near(place, self.frame, span, dtype)
            tile = load_tile(place, self.frame, span, dtype) if dense_run is None else dense_run
        if is_row:
            self._columns[shared_key] = tile
        return tile

    def _part_of_strip(
        self, key: tuple[int, Path], place: TensorPlace, span: TileSpan
    ) -> Tensor | None:
        """A span of generated elements; those of all of its strip are generated together."""
        strip = self._strip
        if strip is None:
            alone: Tensor | None = place.storage.tile(place, self.frame, span)
            return alone
        if key not in self._parts:
            generated: Tensor | None = place.storage.tile(place, self.frame, strip)
            if generated is None:
                return None
            self._parts[key] = generated
        at, block = span.start - strip.start, span.block - strip.block
        return self._parts[key][:, block : block + span.blocks, at : at + span.columns]

    def _chunk_slice(
        self, key: tuple[int, Path], place: TensorPlace, span: TileSpan
    ) -> Tensor | None:
        """A span's columns, cut from a longer chunk that is loaded at once; None for long spans."""
        start = span.start // _CHUNK_COLUMNS * _CHUNK_COLUMNS
        count = min(_CHUNK_COLUMNS, self.frame.columns - start)
        nbytes = self.frame.blocks * _CHUNK_COLUMNS * place.storage.dtype.itemsize
        is_part = span.blocks == 1 and span.columns < count and nbytes <= _CHUNKS_BYTES
        if not is_part or span.start + span.columns > start + count:
            return None
        first, tile = self._chunks.get((key, span.block), (-1, None))
        if first != start:
            chunk = replace(span, start=start, columns=count)
            tile = load_tile(place, self.frame, chunk, place.storage.dtype)
            if tile.shape[2] != count:
                return None
            self._chunks[key, span.block] = start, tile
        at = span.start - start
        return tile[:, :, at : at + span.columns]


def load_span(place: TensorPlace, frame: Frame, span: TileSpan, dtype: Any) -> Tensor:
    """A span's elements; each is loaded from HBM once, and repeated on the chip if necessary.

    Elements with a small stride are loaded with the elements between them, as a transfer takes as
    long for a single element as for a run of hundreds of bytes.
    """
    dims_along = axes_along(place, frame.f_dims)
    if len(dims_along) == 1 and dims_along[0][1] == (1,):
        return load_tile(place, frame, span, dtype)
    moving = [dim for dim in frame.f_dims if any(place.steps[dim])]
    is_repeated = (
        moving and len(dims_along) < FREE_DIMENSIONS and not all(any(n) for _, n in dims_along)
    )
    if is_repeated and span.columns == frame.columns:
        dims = (*frame.p_dims, *moving)
        distinct, distinct_frame = select_dims(place, frame, dims)
        distinct_span = replace(span, columns=distinct_frame.columns)
        tile = load_span(distinct, distinct_frame, distinct_span, dtype)
        shape = (span.partitions, span.blocks)
        view = tile.reshape((*shape, *(n if any(step) else 1 for n, step in dims_along)))
        repeated = copied(view, dtype, new((*shape, *(length for length, _ in dims_along)), dtype))
        return repeated.reshape((*shape, span.columns))
    step = dims_along[0][1][0] if len(dims_along) == 1 else 1
    reach = (span.columns - 1) * step + 1
    if not 1 < step <= NEAR_STRIDE or reach * dtype.itemsize > _STRIDED_LOAD_BYTES:
        dense_run = load_near(place, frame, span, dtype)
        return load_tile(place, frame, span, dtype) if dense_run is None else dense_run
    wide, frame_wide = select_dims(place, frame, frame.p_dims, frame.columns * step)
    dense_run = load_tile(
        wide, frame_wide, replace(span, start=span.start * step, columns=reach), dtype
    )
    return copied(dense_run[:, :, ::step], dtype)


def has_near_columns(place: TensorPlace, frame: Frame) -> bool:
    """True if the last dimension of a frame's columns has a small stride in HBM."""
    if place.is_on_chip or place.is_generated or place.is_pending or not frame.f_dims:
        return False
    inner = frame.f_dims[-1]
    return place.shape[inner] > 1 and 1 < place.steps[inner][0] <= NEAR_STRIDE


def load_near(place: TensorPlace, frame: Frame, span: TileSpan, dtype: Any) -> Tensor | None:
    """A span whose last dimension has a small stride in HBM, loaded with the elements between.

    Whole rows are loaded, even if the span has only a part of them. None for other strides, and for
    rows that take too much of SBUF.
    """
    if not has_near_columns(place, frame):
        return None
    inner = frame.f_dims[-1]
    width, (step,) = place.shape[inner], place.steps[inner]
    first, reach = span.start // width, (width - 1) * step + 1
    rows = -(-(span.start + span.columns) // width) - first
    if rows * reach * span.blocks * dtype.itemsize > _STRIDED_LOAD_BYTES:
        return None
    dims = (*frame.p_dims, *(dim for dim in frame.f_dims if dim != inner))
    wide, frame_wide = select_dims(place, frame, dims, reach)
    row_span = replace(span, start=first * reach, columns=rows * reach)
    dense_run = load_tile(wide, frame_wide, row_span, dtype)
    shape = (span.partitions, span.blocks, rows, width)
    picks = dense_run.reshape((*shape[:3], reach))[:, :, :, ::step]
    lines = copied(picks, dtype, new(shape, dtype)).reshape((*shape[:2], rows * width))
    start = span.start - first * width
    return lines[:, :, start : start + span.columns]


def select_dims(
    place: TensorPlace, frame: Frame, dims: tuple[int, ...], reach: int = 0
) -> tuple[TensorPlace, Frame]:
    """A place and its frame with the dimensions `dims` alone, and a last one of `reach` elements.

    The last dimension is contiguous in HBM; `reach` 0 adds none.
    """
    lengths = [(place.shape[dim], place.steps[dim]) for dim in dims]
    lengths += [(reach, (1,))] if reach else []
    shape, steps = (tuple(column) for column in zip(*lengths, strict=True))
    rows = len(frame.p_dims)
    new_frame = Frame(shape, tuple(range(rows)), tuple(range(rows, len(shape))), frame.block)
    return TensorPlace(place.storage, shape, steps, place.offset), new_frame


def varies_along(place: TensorPlace, dims: tuple[int, ...]) -> bool:
    """True if a leaf's elements differ along some dimensions."""
    return any(any(place.steps[dim]) for dim in dims if place.shape[dim] > 1)
