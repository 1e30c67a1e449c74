"""Rounding, pattern by pattern, against ml_dtypes, numpy and arithmetic on fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    TFLOAT32,
    UINT8,
    UINT16,
    UINT32,
    round_to,
    to_float32,
)

FORMATS = {BFLOAT16: 16, FLOAT16: 16, FLOAT8_E4M3: 8, FLOAT8_E4M3FN: 8, FLOAT8_E5M2: 8}
INTEGERS = (INT8, INT16, INT32, UINT8, UINT16, UINT32)
any_float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def patterns(dtype):
    """Every bit pattern of a format, as an array of it."""
    bits = FORMATS[dtype]
    return np.arange(2**bits, dtype=f"u{bits // 8}").view(dtype.dtype)


@pytest.fixture(params=FORMATS, ids=str)
def dtype(request):
    return request.param


@pytest.mark.filterwarnings("ignore:invalid value")
def test_every_pattern_widens_to_the_value_that_ml_dtypes_gives(dtype):
    stored = patterns(dtype)
    expected = np.array([float(value) for value in stored], np.float32)
    np.testing.assert_array_equal(to_float32(stored), expected)
    assert to_float32(stored).dtype == np.float32


@pytest.mark.filterwarnings("ignore:invalid value")
def test_every_pattern_survives_the_way_to_float32_and_back(dtype):
    stored = patterns(dtype)
    back = round_to(to_float32(stored), dtype)
    number = ~np.isnan(to_float32(stored))
    raw = f"u{dtype.itemsize}"
    np.testing.assert_array_equal(back.view(raw)[number], stored.view(raw)[number])
    assert np.isnan(to_float32(back)[~number]).all()


def test_between_two_neighbours_the_nearest_wins_and_a_tie_goes_to_even(dtype):
    stored = patterns(dtype)[: 2 ** (FORMATS[dtype] - 1)]  # the positive half, in order
    values = np.array([float(value) for value in stored])
    finite = np.flatnonzero(np.isfinite(values))
    low, high = values[finite[:-1]], values[finite[1:]]
    middle = (low + high) / 2
    is_even = stored.view(f"u{dtype.itemsize}")[finite[:-1]] % 2 == 0
    exact = middle == middle.astype(np.float32)
    expected = np.where(is_even, low, high)

    def rounded(inputs):
        return to_float32(round_to(inputs.astype(np.float32), dtype)).astype(np.float64)

    np.testing.assert_array_equal(rounded(middle)[exact], expected[exact])
    normal = high > 1e-30
    below = np.nextafter(middle.astype(np.float32), np.float32(0))
    above = np.nextafter(middle.astype(np.float32), np.float32(np.inf))
    np.testing.assert_array_equal(rounded(below)[normal], low[normal])
    np.testing.assert_array_equal(rounded(above)[normal], high[normal])
    np.testing.assert_array_equal(rounded(-middle)[exact], -expected[exact])


def test_overflow_gives_what_the_format_has_for_it_without_a_warning(dtype):
    top = float(ml_dtypes.finfo(dtype.dtype).max)
    values = np.array([top, 3e38, -3e38, np.inf, -np.inf], np.float32)
    result = to_float32(round_to(values, dtype))
    assert result[0] == top
    beyond = result[3:] if dtype is BFLOAT16 else result[1:]
    if dtype is FLOAT8_E4M3FN:
        assert np.isnan(beyond).all()
    else:
        assert np.isinf(beyond).all()
        assert list(np.sign(beyond)) == [1, -1, 1, -1][-len(beyond) :]


@pytest.mark.parametrize("dtype", [FLOAT32, *FORMATS], ids=str)
def test_an_array_of_the_format_is_handed_back_as_it_is(dtype):
    values = np.ones(3, dtype.dtype)
    assert round_to(values, dtype) is values
    assert (to_float32(values) is values) is (dtype is FLOAT32)


@given(st.lists(any_float32, min_size=1, max_size=20))
def test_tfloat32_rounds_to_ten_bits_of_mantissa(values):
    given_values = np.array(values, np.float32)
    result = round_to(given_values, TFLOAT32)
    assert result.dtype == np.float32
    assert not (result.view(np.uint32) & 0x1FFF).any()
    for before, after in zip(given_values.tolist(), result.tolist(), strict=True):
        assert after == tf32(before)


def tf32(value):
    """Nearest multiple of the last place of a ten-bit mantissa, ties to even."""
    if value == 0:
        return value
    exponent = max(int(np.frexp(abs(value))[1]) - 1, -126)
    place = Fraction(2) ** (exponent - 10)
    rounded = round(Fraction(value) / place) * place
    return float("inf") * np.sign(value) if abs(rounded) >= 2**128 else float(rounded)


def test_tfloat32_keeps_infinities_and_nan():
    values = np.array([np.inf, -np.inf, np.nan, 0xFFFFFFFF], np.float32)
    values[3:] = np.array([0xFFFFFFFF], np.uint32).view(np.float32)
    result = round_to(values, TFLOAT32)
    assert list(result[:2]) == [np.inf, -np.inf]
    assert np.isnan(result[2:]).all()


def test_tfloat32_overflows_to_infinity():
    assert round_to(np.array([3.4028235e38], np.float32), TFLOAT32)[0] == np.inf


@pytest.mark.parametrize("dtype", [*INTEGERS, INT64], ids=str)
@given(values=st.lists(any_float32, min_size=1, max_size=20))
def test_integers_round_to_even_and_saturate(dtype, values):
    given_values = np.array(values, np.float32)
    limits = np.iinfo(dtype.dtype)
    expected = [min(max(round(float(v)), limits.min), limits.max) for v in given_values]
    result = round_to(given_values, dtype)
    assert result.dtype == dtype.dtype
    assert result.tolist() == expected


@pytest.mark.parametrize("dtype", [*INTEGERS, INT64], ids=str)
def test_infinities_saturate_and_nan_becomes_zero(dtype):
    limits = np.iinfo(dtype.dtype)
    values = np.array([np.inf, -np.inf, np.nan, 2.5, 3.5, -0.5], np.float32)
    assert round_to(values, dtype).tolist() == [limits.max, limits.min, 0, 2, 4, 0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_become_other_integers_by_saturation(dtype, source):
    limits, from_limits = np.iinfo(dtype.dtype), np.iinfo(source.dtype)
    values = np.array([from_limits.min, 0, 1, from_limits.max], source.dtype)
    expected = [min(max(int(v), limits.min), limits.max) for v in values]
    assert round_to(values, dtype).tolist() == expected


def test_whatever_is_not_zero_is_true():
    values = np.array([0.0, -0.0, 0.4, np.nan, -3], np.float32)
    assert round_to(values, BOOL).tolist() == [False, False, True, True, True]
    assert to_float32(np.array([True, False])).tolist() == [1.0, 0.0]


@given(st.floats(allow_nan=False, width=64))
def test_rounding_is_idempotent(value):
    for dtype in (*FORMATS, TFLOAT32):
        with np.errstate(over="ignore"):
            once = round_to(np.array([value]).astype(np.float32), dtype)
        twice = round_to(to_float32(once), dtype)
        np.testing.assert_array_equal(to_float32(once), to_float32(twice))
