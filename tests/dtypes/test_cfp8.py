"""Configurable FP8 against ml_dtypes, and against a search for the nearest value."""

import ml_dtypes
import numpy as np
import pytest

from trnsim.dtypes import Cfp8, cfp8_decode, cfp8_encode
from trnsim.errors import BadInput

SAME = {
    ml_dtypes.float8_e5m2: Cfp8(5, 2, 15),
    ml_dtypes.float8_e4m3: Cfp8(4, 3, 7),
    ml_dtypes.float8_e3m4: Cfp8(3, 4, 3),
    ml_dtypes.float8_e4m3fn: Cfp8(4, 3, 7, is_finite=True),
}
# Biases up to the ends of float32, where encoding takes the path without a table.
FORMS = [
    *SAME.values(),
    Cfp8(5, 2, 0),
    Cfp8(5, 2, 31, is_finite=True),
    Cfp8(4, 3, 11, is_finite=True),
    Cfp8(4, 3, 20),
    Cfp8(4, 3, -100),
    Cfp8(2, 5, 1),
    Cfp8(2, 5, 1, is_finite=True),
    Cfp8(6, 1, 31),
    Cfp8(6, 1, 100, is_finite=True),
    Cfp8(4, 3, 122),
    Cfp8(4, 3, 123),
    Cfp8(4, 3, 124),
    Cfp8(4, 3, 147),
    Cfp8(5, 2, -97),
]
CODES = np.arange(256, dtype=np.uint8)


@pytest.fixture(params=FORMS, ids=str)
def form(request):
    return request.param


def samples(form, count=40_000):
    """float32 around the format's range: ties, their neighbours, random ones, special ones."""
    rng = np.random.default_rng(3)
    values = np.unique(cfp8_decode(CODES, form))
    values = values[np.isfinite(values)].astype(np.float64)
    ties = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    exponents = rng.uniform(form.unit_exponent - 3, form.max_exponent + 2, count)
    spread = np.exp2(np.clip(exponents, -148, 127.9)) * rng.choice([-1, 1], count)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-45, -1e-45]
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return np.concatenate(
        [
            ties,
            np.nextafter(ties, up),
            np.nextafter(ties, down),
            spread.astype(np.float32),
            np.array(special, np.float32),
        ]
    )


def nearest(values, form):
    """The code by search among all values, ties to the even code, in float64."""
    positive = cfp8_decode(CODES[:128], form).astype(np.float64)
    finite = np.flatnonzero(np.isfinite(positive))
    assert (np.diff(positive[finite]) > 0).all()
    # One more value than there is: half way to it, and beyond, overflows.
    step = 2.0 ** (form.max_exponent - form.mantissa_bits)
    ladder = np.append(positive[finite], positive[finite[-1]] + step)
    magnitude = np.abs(values.astype(np.float64))
    above = np.searchsorted(ladder, magnitude).clip(1, len(ladder) - 1)
    below = above - 1
    to_below, to_above = magnitude - ladder[below], ladder[above] - magnitude
    code = np.where(to_below < to_above, below, above)
    code = np.where((to_below == to_above) & (below % 2 == 0), below, code)
    code = np.where(magnitude > ladder[-1], len(ladder) - 1, code)
    code = np.where(code == len(ladder) - 1, form.overflow_code, code)
    code = np.where(np.isnan(values), form.nan_code, code)
    return code | np.where(np.signbit(values), 0x80, 0)


@pytest.mark.parametrize("stored", SAME, ids=lambda d: d.__name__)
def test_the_formats_of_ml_dtypes_are_cases_of_it(stored):
    form = SAME[stored]
    with np.errstate(all="ignore"):
        expected = CODES.view(stored).astype(np.float32)
    np.testing.assert_array_equal(cfp8_decode(CODES, form), expected)
    bits = np.random.default_rng(0).integers(0, 2**32, 300_000, dtype=np.uint32)
    for values in (bits.view(np.float32), samples(form)):
        with np.errstate(all="ignore"):
            expected = values.astype(stored)
        np.testing.assert_array_equal(
            cfp8_decode(cfp8_encode(values, form), form), expected.astype(np.float32)
        )
        number = ~np.isnan(values)
        np.testing.assert_array_equal(
            cfp8_encode(values, form)[number], expected.view(np.uint8)[number]
        )


def test_encoding_finds_the_nearest_value(form):
    values = samples(form)
    np.testing.assert_array_equal(cfp8_encode(values, form), nearest(values, form))


def test_every_code_survives_decoding_and_encoding(form):
    values = cfp8_decode(CODES, form)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(cfp8_encode(values, form)[number], CODES[number])
    back = cfp8_encode(values[~number], form)
    assert np.isnan(cfp8_decode(back, form)).all()


def test_one_more_bias_halves_every_value():
    for exponent_bits in range(2, 7):
        mantissa_bits = 7 - exponent_bits
        one = cfp8_decode(CODES, Cfp8(exponent_bits, mantissa_bits, 5))
        other = cfp8_decode(CODES, Cfp8(exponent_bits, mantissa_bits, 6))
        np.testing.assert_array_equal(other, one / 2)


def test_an_ieee_format_overflows_to_infinity_and_a_finite_one_to_nan():
    values = np.array([1e9, -1e9, np.inf], np.float32)
    ieee = cfp8_decode(cfp8_encode(values, Cfp8(4, 3, 7)), Cfp8(4, 3, 7))
    assert ieee.tolist() == [np.inf, -np.inf, np.inf]
    finite = Cfp8(4, 3, 7, is_finite=True)
    assert np.isnan(cfp8_decode(cfp8_encode(values, finite), finite)).all()


def test_shapes_are_kept(form):
    for shape in ((), (3,), (2, 0), (2, 3)):
        codes = cfp8_encode(np.zeros(shape, np.float32), form)
        assert codes.shape == shape
        assert codes.dtype == np.uint8
        assert cfp8_decode(codes, form).shape == shape


@pytest.mark.parametrize("bits", [(1, 6), (7, 0), (4, 4), (3, 3), (0, 7)])
def test_fields_that_do_not_fill_a_byte_are_refused(bits):
    with pytest.raises(BadInput, match=r"legal: 2 to 6 exponent bits, and 7 bits in all"):
        Cfp8(*bits, 7)


def test_a_bias_that_leaves_float32_is_refused():
    Cfp8(4, 3, 147)
    with pytest.raises(BadInput, match=r"bias 148 .*from 2\*\*-150"):
        Cfp8(4, 3, 148)
    Cfp8(4, 3, -113)
    with pytest.raises(BadInput, match=r"beyond 2\*\*128"):
        Cfp8(4, 3, -114)
