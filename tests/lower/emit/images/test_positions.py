"""Blocks and chunks of positions: each window in one of them, within the limits."""

import numpy as np
import pytest

from trnsim.lower.emit.images.image import WindowBox, WindowGrid
from trnsim.lower.emit.images.positions import position_blocks, position_chunks

SIZES = [(4, 2, 2), (3, 7, 7), (2, 14, 14), (2, 11, 12), (1, 56, 56), (2, 3, 200), (1, 1, 500)]


def grid_of(images, rows, columns):
    """Windows of 3x3 around each element."""
    ones = (1, 1)
    size = (rows, columns)
    return WindowGrid(images, 8, size, size, (3, 3), ones, ones, (0, 0), ones)


def counted(boxes, images, rows, columns):
    """How often each window is in a box."""
    times = np.zeros((images, rows, columns), int)
    for box in boxes:
        ranges = (box.image, box.images), (box.row, box.rows), (box.column, box.columns)
        times[tuple(slice(first, first + count) for first, count in ranges)] += 1
    return times


@pytest.mark.parametrize("size", SIZES)
def test_blocks_have_each_window_once_and_at_most_128(size):
    images, rows, columns = size
    blocks = position_blocks(WindowBox(0, 0, 0, images, rows, columns))
    assert max(block.count for block in blocks) <= 128
    assert (counted(blocks, *size) == 1).all()


@pytest.mark.parametrize("most", [1000, 20_000, 10**6])
@pytest.mark.parametrize("size", SIZES)
def test_chunks_have_each_window_once_in_as_many_blocks_as_are_held(size, most):
    grid = grid_of(*size)
    row_bytes = 2 * grid.width
    chunks = position_chunks(grid, 12, row_bytes, most)
    assert (counted(chunks, *size) == 1).all()
    for chunk in chunks:
        assert len(position_blocks(chunk)) <= 12
        is_least = chunk.rows <= max(128 // chunk.columns, 1)
        assert is_least or chunk.images * grid.reach(0, chunk.rows) * row_bytes <= most
