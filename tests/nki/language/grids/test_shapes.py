"""Shapes that no grid has, and the errors that say so."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.nki.language.grids.shapes import check_shape, check_tile_shape


@pytest.mark.parametrize(
    "shape", [[128, 512], (128, np.int64(512)), (128, True), (128.0, 512), 128, None, "ab"]
)
def test_a_shape_is_a_tuple_of_pythons_own_integers(shape):
    with pytest.raises(TypeError, match=r"nl\.tiles: tile_shape=.*; legal: a tuple of") as caught:
        check_tile_shape("tiles", shape, (512, 1024), "x")
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.line.file == __file__
    assert caught.value.source == "nki.language.tiles, tile_shape"
    assert "tuple(list)" in caught.value.fix


@pytest.mark.parametrize("shape", [(0, 512), (128, -1)])
def test_a_length_is_at_least_one(shape):
    with pytest.raises(ValueError, match="legal: lengths of at least 1") as caught:
        check_shape("alloc_tiles", "element_shape", shape)
    assert isinstance(caught.value, IllegalInstruction)
    assert "skip an empty tensor" in caught.value.fix


@pytest.mark.parametrize(
    ("shape", "extent", "message"),
    [
        ((), (512, 1024), r"tile_shape=\(\) has rank 0, x \[512, 1024\] has rank 2; legal: rank 2"),
        ((128,), (512, 1024), "has rank 1, .* has rank 2; legal: rank 2\n"),
        ((1, 2, 3), (512, 1024), "has rank 3, .* has rank 2; legal: rank 2\n"),
        ((1,), (2, 3, 4), "has rank 1, .* has rank 3; legal: rank 2 to 3\n"),
        ((1, 2), (512,), "has rank 2, .* has rank 1; legal: a tensor of rank 2 or more"),
        ((1, 2), (0, 4), r"x \[0, 4\] has a dimension of 0 elements; legal: at least 1 in each"),
    ],
)
def test_a_tile_covers_the_last_two_dimensions_or_more(shape, extent, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_tile_shape("tiles", shape, extent, "x")
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.line.file == __file__


def test_a_block_has_the_dimensions_of_a_tile():
    check_shape("blocks", "block_shape", (2, 2), rank=2)
    with pytest.raises(ValueError, match=r"block_shape=\(2,\) has rank 1; legal: rank 2, that"):
        check_shape("blocks", "block_shape", (2,), rank=2)
