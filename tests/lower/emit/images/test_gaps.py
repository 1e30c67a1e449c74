"""Windows over images with gaps, against a walk of every window and tap."""

from itertools import product

import pytest

from trnsim.lower.emit.images.gaps import Gaps
from trnsim.lower.emit.images.image import WindowBox, WindowGeometry

SIGHTS = {
    "side by side": WindowGeometry(2, 3, (4, 5), (8, 10), (2, 2), (1, 1), (1, 1), (1, 1), (1, 1)),
    "with gaps left": WindowGeometry(1, 3, (4, 3), (12, 9), (2, 2), (1, 1), (1, 1), (2, 2), (1, 1)),
    "apart": WindowGeometry(1, 1, (3, 6), (5, 11), (3, 2), (1, 1), (4, -2), (1, 2), (2, 3)),
    "one": WindowGeometry(1, 1, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0), (3, 1), (1, 1)),
}


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_each_window_meets_what_lies_under_its_taps_and_no_gap(sight):
    gaps = Gaps(sight)
    dense = gaps.dense
    part = WindowBox(
        0, 1 % sight.places[0], 0, sight.images, sight.places[0] - 1 or 1, sight.places[1]
    )
    met = {}
    for phase in gaps.phases(part):
        rows = range(part.rows)[phase.rows]
        columns = range(part.columns)[phase.columns]
        for number, seen in phase.taps:
            assert (seen.rows, seen.columns) == (len(rows), len(columns))
            for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
                tap = divmod(number, sight.kernel[1])
                place = (part.row + row, part.column + column, *tap)
                met[place] = (seen.row + i - dense.low[0], seen.column + j - dense.low[1])
    wanted = {}
    for row, column, down, across in product(
        range(part.row, part.row + part.rows), range(part.columns), *map(range, sight.kernel)
    ):
        at = (
            row + down * sight.dilations[0] - sight.low[0],
            column + across * sight.dilations[1] - sight.low[1],
        )
        steps = [gap + 1 for gap in sight.gaps]
        if not any(one % step for one, step in zip(at, steps, strict=True)):
            wanted[row, column, down, across] = at[0] // steps[0], at[1] // steps[1]
    assert met == wanted


@pytest.mark.parametrize("sight", SIGHTS.values(), ids=SIGHTS.keys())
def test_a_band_holds_all_that_its_windows_meet(sight):
    gaps = Gaps(sight)
    for row in range(sight.places[0]):
        part = WindowBox(0, row, 0, 1, min(2, sight.places[0] - row), sight.places[1])
        band = gaps.part(part)
        assert band.rows >= 1
        for phase in gaps.phases(part):
            for _, seen in phase.taps:
                assert band.row <= seen.row
                assert seen.row + seen.rows <= band.row + band.rows
                assert seen.column >= 0
                assert seen.column + seen.columns <= gaps.dense.places[1]
