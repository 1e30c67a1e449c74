import numpy as np
import pytest

import trnsim
from trnsim.graph.kernels import tiles
from trnsim.nki.kernel import jit


def test_a_dimension_is_cut_into_pieces():
    assert list(tiles.pieces(300, 128)) == [(0, 128), (128, 128), (256, 44)]


@pytest.mark.parametrize("shape", [(128, 128), (70, 9)])
def test_a_tile_is_transposed_and_stored(random, shape):
    @jit
    def flip(x):
        out = tiles.output(shape[::-1], "float32")
        tiles.store(out, tiles.transposed(tiles.load(x)))
        return out

    x = random(shape)
    np.testing.assert_array_equal(trnsim.run(flip, x).outputs, x.T)
