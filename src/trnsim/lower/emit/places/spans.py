"""Spans of a frame: the parts that one instruction or one transfer covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from trnsim.lower.emit.places.walk import Frame, TileSpan
from trnsim.lower.kernels import tiles


def tile_spans(
    frame: Frame, start: int, columns: int, longest: int, max_columns: int
) -> Iterator[TileSpan]:
    """The spans of `columns` columns from `start` on, each of at most `max_columns` columns.

    A span with all columns of the frame may have several blocks: at most `longest` elements of each
    partition.
    """
    full_blocks, last_rows = divmod(frame.rows, frame.block)
    groups = [(0, full_blocks, frame.block)] if full_blocks else []
    groups += [(full_blocks, 1, last_rows)] if last_rows else []
    width = min(columns, max_columns)
    for first, count, partitions in groups:
        blocks_at_once = max(1, longest // width) if width == frame.columns else 1
        for block, blocks in tiles.pieces(count, blocks_at_once):
            for at, length in tiles.pieces(columns, width):
                yield TileSpan(first + block, blocks, partitions, start + at, length)


_FEWEST_HBM_SPANS: Final = 16
"""Fewest spans of operands from HBM, so that one is loaded while another is computed."""


def span_elements(frame: Frame, longest: int) -> int:
    """Elements per partition of a span: at most `longest`, and few enough for 16 spans."""
    return min(longest, max(frame.blocks // _FEWEST_HBM_SPANS, 1) * frame.columns)


def group_spans(
    pieces: Iterable[TileSpan], max_columns: int, max_blocks: int = 1
) -> Iterator[list[TileSpan]]:
    """Neighbouring spans in groups: spans of one block, or spans of equal columns in several.

    Args:
        pieces: the spans; those of several blocks have all columns of the frame.
        max_columns: maximum columns of a group.
        max_blocks: maximum blocks of a group.
    """
    strip: list[TileSpan] = []
    for span in pieces:
        if strip and not (
            _is_beside(strip, span, max_columns)
            or (len(strip) < max_blocks and _is_below(strip, span, max_columns))
        ):
            yield strip
            strip = []
        strip.append(span)
    if strip:
        yield strip


def _is_beside(strip: list[TileSpan], span: TileSpan, max_columns: int) -> bool:
    """True if a span follows a group in the same block."""
    first, last = strip[0], strip[-1]
    is_next = span.block == first.block and span.start == last.start + last.columns
    return is_next and span.start + span.columns - first.start <= max_columns


def _is_below(strip: list[TileSpan], span: TileSpan, max_columns: int) -> bool:
    """True if a span has the columns of a group's spans, in the next block."""
    next_below = replace(strip[-1], block=strip[-1].block + 1)
    return (
        span == next_below and span.blocks == 1 and (len(strip) + 1) * span.columns <= max_columns
    )


def merged_span(strip: list[TileSpan]) -> TileSpan:
    """Neighbouring spans as one span."""
    if len(strip) == 1:
        return strip[0]
    if strip[0].block != strip[-1].block:
        return replace(strip[0], blocks=len(strip))
    return replace(strip[0], columns=sum(span.columns for span in strip))


_SHORT_ROW_BYTES: Final = 1024
"""A transfer of 128 rows of at most so many bytes takes no longer than its issue."""
_FEWEST_GROUPS: Final = 16
"""Fewest transfers of a result to HBM if each stores several blocks."""


def blocks_together(frame: Frame, itemsize: int) -> int:
    """Blocks of short rows that one transfer stores."""
    are_short = frame.columns * itemsize <= _SHORT_ROW_BYTES
    return max(frame.blocks // _FEWEST_GROUPS, 1) if are_short else 1
