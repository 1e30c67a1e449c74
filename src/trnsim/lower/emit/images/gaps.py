"""Windows over images with gaps, as in a gradient or a transposed convolution.

Between two elements lie `gap` zeros, so windows that start `gap + 1` apart meet elements under the
same taps. All such windows are a phase: a convolution of the image without gaps, whose results are
every (`gap + 1`)-th of the box. Zeros are
neither stored nor multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from trnsim.lower.emit.images.image import WindowBox, WindowGrid


@dataclass(frozen=True, slots=True)
class WindowPhase:
    """Windows of a box that meet elements under the same taps.

    Attributes:
        rows: the windows' rows among those of the box.
        columns: the windows' columns among those of the box.
        taps: (tap, box) for each tap that meets elements; the box has those elements, as
            windows of one element.
    """

    rows: slice
    columns: slice
    taps: tuple[tuple[int, WindowBox], ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """Windows that meet elements under the same taps, along one axis.

    Attributes:
        spots: the positions of these windows among all.
        count: the number of these windows.
        firsts: (tap, element under it) for each tap of the first window that meets an element.
    """

    spots: slice
    count: int
    firsts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Windows one element apart, over an image whose elements are further apart."""

    grid: WindowGrid

    @property
    def dense(self) -> WindowGrid:
        """The grid over the image without gaps, as windows of one element."""
        counts = self.grid.window_counts
        spans = [self._range_met(axis, 0, count) for axis, count in enumerate(counts)]
        lows = [self._low(axis) for axis in (0, 1)]
        return replace(
            self.grid,
            window_counts=(spans[0][1], spans[1][1]),
            kernel=(1, 1),
            low_padding=(lows[0], lows[1]),
            gaps=(0, 0),
            dilations=(1, 1),
        )

    def part(self, part: WindowBox) -> WindowBox:
        """The elements under some windows, in whole rows."""
        first, rows = self._range_met(0, part.row, part.rows)
        return replace(part, row=first, rows=rows, column=0, columns=self.dense.window_counts[1])

    def phases(self, part: WindowBox) -> Iterator[WindowPhase]:
        """The windows of a box by phase, one for each start of windows modulo gap + 1."""
        axes = (self._lines(0, part.row, part.rows), self._lines(1, part.column, part.columns))
        for rows, columns in product(*axes):
            taps = tuple(
                (
                    down * self.grid.kernel[1] + across,
                    WindowBox(part.image, row, column, part.images, rows.count, columns.count),
                )
                for (down, row), (across, column) in product(rows.firsts, columns.firsts)
            )
            yield WindowPhase(rows.spots, columns.spots, taps)

    def _low(self, axis: int) -> int:
        """Zeros before the first element, of the image without gaps."""
        return self.grid.low_padding[axis] // (self.grid.gaps[axis] + 1)

    def _range_met(self, axis: int, start: int, count: int) -> tuple[int, int]:
        """The first element that windows may meet, and how many; at least one."""
        step, low = self.grid.gaps[axis] + 1, self.grid.low_padding[axis]
        end = start + self.grid.reach(axis, count) - 1
        first, last = -((low - start) // step), (end - low) // step
        return first + self._low(axis), max(last - first + 1, 1)

    def _lines(self, axis: int, start: int, count: int) -> Iterator[_Line]:
        """Windows from `start` on along one axis, phase by phase."""
        step, low = self.grid.gaps[axis] + 1, self.grid.low_padding[axis]
        apart = self.grid.dilations[axis]
        for first in range(min(step, count)):
            many = -(-(count - first) // step)
            places = [start + first + tap * apart - low for tap in range(self.grid.kernel[axis])]
            firsts = tuple(
                (tap, place // step + self._low(axis))
                for tap, place in enumerate(places)
                if place % step == 0
            )
            yield _Line(slice(first, first + (many - 1) * step + 1, step), many, firsts)
