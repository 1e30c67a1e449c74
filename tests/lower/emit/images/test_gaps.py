"""Windows over images with gaps, against a walk of every window and tap."""

from itertools import product

import pytest

from trnsim.lower.emit.images.gaps import Gaps
from trnsim.lower.emit.images.image import WindowBox, WindowGrid

GRIDS = {
    "side by side": WindowGrid(2, 3, (4, 5), (8, 10), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)),
    "with gaps left": WindowGrid(1, 3, (4, 3), (12, 9), (2, 2), (1, 1), (1, 1), (2, 2), (1, 1)),
    "apart": WindowGrid(1, 1, (3, 6), (5, 11), (3, 2), (1, 1), (4, -2), (1, 2), (2, 3)),
    "one": WindowGrid(1, 1, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (3, 1), (1, 1)),
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_each_window_meets_what_lies_under_its_taps_and_no_gap(grid):
    gaps = Gaps(grid)
    dense = gaps.dense
    part = WindowBox(
        0,
        1 % grid.window_counts[0],
        0,
        grid.images,
        grid.window_counts[0] - 1 or 1,
        grid.window_counts[1],
    )
    met = {}
    for phase in gaps.phases(part):
        rows = range(part.rows)[phase.rows]
        columns = range(part.columns)[phase.columns]
        for number, seen in phase.taps:
            assert (seen.rows, seen.columns) == (len(rows), len(columns))
            for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
                tap = divmod(number, grid.kernel[1])
                place = (part.row + row, part.column + column, *tap)
                top, left = dense.low_padding
                met[place] = (seen.row + i - top, seen.column + j - left)
    wanted = {}
    for row, column, down, across in product(
        range(part.row, part.row + part.rows), range(part.columns), *map(range, grid.kernel)
    ):
        at = (
            row + down * grid.dilations[0] - grid.low_padding[0],
            column + across * grid.dilations[1] - grid.low_padding[1],
        )
        steps = [gap + 1 for gap in grid.gaps]
        if not any(one % step for one, step in zip(at, steps, strict=True)):
            wanted[row, column, down, across] = at[0] // steps[0], at[1] // steps[1]
    assert met == wanted


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_a_band_holds_all_that_its_windows_meet(grid):
    gaps = Gaps(grid)
    for row in range(grid.window_counts[0]):
        part = WindowBox(0, row, 0, 1, min(2, grid.window_counts[0] - row), grid.window_counts[1])
        band = gaps.elements_under(part)
        assert band.rows >= 1
        for phase in gaps.phases(part):
            for _, seen in phase.taps:
                assert band.row <= seen.row
                assert seen.row + seen.rows <= band.row + band.rows
                assert seen.column >= 0
                assert seen.column + seen.columns <= gaps.dense.window_counts[1]
