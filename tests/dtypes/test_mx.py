"""MX blocks against the text of OCP and AWS, written out element by element."""

import math

import ml_dtypes
import numpy as np
import pytest

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT4_E2M1FN,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    MX_BLOCK,
    mx_dequantize,
    mx_quantize,
    round_to,
    to_float32,
)
from trnsim.errors import IllegalInstruction, Unspecified

# nki.isa.quantize_mx: "8 for float8_e4m3fn and 15 for float8_e5m2"; mx_cpu_utils.py: 2 for FP4.
EMAX = {FLOAT8_E4M3FN: 8, FLOAT8_E5M2: 15, FLOAT4_E2M1FN: 2}
RULES = ("aws", "ocp")


@pytest.fixture(params=EMAX, ids=str)
def element(request):
    return request.param


@pytest.fixture(params=RULES)
def rule(request):
    return request.param


def ladder(element):
    """(magnitude, code) of every finite value that is not negative, ascending."""
    codes = range(8) if element is FLOAT4_E2M1FN else range(128)
    raw = np.array(codes, np.uint8).view(element.dtype)
    pairs = [(float(value), code) for value, code in zip(raw, codes, strict=True)]
    return [(value, code) for value, code in pairs if math.isfinite(value)]


def reference(block, element, rule):
    """One block by the text: (element values, scale exponent)."""
    largest = max(abs(value) for value in block)
    emax = EMAX[element] - (rule == "aws")
    exponent = math.frexp(largest)[1] - 1 - emax if largest else -127
    exponent = min(max(exponent, -127), 127)
    values = ladder(element)
    result = []
    for value in block:
        # What exceeds the largest value is clamped to it, the sign preserved; then the nearest, a
        # tie to the even code.
        scaled = min(abs(value) / 2.0**exponent, values[-1][0])
        found = min(values, key=lambda pair: (abs(pair[0] - scaled), pair[1] % 2))
        result.append(math.copysign(found[0], value))
    return result, exponent


def blocks(count, seed=0):
    """Blocks of bfloat16 values over many magnitudes, with zeros and ties among them."""
    rng = np.random.default_rng(seed)
    scale = np.exp2(rng.integers(-30, 30, (count, 1)))
    spread = np.exp2(rng.integers(-12, 1, (count, MX_BLOCK)))
    values = rng.standard_normal((count, MX_BLOCK)) * scale * spread
    values[rng.random(values.shape) < 0.1] = 0
    return round_to(values.astype(np.float32), BFLOAT16)


@pytest.mark.slow_but_every(3)
def test_blocks_follow_the_text(element, rule):
    given = blocks(150)
    got = mx_quantize(given, element, rule)
    assert got.elements.dtype == element
    assert got.scales.dtype == ml_dtypes.float8_e8m0fnu
    assert got.scales.shape == (150,)
    for number, block in enumerate(to_float32(given).tolist()):
        values, exponent = reference(block, element, rule)
        assert to_float32(got.elements[number]).tolist() == values
        assert got.scales.view(np.uint8)[number] == exponent + 127


def test_the_scale_of_aws_is_twice_that_of_ocp(element):
    given = blocks(50)
    aws, ocp = (to_float32(mx_quantize(given, element, rule).scales) for rule in RULES)
    np.testing.assert_array_equal(aws, 2 * ocp)


def test_the_rule_of_aws_is_the_default():
    given = blocks(3)
    default, aws = mx_quantize(given, FLOAT8_E5M2), mx_quantize(given, FLOAT8_E5M2, "aws")
    np.testing.assert_array_equal(default.scales.view(np.uint8), aws.scales.view(np.uint8))


def test_only_the_rule_of_ocp_saturates():
    # nki.isa.quantize_mx: the larger scale reserves "additional range for rounding the largest
    # values in each group without saturation".
    block = np.full((1, MX_BLOCK), 1.96875, np.float32)
    values = {rule: mx_dequantize(*mx_quantize(block, FLOAT8_E4M3FN, rule))[0, 0] for rule in RULES}
    assert values == {"aws": 2.0, "ocp": 1.75}


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, None], ids=str)
def test_an_all_zero_block_has_the_smallest_scale(element, rule, dtype):
    # nki.isa.quantize_mx: "For an all-zero group ... the block scale is set to X = 2**-127".
    zeros = np.zeros((2, MX_BLOCK), np.float32 if dtype is None else dtype.dtype)
    got = mx_quantize(zeros, element, rule)
    assert got.scales.view(np.uint8).tolist() == [0, 0]
    assert not to_float32(got.elements).any()


def test_scales_stop_at_the_ends_of_their_format(element, rule):
    tiny = np.full((1, MX_BLOCK), 2.0**-149, np.float32)
    assert mx_quantize(tiny, element, rule).scales.view(np.uint8)[0] == 0
    huge = np.full((1, MX_BLOCK), 2e38, np.float32)
    got = mx_quantize(huge, element, rule)
    assert got.scales.view(np.uint8)[0] == 254 - EMAX[element] + (rule == "aws")
    assert np.isfinite(mx_dequantize(*got)).all()


@pytest.mark.parametrize("seed", range(3))
def test_quantizing_what_was_dequantized_changes_nothing(element, seed):
    once = mx_quantize(blocks(200, seed), element, "ocp")
    values = mx_dequantize(*once)
    again = mx_quantize(values, element, "ocp")
    np.testing.assert_array_equal(mx_dequantize(*again), values)


def test_the_error_is_at_most_half_a_unit_of_the_largest_value(element):
    given = blocks(300)
    wide = to_float32(given).astype(np.float64)
    back = mx_dequantize(*mx_quantize(given, element)).astype(np.float64)
    largest = np.abs(wide).max(axis=-1, keepdims=True)
    unit = np.exp2(np.frexp(largest)[1] - 1 - element.mantissa_bits)
    assert (np.abs(back - wide) <= unit / 2).all()


def test_dequantizing_multiplies_by_the_scale(element):
    codes = np.arange(MX_BLOCK, dtype=np.uint8) % 16
    elements = np.stack([codes, codes]).view(element.dtype)
    scales = np.array([0, 130], np.uint8)
    expected = to_float32(elements) * np.array([[2.0**-127], [8]], np.float32)
    for given in (scales, scales.view(ml_dtypes.float8_e8m0fnu)):
        np.testing.assert_array_equal(mx_dequantize(elements, given), expected)


def test_a_scale_of_nan_makes_the_whole_block_nan(element):
    elements = np.zeros((2, MX_BLOCK), element)
    values = mx_dequantize(elements, np.array([255, 127], np.uint8))
    assert np.isnan(values[0]).all()
    assert not values[1].any()


def test_blocks_may_have_any_leading_axes(element):
    given = blocks(24)
    flat = mx_quantize(given, element)
    deep = mx_quantize(given.reshape(2, 3, 4, MX_BLOCK), element)
    assert deep.scales.shape == (2, 3, 4)
    np.testing.assert_array_equal(deep.scales.ravel().view(np.uint8), flat.scales.view(np.uint8))
    assert mx_dequantize(*deep).shape == (2, 3, 4, MX_BLOCK)
    assert mx_quantize(given[0], element).scales.shape == ()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_aws_does_not_say_about_infinities_and_nan_is_not_guessed(element, bad):
    values = np.ones((2, MX_BLOCK), np.float32)
    values[1, 5] = bad
    with pytest.raises(Unspecified, match="infinity or a NaN"):
        mx_quantize(values, element)


def test_other_lengths_and_formats_are_refused():
    for shape in ((31,), (2, 33), ()):
        with pytest.raises(IllegalInstruction, match="legal: a last axis of 32"):
            mx_quantize(np.zeros(shape, np.float32), FLOAT8_E5M2)
    with pytest.raises(
        IllegalInstruction, match="float8_e4m3 is not an MX element; legal: float8_e4m3fn"
    ):
        mx_quantize(np.zeros(32, np.float32), FLOAT8_E4M3)
    with pytest.raises(IllegalInstruction, match="float32 is not an MX element"):
        mx_dequantize(np.zeros(32, np.float32), np.zeros((), np.uint8))
    elements = np.zeros((2, 32), FLOAT8_E5M2)
    for scales in (np.zeros(3, np.uint8), np.zeros(2, np.float32)):
        with pytest.raises(IllegalInstruction, match=r"uint8 of shape \(2,\)"):
            mx_dequantize(elements, scales)
