"""The arithmetic of one dimension of a grid."""

import pytest

from trnsim.nki.language.grids.axis import GridAxis, Span

PLAIN = GridAxis.tiles(10, 4, 8, 32)
"""Ten elements 8 bytes apart, in tiles of 4: 4, 4 and 2."""
SPREAD = GridAxis.tiles(10, 4, 8, 100)
"""The same tiles, 100 bytes apart."""


def cells(axis, *bounds):
    return axis.with_cells(range(*bounds), is_indexed=False)


def test_the_last_tile_ends_where_the_axis_ends():
    assert len(PLAIN.cells) == 3
    assert PLAIN.elements == 10
    assert PLAIN.has_remainder
    assert cells(PLAIN, 0, 2).elements == 8
    assert not cells(PLAIN, 0, 2).has_remainder
    assert cells(PLAIN, 2, 3).elements == 2
    assert cells(PLAIN, 2, 3).has_remainder


@pytest.mark.parametrize(
    ("axis", "span"),
    [
        (PLAIN, Span(10, 8, 0)),
        (cells(PLAIN, 1, 3), Span(6, 8, 32)),
        (cells(PLAIN, 0, 3, 2), None),
        (SPREAD, None),
        (cells(SPREAD, 1, 2), Span(4, 8, 100)),
        (cells(SPREAD, 2, 3), Span(2, 8, 200)),
        (GridAxis.tiles(5, 1, 8, 8), Span(5, 8, 0)),
        (cells(GridAxis.tiles(5, 1, 8, 100), 0, 5, 2), Span(3, 200, 0)),
        (cells(GridAxis.slabs(6, 40), 1, 6, 2), Span(3, 80, 40)),
    ],
)
def test_elements_at_one_stride_are_a_span(axis, span):
    assert axis.span == span


def test_blocks_are_groups_of_tiles():
    blocks = PLAIN.with_block(2)
    assert (len(blocks.cells), blocks.cell, blocks.step) == (2, 8, 8)
    assert cells(blocks, 1, 2).elements == 2
    assert cells(blocks, 1, 2).span == Span(2, 8, 64)
    inside = cells(blocks, 1, 2).with_block()
    assert (inside.extent, len(inside.cells), inside.start_bytes) == (2, 1, 64)


def test_tiles_with_a_step_are_tiles_again_and_blocks_with_a_step_are_not():
    spaced = cells(PLAIN, 0, 3, 2).with_block()
    assert (spaced.extent, spaced.tile_stride_bytes, len(spaced.cells)) == (6, 64, 2)
    blocks = GridAxis.tiles(24, 4, 8, 32).with_block(2)
    assert cells(blocks, 0, 3, 2).with_block() is None
    assert cells(blocks, 0, 1, 2).with_block() is not None


def test_an_untiled_axis_stays_as_it_is():
    slabs = GridAxis.slabs(6, 40)
    assert slabs.with_block(3) is slabs
    assert slabs.with_cells(range(2, 3), is_indexed=True).is_gone
    assert not PLAIN.with_cells(range(2, 3), is_indexed=True).is_gone
