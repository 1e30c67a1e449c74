"""What a computation reads: where it lies, and its tile of a span."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Value
from trnsim.lower.emit.places.framing import covers
from trnsim.lower.emit.places.paths import Path, along, back
from trnsim.lower.emit.places.placed import Placed, in_hbm
from trnsim.lower.emit.places.turning import is_straight
from trnsim.lower.emit.places.walk import (
    MANY,
    Frame,
    Span,
    filled,
    is_aligned,
    is_movable,
    is_scattered,
    slice_of,
    transfers,
)
from trnsim.lower.kernels.tiles import Tensor

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission


_CHUNK: Final = 2048
"""Columns that are loaded at once where spans are shorter: rows of 4 KiB of 16-bit elements."""
_CHUNKS_BYTES: Final = 32 * 1024
"""Bytes of a partition for such columns of all blocks."""


class Leaves:
    """The values that a computation begins from.

    Attributes:
        emission: the program.
        leaves: where each lies, in the shape that is computed, by its number and its path there.
        frame: the layout in which it is computed.
    """

    frame: Frame

    def __init__(self, emission: Emission) -> None:
        self.emission = emission
        self.leaves: dict[tuple[int, Path], Placed] = {}
        self._values: dict[int, Value] = {}
        self._columns: dict[Any, Tensor] = {}
        self._parts: dict[Any, Tensor] = {}
        self._strip: Span | None = None
        self._chunks: dict[Any, tuple[int, Tensor]] = {}

    def _in_order(self, number: int, path: Path) -> Placed:
        """A leaf in HBM, in row-major order of what is computed, or of what that is a view of."""
        value = self._values[number]
        placed = along(path, in_hbm(self.emission.dense(value), value.shape))
        if placed is None:
            last = self.emission.facts.viewed(value, path)
            placed = in_hbm(self.emission.dense(last), last.shape)
        return placed

    def fetched(self, key: tuple[int, Path], span: Span) -> Tensor:
        """A leaf's tile."""
        placed = self.leaves[key]
        if placed.is_pending:
            return placed.storage.tile(span)
        if is_aligned(placed, self.frame):
            found = slice_of(placed, self.frame, span)
            if found is not None:
                return found
        period = self.emission.constants.periodic(key[0], placed, self.frame)
        if period is not None:
            end = span.start + span.columns if period.shape[2] > 1 else 1
            return period[: span.partitions, :, min(span.start, end - 1) : end]
        if not moves(placed, self.frame.f_dims):
            return self._column(key, placed, span)
        here = self._nearer(key, placed)
        if here == placed:
            return self._filled(key, placed, span)
        self.leaves[key] = here
        return self.fetched(key, span)

    def _nearer(self, key: tuple[int, Path], placed: Placed) -> Placed:
        """A leaf where transfers find it in the frame: in order in HBM, or turned."""
        is_movable_across = covers(placed) and is_movable(placed, self.frame.flipped())
        if not is_movable(placed, self.frame) and not is_movable_across:
            return self._in_order(*key)
        if is_scattered(placed, self.frame) or transfers(placed, self.frame) > MANY:
            return self._in_order(*key)
        if not covers(placed) or is_straight(placed, self.frame):
            return placed
        here = self.emission.residents.reframed(placed, self.frame)
        self._reused(key, here)
        return here

    def _reused(self, key: tuple[int, Path], placed: Placed) -> None:
        """Note where a leaf now lies too."""
        number, path = key
        value = self._values[number]
        for node in reversed(path):
            before = back(node, placed)
            if before is None:
                return
            placed = before
        self.emission.add_place(value, placed)

    def _column(self, key: tuple[int, Path], placed: Placed, span: Span) -> Tensor:
        """A leaf that is one number to a partition, of all blocks at once."""
        if key not in self._columns:
            self._columns[key] = self.emission.constants.column(key[0], placed, self.frame)
        return self._columns[key][: span.partitions, span.block : span.block + span.blocks]

    def _filled(self, key: tuple[int, Path], placed: Placed, span: Span) -> Tensor:
        """A leaf's elements moved by transfers; once where many spans read them."""
        is_row = not any(any(placed.steps[dim]) for dim in self.frame.p_dims)
        blocks = span.blocks if is_row else (span.block, span.blocks)
        short = (*key, blocks, span.partitions, span.start, span.columns)
        if short in self._columns:
            return self._columns[short]
        dtype = placed.storage.tile.dtype if placed.is_on_chip else placed.storage.dtype
        strip = self._strip
        if strip is not None and not is_row and strip.columns > span.columns:
            if key not in self._parts:
                self._parts[key] = filled(placed, self.frame, strip, dtype)
            part, at = self._parts[key], span.start - strip.start
            return part if part.shape[2] == 1 else part[:, :, at : at + span.columns]
        if not is_row and not placed.is_on_chip:
            found = self._of_chunk(key, placed, span)
            if found is not None:
                return found
        made = filled(placed, self.frame, span, dtype)
        if is_row:
            self._columns[short] = made
        return made

    def _of_chunk(self, key: tuple[int, Path], placed: Placed, span: Span) -> Tensor | None:
        """A part of columns that are loaded with their neighbours, as longer rows come faster."""
        start = span.start // _CHUNK * _CHUNK
        count = min(_CHUNK, self.frame.columns - start)
        nbytes = self.frame.blocks * _CHUNK * placed.storage.dtype.itemsize
        is_part = span.blocks == 1 and span.columns < count and nbytes <= _CHUNKS_BYTES
        if not is_part or span.start + span.columns > start + count:
            return None
        first, tile = self._chunks.get((key, span.block), (-1, None))
        if first != start:
            whole = replace(span, start=start, columns=count)
            tile = filled(placed, self.frame, whole, placed.storage.dtype)
            if tile.shape[2] != count:
                return None
            self._chunks[key, span.block] = start, tile
        at = span.start - start
        return tile[:, :, at : at + span.columns]


def moves(placed: Placed, dims: tuple[int, ...]) -> bool:
    """Whether a leaf's elements differ along some dimensions."""
    return any(any(placed.steps[dim]) for dim in dims if placed.shape[dim] > 1)
