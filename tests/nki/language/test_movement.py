"""Loads, transposes, products, broadcasts and gathers, against numpy."""

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.notices import SimulatorOnlyWarning


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(128, 64), (200, 128), (1, 16), (16, 1)])
def test_load_transpose2d_swaps_the_axes(random, shape, dtype):
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape[::-1], x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x))
        return out

    x = random(shape, dtype)
    np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, x.T)


def test_load_transpose2d_takes_more_dimensions_as_two(random):
    @jit
    def kernel(x):
        tile = nl.load_transpose2d(x, dtype=nl.bfloat16)
        out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = random((32, 16, 1))
    expected = x[..., 0].T.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, expected)


@pytest.mark.parametrize("shape", [(128, 64), (32, 8, 4), (1, 128)])
def test_transpose_goes_to_psum(computed, random, shape):
    x = random(shape)
    np.testing.assert_array_equal(computed(nl.transpose, x), x.reshape(shape[0], -1).T)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_fp8_is_transposed_two_bytes_apart(random, target):
    @jit
    def kernel(x):
        turned = nl.transpose(nl.load(x, dtype=nl.float8_e4m3))
        out = nl.ndarray(turned.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(turned, dtype=nl.float32))
        return out

    x = np.round(random((16, 8)) * 4)
    np.testing.assert_array_equal(trnsim.run(kernel, x, target=target).outputs, x.T)


def test_one_dimension_has_no_transpose(random):
    @jit
    def kernel(x):
        return nl.load_transpose2d(x)

    with pytest.raises(IllegalInstruction, match="legal: two dimensions or more"):
        trnsim.run(kernel, random((16,)))


def test_matmul_contracts_the_partitions(computed, random):
    x, y = random((64, 32)), random((64, 512), seed=1)
    expected = x.astype(np.float64).T @ y
    found = computed(nl.matmul, x, y, transpose_x=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_matmul_without_transpose_x_is_refused_unless_on_awss_simulator(computed, random):
    x, y = random((32, 64)), random((64, 16), seed=1)
    with pytest.raises(IllegalInstruction, match="legal: transpose_x=True"):
        computed(nl.matmul, x, y)
    with pytest.warns(SimulatorOnlyWarning, match="legal: transpose_x=True"):
        found = computed(nl.matmul, x, y, as_simulator=True)
    np.testing.assert_allclose(found, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)
    with pytest.raises(IllegalInstruction, match="legal: True or False"):
        computed(nl.matmul, x, y, transpose_x=np.zeros(3))


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((1, 8), (128, 8)),
        ((1, 8), (40, 8)),
        ((4, 1), (4, 9)),
        ((1, 1), (64, 5)),
        ((4, 1, 3), (4, 2, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, ml_dtypes.bfloat16])
def test_broadcast_to_repeats_dimensions_of_one(computed, random, shape, target, dtype):
    x = random(shape, dtype)
    found = computed(nl.broadcast_to, x, shape=target)
    np.testing.assert_array_equal(found, np.broadcast_to(x, target))


def test_broadcast_to_the_same_shape_is_the_tile_itself(computed, random):
    def same(tile):
        assert nl.broadcast_to(tile, tile.shape) is tile
        return nl.broadcast_to(tile, tile.shape, dtype=nl.bfloat16)

    assert computed(same, random((4, 8))).dtype == ml_dtypes.bfloat16


def test_a_partition_anywhere_can_be_repeated(computed, random):
    x = random((8, 6))
    found = computed(lambda tile: nl.broadcast_to(tile[5:6], (32, 6)), x)
    np.testing.assert_array_equal(found, np.broadcast_to(x[5:6], (32, 6)))


@pytest.mark.parametrize("target", [(4, 9), (4, 8, 1), (8, 8)], ids=str)
def test_broadcast_to_a_shape_that_does_not_fit_is_refused(computed, random, target):
    with pytest.raises(IllegalInstruction, match="legal: the same rank, and each dimension"):
        computed(nl.broadcast_to, random((4, 8)), shape=target)


def test_expand_dims_is_a_view(computed, random):
    x = random((4, 8))
    assert computed(nl.expand_dims, x, axis=1).shape == (4, 1, 8)


def test_gather_flattened_picks_from_the_free_axes(computed, random):
    data = random((16, 4, 8))
    indices = np.random.default_rng(2).integers(0, 32, (16, 10)).astype(np.uint32)
    found = computed(nl.gather_flattened, data, indices)
    np.testing.assert_array_equal(found, np.take_along_axis(data.reshape(16, 32), indices, 1))
    assert computed(nl.gather_flattened, data, indices, dtype=nl.bfloat16).dtype == "bfloat16"
    with pytest.raises(IllegalInstruction, match="legal: axis=0"):
        computed(nl.gather_flattened, data, indices, axis=1)
