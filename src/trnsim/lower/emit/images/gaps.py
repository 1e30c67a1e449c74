"""Windows over images with gaps, as in a gradient or a transposed convolution.

A tap is a position within a window. Between two neighbouring elements of the image lie `gap` zeros,
so windows that start `gap + 1` apart have elements under the same taps, and zeros under the others.
Such windows are a phase: a convolution of the image without gaps, by these taps alone, that gives
every ``(gap + 1)``-th result. Zeros are neither stored nor multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from trnsim.lower.emit.images.image import WindowBox, WindowGrid


@dataclass(frozen=True, slots=True)
class WindowPhase:
    """Windows of a box that have elements, not zeros, under the same taps.

    Attributes:
        rows: the rows of the box that they are in.
        columns: the columns of the box that they are in.
        taps: (number, box) of each tap with elements; the box has the elements under it, as windows
            of one element of the grid `Gaps.dense`.
    """

    rows: slice
    columns: slice
    taps: tuple[tuple[int, WindowBox], ...]


@dataclass(frozen=True, slots=True)
class _AxisPhase:
    """The windows of a phase along one axis.

    Attributes:
        windows: their positions among the windows of the box.
        count: the number of windows.
        taps: (position in a window, element under it in the phase's first window) of each tap with
            elements.
    """

    windows: slice
    count: int
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Windows of stride 1 over an image with gaps between its elements."""

    grid: WindowGrid

    @property
    def dense(self) -> WindowGrid:
        """The grid over the image without gaps, as windows of one element."""
        counts = self.grid.window_counts
        ranges = [self._first_and_count(axis, 0, count) for axis, count in enumerate(counts)]
        lows = [self._low(axis) for axis in (0, 1)]
        return replace(
            self.grid,
            window_counts=(ranges[0][1], ranges[1][1]),
            kernel=(1, 1),
            low_padding=(lows[0], lows[1]),
            gaps=(0, 0),
            dilations=(1, 1),
        )

    def elements_under(self, box: WindowBox) -> WindowBox:
        """The box of the elements under a box of windows, in whole rows."""
        first, rows = self._first_and_count(0, box.row, box.rows)
        return replace(box, row=first, rows=rows, column=0, columns=self.dense.window_counts[1])

    def phases(self, box: WindowBox) -> Iterator[WindowPhase]:
        """The phases of a box of windows: at most ``gap + 1`` along each axis."""
        axes = (
            self._axis_phases(0, box.row, box.rows),
            self._axis_phases(1, box.column, box.columns),
        )
        for rows, columns in product(*axes):
            taps = tuple(
                (
                    tap_row * self.grid.kernel[1] + tap_column,
                    WindowBox(box.image, row, column, box.images, rows.count, columns.count),
                )
                for (tap_row, row), (tap_column, column) in product(rows.taps, columns.taps)
            )
            yield WindowPhase(rows.windows, columns.windows, taps)

    def _low(self, axis: int) -> int:
        """Zeros before the first element of `dense`, the image without gaps."""
        return self.grid.low_padding[axis] // (self.grid.gaps[axis] + 1)

    def _first_and_count(self, axis: int, start: int, count: int) -> tuple[int, int]:
        """The first element under `count` windows from `start` on, and the number of elements.

        The number is at least 1, so that no box is empty.
        """
        step, low = self.grid.gaps[axis] + 1, self.grid.low_padding[axis]
        end = start + self.grid.reach(axis, count) - 1
        first, last = -((low - start) // step), (end - low) // step
        return first + self._low(axis), max(last - first + 1, 1)

    def _axis_phases(self, axis: int, start: int, count: int) -> Iterator[_AxisPhase]:
        """The phases of `count` windows from `start` on along one axis."""
        step, low = self.grid.gaps[axis] + 1, self.grid.low_padding[axis]
        dilation, taps = self.grid.dilations[axis], range(self.grid.kernel[axis])
        for first in range(min(step, count)):
            windows = -(-(count - first) // step)
            positions = [start + first + tap * dilation - low for tap in taps]
            taps_with_elements = tuple(
                (tap, position // step + self._low(axis))
                for tap, position in enumerate(positions)
                if position % step == 0
            )
            end = first + (windows - 1) * step + 1
            yield _AxisPhase(slice(first, end, step), windows, taps_with_elements)
