import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3, float8_e5m2

from trnsim.graph.ops.reductions import Sort
from trnsim.lower.legal import sorting

FLOATS = [
    0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    -np.nan,
    0,
    3e38,
    -3e38,
    1e-45,
    -1e-45,
    1,
    1,
    1,
    -1,
    *[2] * 12,
]


def in_order(row, *, is_descending):
    """Places of a row in order by Python's stable sort; NaN is the largest, -0 is 0."""
    keys = [(np.isnan(one), 0.0 if np.isnan(one) else one) for one in row.tolist()]
    places = range(len(keys))
    return sorted(places, key=keys.__getitem__, reverse=is_descending)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.float16, float8_e5m2, float8_e4m3])
def test_floating_point_in_order_equal_ones_as_they_came(values, dtype, chip, is_descending):
    with np.errstate(over="ignore"):
        keys = np.random.default_rng(0).permutation(np.array(FLOATS)).astype(dtype)
    (found, places), _ = values(
        Sort(0, is_descending), keys, np.arange(keys.size, dtype=np.int32), chip=chip
    )
    expected = in_order(keys.astype(np.float32), is_descending=is_descending)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(found.astype(float), keys[places].astype(float))


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.int8, np.uint8])
def test_integers_are_told_apart_beyond_what_float32_holds(agree, dtype, is_descending):
    limits = np.iinfo(dtype)
    numbers = [limits.max, limits.min, 5, limits.max - 1, 5, limits.min + 1, 0, 1, 5]
    numbers += [n for n in (2**24 + 1, 2**24, 2**16, 2**16 - 1) if n <= limits.max]
    keys = np.array(numbers, dtype)
    agree(Sort(0, is_descending), keys, np.arange(keys.size, dtype=np.int32))


@pytest.mark.parametrize("is_descending", [False, True])
def test_truth_values_of_more_rows_than_partitions(agree, is_descending):
    keys = np.random.default_rng(0).integers(0, 2, (300, 3)).astype(np.bool_)
    places = np.arange(900, dtype=np.int32).reshape(300, 3)
    agree(Sort(0, is_descending), keys, places)
    agree(Sort(1, is_descending), keys, places)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("shape", [(3, 1), (1,), (130, 9), (2, 3, 17)])
@pytest.mark.parametrize("dim", [0, -1])
def test_along_either_end(agree, shape, dim):
    agree(Sort(dim), np.random.default_rng(0).normal(size=shape).astype(np.float32))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.uint32, bfloat16])
def test_long_rows_are_ordered_by_counting(values, dtype, is_descending, monkeypatch):
    monkeypatch.setattr(sorting, "_LONGEST_ROW", 8)
    numbers = FLOATS if dtype != np.uint32 else [5, 2**32 - 1, 0]
    with np.errstate(over="ignore"):
        keys = np.resize(np.array(numbers), (3, 27)).astype(dtype)
    keys = np.random.default_rng(0).permuted(keys, axis=1)
    counted = np.tile(np.arange(27, dtype=np.int32), (3, 1))
    (_, places), _ = values(Sort(1, is_descending), keys, counted)
    wide = keys.astype(np.float64)
    assert places.tolist() == [in_order(row, is_descending=is_descending) for row in wide]


@pytest.mark.slow
@pytest.mark.parametrize("length", [8192, 8193, 20_000])
def test_rows_that_a_partition_does_not_hold(agree, length):
    agree(Sort(0), np.random.default_rng(0).integers(0, 99, length).astype(np.int8))
