import numpy as np
import pytest

import trnsim
from trnsim.lower.kernels import tiles
from trnsim.nki import language as nl
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


@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "bfloat16", "uint8"])
def test_fp8_lies_two_bytes_apart_in_psum_from_v3_on(random, chip, dtype):
    @jit
    def flip(x):
        kind = getattr(nl, dtype)
        room = tiles.new((9, 2, 70), kind, nl.psum)
        is_wide = dtype.startswith("float8") and chip != "trn1"
        assert room.strides[-1] == (2 if is_wide else 1)
        assert tiles.psum_bytes(kind) == room.strides[-1] * kind.itemsize
        assert tiles.new((9, 70), kind).strides == (70, 1)
        out = tiles.output((9, 70), "float32")
        tiles.store(out, tiles.transposed(tiles.load(x, kind)))
        return out

    x = np.round(np.abs(random((70, 9)))).clip(0, 4)
    np.testing.assert_array_equal(trnsim.run(flip, x, target=chip).outputs, x.T)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 256, 5 * 128 + 7, 100_000])
@pytest.mark.parametrize("longest", [1, 3, 2048])
def test_a_dimension_is_spread_over_partitions_without_a_gap(length, longest):
    at = 0
    for start, rows, each in tiles.spread(length, longest):
        assert (start, 1 <= rows <= 128, 1 <= each <= longest) == (at, True, True)
        at += rows * each
    assert at == length


@pytest.mark.parametrize("elements", [1, 16384, 16385, 300_000])
def test_a_run_is_copied_whole(random, elements):
    @jit
    def copy(x):
        out = tiles.output((elements + 2,), "float32")
        tiles.fill(out, elements + 2, 7.0)
        tiles.copy_run(out, 1, x, 0, elements)
        return out

    x = random((elements,))
    np.testing.assert_array_equal(trnsim.run(copy, x).outputs, np.pad(x, 1, constant_values=7))
