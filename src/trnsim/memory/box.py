"""Boxes: bounding rectangles (rows x bytes) of tiles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Box(NamedTuple):
    """Bounding rectangle of a tile in its storage: rows, and bytes within a row."""

    first_row: int
    last_row: int
    first_byte: int
    last_byte: int

    @property
    def nbytes(self) -> int:
        """Number of bytes in the rectangle."""
        rows = self.last_row - self.first_row + 1
        return rows * (self.last_byte - self.first_byte + 1)

    def overlaps(self, other: Box) -> bool:
        """True if the two rectangles share a byte."""
        return (
            self.first_row <= other.last_row
            and other.first_row <= self.last_row
            and self.first_byte <= other.last_byte
            and other.first_byte <= self.last_byte
        )

    def contains(self, other: Box) -> bool:
        """True if `other` lies within it."""
        return (
            self.first_row <= other.first_row
            and other.last_row <= self.last_row
            and self.first_byte <= other.first_byte
            and other.last_byte <= self.last_byte
        )

    def intersection(self, other: Box) -> Box:
        """The intersection with `other`, which must not be empty."""
        return Box(
            max(self.first_row, other.first_row),
            min(self.last_row, other.last_row),
            max(self.first_byte, other.first_byte),
            min(self.last_byte, other.last_byte),
        )

    def bounding(self, other: Box) -> Box:
        """The bounding rectangle of both."""
        return Box(
            min(self.first_row, other.first_row),
            max(self.last_row, other.last_row),
            min(self.first_byte, other.first_byte),
            max(self.last_byte, other.last_byte),
        )

    def difference(self, other: Box) -> list[Box]:
        """The difference ``self - other``, as at most four rectangles."""
        if not self.overlaps(other):
            return [self]
        first_row, last_row, first_byte, last_byte = self
        top, bottom = max(first_row, other.first_row), min(last_row, other.last_row)
        parts: list[Box] = []
        if first_row < top:
            parts.append(Box(first_row, top - 1, first_byte, last_byte))
        if bottom < last_row:
            parts.append(Box(bottom + 1, last_row, first_byte, last_byte))
        if first_byte < other.first_byte:
            parts.append(Box(top, bottom, first_byte, other.first_byte - 1))
        if other.last_byte < last_byte:
            parts.append(Box(top, bottom, other.last_byte + 1, last_byte))
        return parts

    def difference_all(self, others: Iterable[Box]) -> list[Box]:
        """The difference ``self - others``; `others` lie in it and are disjoint."""
        later_boxes = sorted(others, reverse=True)
        first_rows = {self.first_row, *(box.first_row for box in later_boxes)}
        edges = sorted(first_rows | {self.last_row + 1, *(b.last_row + 1 for b in later_boxes)})
        parts: list[Box] = []
        boxes: list[Box] = []
        first_row_of_gap: dict[tuple[int, int], int] = {}
        for top, next_top in pairwise(edges):
            boxes = [box for box in boxes if box.last_row >= top]
            while later_boxes and later_boxes[-1].first_row == top:
                boxes.append(later_boxes.pop())
            gaps = self._gaps(boxes)
            parts += [
                Box(first_row, top - 1, *gap)
                for gap, first_row in first_row_of_gap.items()
                if gap not in gaps
            ]
            first_row_of_gap = {gap: first_row_of_gap.get(gap, top) for gap in gaps}
            if next_top > self.last_row:
                parts += [Box(row, next_top - 1, *gap) for gap, row in first_row_of_gap.items()]
        return parts

    def _gaps(self, others: list[Box]) -> list[tuple[int, int]]:
        """(first, last) byte of each range of a row that no box of `others` covers."""
        gaps: list[tuple[int, int]] = []
        first_byte = self.first_byte
        for other in sorted(others, key=lambda box: box.first_byte):
            if other.first_byte > first_byte:
                gaps.append((first_byte, other.first_byte - 1))
            first_byte = other.last_byte + 1
        if first_byte <= self.last_byte:
            gaps.append((first_byte, self.last_byte))
        return gaps
