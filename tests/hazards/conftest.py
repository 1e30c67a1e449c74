import pytest

import trnsim


@pytest.fixture
def shared(bench):
    """A view of 16 floats of HBM: `shared[3:5]` is a tile."""
    tile = bench().empty((1, 16), memory=trnsim.memory.Memory.HBM)

    class View:
        def __getitem__(self, index):
            start, stop, step = index.indices(16)
            pattern = tile.pattern.slice(1, start, stop, step)
            return trnsim.memory.Tile(tile.storage, tile.dtype, pattern)

    return View()
