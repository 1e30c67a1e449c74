"""Stochastic rounding: unbiased, reproducible, exact where it can be."""

import ml_dtypes
import numpy as np
import pytest

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT4_E2M1FN,
    FLOAT8_E3M4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2,
    FLOAT8_E8M0FNU,
    FLOAT16,
    FLOAT32,
    INT32,
    TFLOAT32,
    float_range,
    round_stochastically,
    round_to,
    to_float32,
)
from trnsim.errors import Unspecified

DTYPES = (
    BFLOAT16,
    FLOAT16,
    TFLOAT32,
    FLOAT8_E3M4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT4_E2M1FN,
)
DRAWS = 1_000_000
STANDARD_ERRORS = 4


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


def unit(dtype, exponent):
    """Distance of neighbours at 2**exponent."""
    return 2.0 ** (exponent - dtype.mantissa_bits)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("fraction", [1 / 64, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("place", ["one", "negative", "subnormal"])
def test_it_is_unbiased_within_four_standard_errors(dtype, fraction, place):
    smallest = float_range(dtype).smallest_normal
    step = smallest * 2.0**-dtype.mantissa_bits if place == "subnormal" else unit(dtype, 0)
    below = {"one": 1.0, "negative": -1.0, "subnormal": 0.0}[place]
    away = -1 if place == "negative" else 1
    given = np.float32(below + away * fraction * step)
    generator = np.random.default_rng(12345)
    draws = round_stochastically(np.full(DRAWS, given), dtype, generator)
    values = to_float32(draws).astype(np.float64)
    assert set(np.unique(values)) == {below, below + away * step}
    p = float((given - below) / (away * step))
    ups = np.count_nonzero(values != below)
    assert abs(ups - DRAWS * p) <= STANDARD_ERRORS * np.sqrt(DRAWS * p * (1 - p))


def test_the_mean_over_many_different_values_is_unbiased(dtype):
    rng = np.random.default_rng(11)
    given = rng.uniform(1, 2, DRAWS).astype(np.float32)
    rounded = to_float32(round_stochastically(given, dtype, np.random.default_rng(12)))
    error = rounded.astype(np.float64) - given
    step = unit(dtype, 0)
    assert np.abs(error).max() < step
    # A Bernoulli variable has at most a variance of step**2 / 4.
    assert abs(error.mean()) <= STANDARD_ERRORS * step / 2 / np.sqrt(DRAWS)


def test_a_seed_gives_the_same_result_again_and_another_seed_another(dtype):
    given = np.random.default_rng(0).uniform(0.5, 2, (32, 50)).astype(np.float32)
    first, again, other = (
        to_float32(round_stochastically(given, dtype, np.random.default_rng(seed)))
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_layout_in_memory_does_not_change_the_draws():
    given = np.random.default_rng(0).uniform(0.5, 2, (32, 50)).astype(np.float32)
    one = round_stochastically(given, BFLOAT16, np.random.default_rng(7))
    other = round_stochastically(given.T.copy().T, BFLOAT16, np.random.default_rng(7))
    np.testing.assert_array_equal(one.view(np.uint16), other.view(np.uint16))


def test_exact_values_are_unchanged(dtype):
    if dtype is TFLOAT32:
        bits = np.arange(2**19, dtype=np.uint32) << np.uint32(13)
        values = bits.view(np.float32)
    else:
        raw = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
        values = to_float32(raw.view(dtype.dtype))
    result = to_float32(round_stochastically(values, dtype, np.random.default_rng(0)))
    number = ~np.isnan(values)
    np.testing.assert_array_equal(result[number].view(np.uint32), values[number].view(np.uint32))
    if dtype is not FLOAT4_E2M1FN:
        assert np.isnan(result[~number]).all()


def test_overflow_does_what_rounding_to_nearest_does(dtype):
    largest = np.float32(float_range(dtype).largest)
    values = np.array([np.inf, -np.inf, np.nan, 3.4e38, -3.4e38], np.float32)
    with np.errstate(over="ignore"):
        values = np.append(values, [largest * np.float32(1.01), np.nextafter(largest, np.inf)])
    values = values.astype(np.float32)
    values = values[~(np.abs(values) <= largest)]
    for seed in range(5):
        result = round_stochastically(values, dtype, np.random.default_rng(seed))
        np.testing.assert_array_equal(to_float32(result), to_float32(round_to(values, dtype)))


def test_below_the_largest_value_nothing_overflows(dtype):
    largest = np.float32(float_range(dtype).largest)
    values = np.full(1000, np.nextafter(largest, np.float32(0)))
    result = to_float32(round_stochastically(values, dtype, np.random.default_rng(0)))
    assert np.isfinite(result).all()
    assert result.max() == largest


def test_the_example_of_aws_climbs_with_it_and_stands_still_without():
    # rounding-modes.rst, Quick Tests: 1024 + 2048 times 0.5 in float16 stays 1024 rounded to
    # nearest, and comes to about 2048 ("2056") stochastically.
    generator = np.random.default_rng(0)
    nearest = stochastic = np.full(1, 1024, np.float16)
    for _ in range(2048):
        nearest = round_to(to_float32(nearest) + np.float32(0.5), FLOAT16)
        stochastic = round_stochastically(
            to_float32(stochastic) + np.float32(0.5), FLOAT16, generator
        )
    assert nearest[0] == 1024
    # Each step is 0 or 1 with probability 1/2.
    assert abs(float(stochastic[0]) - 2048) <= STANDARD_ERRORS * np.sqrt(2048) / 2


def test_float32_is_not_rounded():
    values = np.array([1.1, np.nan], np.float32)
    assert round_stochastically(values, FLOAT32, np.random.default_rng(0)) is values


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_shapes_are_kept(dtype, shape):
    result = round_stochastically(np.ones(shape, np.float32), dtype, np.random.default_rng(0))
    assert result.shape == shape
    assert result.dtype == dtype.dtype


@pytest.mark.parametrize("dtype", [INT32, FLOAT8_E8M0FNU, FLOAT8_E4M3FN_X4], ids=str)
def test_what_aws_does_not_describe_is_refused(dtype):
    with pytest.raises(Unspecified, match=f"stochastic rounding to {dtype}"):
        round_stochastically(np.ones(1, np.float32), dtype, np.random.default_rng(0))


def test_ranges_are_those_of_ml_dtypes():
    for dtype in DTYPES:
        if dtype is not TFLOAT32:
            limits = ml_dtypes.finfo(dtype.dtype)
            assert float_range(dtype) == (float(limits.smallest_normal), float(limits.max))
    assert float_range(TFLOAT32) == (2.0**-126, (2 - 2**-10) * 2.0**127)
