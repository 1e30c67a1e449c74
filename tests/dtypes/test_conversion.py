"""The fast paths against ml_dtypes and numpy, bit for bit: every pattern, ten million float32."""

import ml_dtypes
import numpy as np
import pytest

from trnsim.dtypes import (
    BFLOAT16,
    BY_NAME,
    FLOAT4_E2M1FN,
    FLOAT8_E3M4,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT8_E8M0FNU,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    TFLOAT32,
    UINT8,
    round_to,
    to_float32,
)

BYTES = (FLOAT8_E3M4, FLOAT8_E4M3, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT8_E8M0FNU, FLOAT4_E2M1FN)
NARROW = (*BYTES, BFLOAT16, FLOAT16)
CHUNK, CHUNKS = 1_000_000, 10
# (largest, smallest above zero), by arithmetic on the fields.
DOCUMENTED_RANGE = {
    FLOAT8_E3M4: (15.5, 2**-6),
    FLOAT8_E4M3: (240, 2**-9),
    FLOAT8_E4M3FN: (448, 2**-9),
    FLOAT8_E5M2: (57344, 2**-16),
    FLOAT8_E8M0FNU: (2.0**127, 2.0**-127),
    FLOAT4_E2M1FN: (6, 0.5),
}


@pytest.fixture(params=NARROW, ids=str)
def dtype(request):
    return request.param


def raw(stored):
    return stored.view(f"u{stored.itemsize}")


def cast(values, dtype):
    """What ml_dtypes, or numpy for float16, makes of `values`."""
    with np.errstate(all="ignore"):
        return values.astype(dtype.dtype)


def assert_same(got, want):
    """Equal bits, or NaN on both sides."""
    differ = np.flatnonzero(raw(got) != raw(want))
    if differ.size:
        with np.errstate(all="ignore"):
            both = np.isnan(got[differ].astype(np.float32)) & np.isnan(
                want[differ].astype(np.float32)
            )
        assert both.all(), f"{(~both).sum()} of {got.size} differ"


def random_float32(chunk):
    """A chunk of float32: raw bit patterns, or normals over forty binades."""
    rng = np.random.default_rng(chunk)
    if chunk % 2:
        return rng.integers(0, 2**32, CHUNK, dtype=np.uint32).view(np.float32)
    scale = np.exp2(rng.integers(-20, 20, CHUNK)).astype(np.float32)
    return rng.standard_normal(CHUNK, np.float32) * scale


def test_every_pattern_decodes_as_ml_dtypes_decodes_it(dtype):
    bits = 8 * dtype.itemsize
    stored = np.arange(2**bits, dtype=f"u{dtype.itemsize}").view(dtype.dtype)
    with np.errstate(all="ignore"):
        expected = stored.astype(np.float32)
    got = to_float32(stored)
    assert got.dtype == np.float32
    assert_same(got, expected)


@pytest.mark.slow
def test_ten_million_float32_encode_as_ml_dtypes_encodes_them():
    for chunk in range(CHUNKS):
        values = random_float32(chunk)
        for dtype in NARROW:
            got = round_to(values, dtype)
            assert got.dtype == dtype
            assert_same(got, cast(values, dtype))


@pytest.mark.parametrize("dtype", DOCUMENTED_RANGE, ids=str)
def test_formats_span_what_their_fields_say(dtype):
    largest, smallest = DOCUMENTED_RANGE[dtype]
    patterns = 16 if dtype is FLOAT4_E2M1FN else 256
    values = to_float32(np.arange(patterns, dtype=np.uint8).view(dtype.dtype))
    finite = values[np.isfinite(values) & (values > 0)]
    assert (finite.max(), finite.min()) == (np.float32(largest), np.float32(smallest))


def test_each_float32_next_to_a_tie_goes_to_the_right_side(dtype):
    stored = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype.dtype)
    values = np.unique(to_float32(stored))
    values = values[np.isfinite(values)].astype(np.float64)
    middle = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    for nearby in (middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, 0)):
        assert_same(round_to(nearby, dtype), cast(nearby, dtype))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (5, 0), (3, 5), (2, 3, 7)])
def test_shapes_are_kept(dtype, shape):
    values = np.full(shape, 2, np.float32)
    stored = round_to(values, dtype)
    assert stored.shape == to_float32(stored).shape == shape
    assert stored.dtype == dtype
    np.testing.assert_array_equal(to_float32(stored), values)


def test_views_convert_like_their_copies(dtype):
    values = np.exp2(np.random.default_rng(0).standard_normal((6, 9, 10))).astype(np.float32)
    for view in (values.T, values[::2, :, ::-3], np.broadcast_to(values[:, :1], values.shape)):
        stored = round_to(view, dtype)
        np.testing.assert_array_equal(raw(stored), raw(round_to(view.copy(), dtype)))
        turned = stored.T
        np.testing.assert_array_equal(to_float32(turned), to_float32(turned.copy()))


def test_arguments_are_not_written_to(dtype):
    values = np.array([1.7, np.nan, np.inf, -3e38, 1e-40], np.float32)
    before = values.tobytes()
    stored = round_to(values, dtype)
    after = stored.tobytes()
    to_float32(stored)
    assert (values.tobytes(), stored.tobytes()) == (before, after)


def test_every_source_format_reaches_every_narrow_format_by_one_rounding(dtype):
    for source in (*NARROW, INT8, UINT8, INT32, FLOAT32, TFLOAT32):
        values = round_to(np.array([1, 2, 64, 0.5, 1.5], np.float32), source)
        expected = cast(values.astype(np.float32), dtype)
        assert_same(round_to(values, dtype), expected)


def test_a_float64_becomes_the_float32_that_engines_hold_and_then_rounds(dtype):
    values = np.array([1 + 2**-8 + 2**-40, 1 + 2**-11 + 2**-40, 1e300, -1e300, 0.1])
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    assert_same(round_to(values, dtype), cast(single, dtype))


def test_signalling_nans_stay_nan_without_a_warning(dtype):
    values = np.array([0x7F800001, 0xFF800001, 0x7FA00000], np.uint32).view(np.float32)
    stored = round_to(values, dtype)
    if dtype is not FLOAT4_E2M1FN:  # which has no NaN
        assert np.isnan(to_float32(stored)).all()
    assert np.isnan(round_to(values, TFLOAT32)).all()
    assert round_to(values, INT8).tolist() == [0, 0, 0]
    half = np.array([0x7D00], np.uint16).view(np.float16)
    assert np.isnan(to_float32(half)).all()


def test_float4_has_sixteen_values_and_saturates():
    codes = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    positive = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert to_float32(codes).tolist() == [*positive, *(-v for v in positive)]
    values = np.array([5, 100, -np.inf], np.float32)
    assert to_float32(round_to(values, FLOAT4_E2M1FN)).tolist() == [4, 6, -6]


def test_scales_are_powers_of_two_and_the_last_code_is_nan():
    # nki.language.float8_e8m0fnu: "unsigned, NaN represented by 0xFF".
    codes = np.arange(256, dtype=np.uint8)
    values = to_float32(codes.view(ml_dtypes.float8_e8m0fnu))
    assert values[:255].tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert np.isnan(values[255])
    assert BY_NAME["float8_e8m0fnu"] is FLOAT8_E8M0FNU


def test_the_integer_ends_that_float32_lacks_are_reached():
    values = np.array([2147483520, 3e9, -3e9, 2**31, -(2**31)], np.float32)
    top, bottom = 2**31 - 1, -(2**31)
    assert round_to(values, INT32).tolist() == [2147483520, top, bottom, top, bottom]
