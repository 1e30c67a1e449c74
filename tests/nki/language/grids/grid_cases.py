"""Random grids against numpy: `python tests/nki/language/grids/grid_cases.py 5000`.

A grid is compared with index arithmetic over an array of distinct numbers: which elements each
selection has, in which order, and whether one stride a dimension reaches them.
"""

from __future__ import annotations

import sys

import numpy as np

from trnsim.arch.targets import NEURONCORE_V3
from trnsim.nki import language as nl
from trnsim.program import CoreContext, issuing_to

BUFFERS = (nl.shared_hbm, nl.sbuf, nl.psum)
_MOST_ON_CHIP = 512
"""Elements of a partition, for the smaller of the two memories on chip."""


class Logical:
    """The elements of a grid as numbers of an array: what a grid is by its definition."""

    def __init__(self, values, tile, block):
        self.values, self.tile, self.block = values, tile, block
        self.untiled = values.ndim - len(tile)
        self.cells = (1,) * self.untiled + tuple(t * b for t, b in zip(tile, block, strict=True))
        self.counts = tuple(-(-n // c) for n, c in zip(values.shape, self.cells, strict=True))

    def select(self, keys):
        """(shape, values) of the cells of integers and slices, one a dimension."""
        shape, kept = [], []
        for dim, key in enumerate(keys):
            chosen = np.arange(self.counts[dim])[key]
            if isinstance(key, slice):
                shape.append(len(chosen))
            positions = [
                position
                for cell in np.atleast_1d(chosen)
                for position in range(cell * self.cells[dim], (cell + 1) * self.cells[dim])
                if position < self.values.shape[dim]
            ]
            kept.append(positions)
        gone = tuple(dim for dim in range(self.untiled) if not isinstance(keys[dim], slice))
        return tuple(shape), self.values[np.ix_(*kept)].squeeze(gone)


def even(places):
    """Whether one stride a dimension reaches the places of all elements."""
    return all(
        len(np.unique(np.diff(places, axis=dim))) <= 1
        for dim in range(places.ndim)
        if places.shape[dim] > 1
    )


def draw_shape(rng, buffer):
    """Lengths, tile shape and block shape."""
    untiled = int(rng.integers(0, 3)) if buffer is nl.shared_hbm else 0
    ranks = int(rng.integers(2, 4))
    extent = [int(rng.integers(1, 4)) for _ in range(untiled)]
    extent += [int(rng.integers(1, 12)) for _ in range(ranks)]
    tile = tuple(int(rng.integers(1, 6)) for _ in range(ranks))
    return tuple(extent), tile, tuple(int(rng.integers(1, 4)) for _ in range(ranks))


def draw_keys(rng, counts):
    """An index of each dimension: an integer, a slice, or a slice with a step."""
    keys = []
    for count in counts:
        first = int(rng.integers(0, count))
        last = int(rng.integers(first, count)) + 1
        step = int(rng.integers(1, 3))
        kind = rng.integers(0, 4)
        keys.append([first, first - count, slice(None), slice(first, last, step)][kind])
    return tuple(keys)


def view_of(rng, buffer, extent):
    """A tensor of distinct numbers with the lengths `extent`: a slice of a larger one, or whole."""
    room = tuple(n + int(rng.integers(0, 3)) for n in extent)
    tensor = nl.ndarray(room, nl.int32, buffer=buffer)
    tensor.array[...] = np.arange(tensor.size).reshape(room)
    starts = [int(rng.integers(0, r - n + 1)) for r, n in zip(room, extent, strict=True)]
    return tensor[tuple(slice(s, s + n) for s, n in zip(starts, extent, strict=True))]


def compare(grid, logical, keys, places):
    """One selection of `grid` against the same of `logical`; `places` are where elements lie."""
    shape, values = logical.select(keys)
    chosen = grid[keys]
    assert type(chosen) is type(grid)
    assert chosen.shape == shape
    assert chosen.element_shape == values.shape
    assert chosen.tile_shape == logical.tile
    where = Logical(places, logical.tile, logical.block).select(keys)[1]
    assert chosen.is_data_representable == even(where), (grid, keys)
    if chosen.is_data_representable:
        np.testing.assert_array_equal(chosen.data.array, values)
    return chosen, values


def check_view(rng):
    """A grid over a tensor, of which the tiles of a block and other blocks are taken."""
    buffer = BUFFERS[int(rng.integers(len(BUFFERS)))]
    extent, tile, block = draw_shape(rng, buffer)
    source = view_of(rng, buffer, extent)
    values = source.array.copy()
    by_tiles = nl.tiles(source, tile_shape=tile)
    by_blocks = nl.blocks(source, tile_shape=tile, block_shape=block)
    flat = Logical(values, tile, (1,) * len(tile))
    grouped = Logical(values, tile, block)
    assert (by_tiles.shape, by_blocks.shape) == (flat.counts, grouped.counts)
    steps = np.indices(values.shape)
    places = np.tensordot(np.array([1000**d for d in range(values.ndim)]), steps, 1)
    compare(by_tiles, flat, draw_keys(rng, flat.counts), places)
    compare(nl.blocks(by_tiles, block_shape=block), grouped, draw_keys(rng, grouped.counts), places)
    cell = tuple(int(rng.integers(0, n)) for n in grouped.counts)
    one, inside = compare(by_blocks, grouped, cell, places)
    within = Logical(inside, tile, (1,) * len(tile))
    tiles = nl.tiles(one)
    assert tiles.shape == within.counts
    compare(tiles, within, draw_keys(rng, within.counts), inside)


def check_allocation(rng):
    """A new grid: each tile has bytes of its own, and selections have those of their tiles."""
    buffer = BUFFERS[int(rng.integers(len(BUFFERS)))]
    extent, tile, block = draw_shape(rng, buffer)
    if buffer is not nl.shared_hbm and rng.random() < 0.5:
        extent = (int(rng.integers(1, 4)), *extent)
    shapes = {"tile_shape": tile, "element_shape": extent, "buffer": buffer, "dtype": nl.int32}
    values = np.arange(np.prod(extent)).reshape(extent)
    logical = Logical(values, tile, (1,) * len(tile))
    tile_room = int(np.prod(tile[1:])) * int(np.prod(logical.counts))
    if buffer is not nl.shared_hbm and tile_room > _MOST_ON_CHIP:
        return
    grid = nl.alloc_tiles(**shapes)
    places = np.empty(extent, np.int64)
    for cell in np.ndindex(*logical.counts):
        data = grid[cell].data
        data.array[...] = logical.select(cell)[1]
        offsets = np.tensordot(data.pattern.strides_bytes, np.indices(data.shape), 1)
        chosen = Logical(np.arange(values.size).reshape(extent), tile, logical.block).select(cell)
        places.reshape(-1)[chosen[1]] = data.pattern.offset_bytes + offsets
    assert len(np.unique(places)) == values.size
    compare(grid, logical, draw_keys(rng, logical.counts), places)
    grouped = Logical(values, tile, block)
    blocks = nl.blocks(grid, block_shape=block)
    compare(blocks, grouped, draw_keys(rng, grouped.counts), places)
    assert nl.alloc_blocks(**shapes, block_shape=block).shape == grouped.counts


def check(seed):
    """The cases of a seed, on a core of its own."""
    rng = np.random.default_rng(seed)
    with issuing_to(CoreContext(NEURONCORE_V3)):
        check_view(rng)
        check_allocation(rng)


def main(count):
    """Check the seeds below `count`."""
    for seed in range(count):
        check(seed)
    sys.stdout.write(f"{count} grids over tensors and {count} new ones: equal to numpy\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
