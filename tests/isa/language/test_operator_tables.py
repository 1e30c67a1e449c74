"""The tables of ALU operators and activation functions, against AWS's tables and numpy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import FLOAT32
from trnsim.isa import Activation
from trnsim.isa.language.operator_tables import ACTIVATIONS, ALU
from trnsim.isa.numerics import activation_functions

# nki.api.shared.rst, Supported Math Operators for NKI ISA.
BITVEC = {"invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
UNARY = {"invert", "abs", "square", "relu", "rsqrt", "reciprocal", "bypass"}
REDUCES = {
    "bitwise_and", "bitwise_or", "bitwise_xor", "add", "subtract", "multiply", "maximum",
    "minimum", "logical_and", "logical_or", "logical_xor",
}  # fmt: skip
BINARY = {
    "equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "power", "abs_max",
    "abs_min",
}  # fmt: skip
# nki.api.shared.rst, Supported Activation Functions for NKI ISA.
PUBLISHED_ACTIVATIONS = {
    "copy", "square", "sigmoid", "relu", "prelu", "gelu", "gelu_dx", "gelu_apprx_tanh",
    "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "silu", "silu_dx", "tanh", "softplus", "mish",
    "erf", "erf_dx", "exp", "log", "sin", "arctan", "sqrt", "rsqrt", "reciprocal", "sign", "abs",
}  # fmt: skip
RANGES = {
    "log": (2.0**-64, 2.0**64),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
}
# nki.api.shared.rst of SDK 2.26, Supported Engine; the release notes of NKI 0.4 for v4.
ENGINES = {
    "add": {"vector", "gpsimd", "scalar"},
    "multiply": {"vector", "gpsimd", "scalar"},
    "power": {"gpsimd"},
    "rsqrt": {"gpsimd", "scalar"},
    "reciprocal": {"vector", "scalar"},
    "abs": {"vector", "scalar"},
    "bypass": {"scalar"},
}
FROM_V4 = {"abs_max", "abs_min", "square", "relu", "bypass"}
ORACLES = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "maximum": max,
    "minimum": min,
    "equal": lambda x, y: float(x == y),
    "not_equal": lambda x, y: float(x != y),
    "greater_equal": lambda x, y: float(x >= y),
    "greater": lambda x, y: float(x > y),
    "less_equal": lambda x, y: float(x <= y),
    "less": lambda x, y: float(x < y),
    "logical_and": lambda x, y: float(bool(x) and bool(y)),
    "logical_or": lambda x, y: float(bool(x) or bool(y)),
    "logical_xor": lambda x, y: float(bool(x) != bool(y)),
    "abs_max": lambda x, y: x if abs(x) > abs(y) else y,
    "abs_min": lambda x, y: x if abs(x) < abs(y) else y,
    "abs": abs,
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0.0),
    "bypass": lambda x: x,
}
ACTIVATION_ORACLES = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "exp": math.exp,
    "sign": lambda x: math.copysign(1, x) if x else 0.0,
    "abs": abs,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "arctan": math.atan,
}
IN_FUNCTIONS = {  # tested there
    "sigmoid", "prelu", "gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "silu",
    "gelu_apprx_sigmoid_dx", "silu_dx", "softplus", "mish", "erf", "erf_dx", "sin",
}  # fmt: skip
moderate = st.floats(-20, 20, width=32)


def test_the_alu_has_the_published_operators():
    assert set(ALU) == BITVEC | UNARY | REDUCES | BINARY
    assert {name for name, op in ALU.items() if op.is_bitvec} == BITVEC
    assert {name for name, op in ALU.items() if op.arity == 1} == UNARY
    assert {name for name, op in ALU.items() if op.reduce is not None} == REDUCES
    assert all(op.name == name for name, op in ALU.items())


def test_operators_know_their_engines():
    for name, row in ALU.items():
        assert {engine.name for engine in row.engines} == ENGINES.get(name, {"vector"}), name


def test_every_operator_is_one_that_some_core_has(core_v3, core_v4):
    assert core_v4.features.alu_operators == set(ALU)
    assert set(ALU) - core_v3.features.alu_operators == FROM_V4


def test_abs_max_and_abs_min_keep_the_sign_and_prefer_the_second_of_equals():
    x, y = np.array([-5.0, 1.0], np.float32), np.array([3.0, -1.0], np.float32)
    assert ALU["abs_max"].apply(x, y).tolist() == [-5.0, -1.0]
    assert ALU["abs_min"].apply(x, y).tolist() == [3.0, -1.0]
    assert ALU["abs_max"].apply(x, 3.0).dtype == np.float32


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", ORACLES)
@given(x=moderate, y=moderate, same=st.booleans())
def test_an_operator_is_its_formula_in_float32(name, x, y, same):
    y = x if same else y
    operands = (x,) if name in UNARY else (x, y)
    result = ALU[name].apply(*(np.array([v], np.float32) for v in operands))
    assert result.dtype == np.float32
    assert result[0] == np.float32(ORACLES[name](*operands))


@pytest.mark.parametrize("name", ["power", "rsqrt", "reciprocal"])
@given(x=st.floats(0.125, 16, width=32), y=st.floats(-3, 3, width=32))
def test_powers_and_roots_are_within_rounding_of_float64(name, x, y):
    exact = {"power": x**y, "rsqrt": x**-0.5, "reciprocal": 1 / x}[name]
    operands = (x, y) if name == "power" else (x,)
    result = ALU[name].apply(*(np.array([v], np.float32) for v in operands))
    assert result[0] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
@given(data=st.data())
def test_bitvec_operators_work_on_bits_as_they_are_stored(dtype, data):
    bits = 8 * np.dtype(dtype).itemsize
    x, y = (data.draw(st.integers(0, 2**bits - 1)) for _ in range(2))
    shift = data.draw(st.integers(0, bits - 1))
    mask = 2**bits - 1
    expected = {
        "bitwise_and": (x & y, y),
        "bitwise_or": (x | y, y),
        "bitwise_xor": (x ^ y, y),
        "left_shift": (x << shift & mask, shift),
        "right_shift": (x >> shift, shift),  # logical: zeros enter for signed integers too
        "invert": (~x & mask, None),
    }
    for name, (result, operand) in expected.items():
        operands = (x,) if operand is None else (x, operand)
        found = ALU[name].apply(*(np.array([v], f"u{bits // 8}").view(dtype) for v in operands))
        assert found.dtype == dtype
        assert found.view(f"u{bits // 8}")[0] == result, name


@pytest.mark.parametrize("name", sorted(REDUCES - BITVEC))
@given(values=st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 3.0]), min_size=1, max_size=8))
def test_a_reduction_is_its_operator_from_left_to_right(name, values):
    expected = np.float32(ORACLES["logical_or"](values[0], 0) if "logical" in name else values[0])
    for value in values[1:]:
        expected = ORACLES[name](expected, value)
    row = np.array([values], np.float32)
    assert ALU[name].reduce(row, axis=-1)[0] == expected
    assert ALU[name].reduce(row, axis=-1).dtype == np.float32


@pytest.mark.parametrize("name", sorted(REDUCES & BITVEC))
def test_a_bitvec_reduction_keeps_the_dtype(name):
    row = np.array([[12, 10, 7]], np.uint8)
    expected = {"bitwise_and": 0, "bitwise_or": 15, "bitwise_xor": 12 ^ 10 ^ 7}[name]
    assert ALU[name].reduce(row, axis=-1).tolist() == [expected]
    assert ALU[name].reduce(row, axis=-1).dtype == np.uint8


@pytest.mark.parametrize(("x", "y", "power"), [(3, 4, 81), (-2, 3, -8), (2, -1, 0), (7, 0, 1)])
def test_integer_powers_take_any_exponent(x, y, power):
    assert ALU["power"].apply(np.array([x], np.int32), np.array([y], np.int32)).tolist() == [power]


def test_every_published_activation_is_there():
    assert set(ACTIVATIONS) == PUBLISHED_ACTIVATIONS
    assert set(ACTIVATIONS) == set(ACTIVATION_ORACLES) | IN_FUNCTIONS
    assert all(function.name == name for name, function in ACTIVATIONS.items())
    assert [name for name, row in ACTIVATIONS.items() if row.takes_relu_param] == ["prelu"]
    for name in IN_FUNCTIONS - {"sin"}:
        assert ACTIVATIONS[name].apply is getattr(activation_functions, name)
    assert ACTIVATIONS["sin"].apply is activation_functions.sine


def test_functions_without_polynomials_need_no_table_and_the_others_one():
    without = {name for name, function in ACTIVATIONS.items() if not function.table}
    assert without == {"copy", "square", "relu", "prelu", "sign", "abs"}
    together = [("exp", "log"), ("gelu", "gelu_dx", "gelu_apprx_tanh"), ("silu", "sigmoid")]
    for names in together:
        assert len({ACTIVATIONS[name].table for name in names}) == 1
    assert len({function.table for function in ACTIVATIONS.values()}) == 13


@pytest.mark.parametrize("name", ACTIVATION_ORACLES)
@given(x=moderate)
def test_an_activation_is_within_float32_of_its_formula(name, x):
    x = max(abs(x), 1e-3) if name in RANGES and name != "arctan" else x
    result = ACTIVATIONS[name].apply(np.array([x], np.float32)).astype(np.float32)[0]
    assert result == pytest.approx(
        ACTIVATION_ORACLES[name](float(np.float32(x))), rel=1e-5, abs=1e-6
    )


def test_saturated_activations_raise_no_warning():
    far = np.array([-1e4, 1e4], np.float32)
    assert ACTIVATIONS["sigmoid"].apply(far).tolist() == [0.0, 1.0]
    assert ACTIVATIONS["softplus"].apply(far).tolist() == [0.0, 1e4]
    assert ALU["reciprocal"].apply(np.zeros(1, np.float32))[0] == np.inf


def test_an_exponential_beyond_float32_is_infinite_and_raises_no_warning(bench):
    work = bench()
    dst = work.issue(Activation(work.empty((1, 2)), "exp", work.tile([[-1e4, 1e4]], FLOAT32)))
    assert dst.load().tolist() == [[0.0, np.inf]]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_valid_ranges_are_the_published_ones_and_include_their_ends(name):
    function = ACTIVATIONS[name]
    low, high = RANGES.get(name, (-np.inf, np.inf))
    assert (function.low, function.high) == (low, high)
    assert function.is_legal(np.array([low, high], np.float32))
    if name in RANGES and name != "sin":
        below, above = (
            np.nextafter(np.float32(low), np.float32(-np.inf)),
            np.nextafter(np.float32(high), np.float32(np.inf)),
        )
        assert not function.is_legal(np.array([below], np.float32))
        assert not function.is_legal(np.array([above], np.float32))
        assert not function.is_legal(np.array([np.nan], np.float32))
        assert not function.is_legal(np.array([low, above], np.float32))
        assert not function.is_legal(np.array([low, np.nan, high], np.float32))
        negatives = name in ("reciprocal", "arctan")
        assert function.is_legal(np.array([-low], np.float32)) is negatives


def test_zero_has_a_root_but_no_logarithm_and_no_reciprocal():
    zeros = np.array([0.0, -0.0, 1.0], np.float32)
    assert ACTIVATIONS["sqrt"].is_legal(zeros)
    assert ACTIVATIONS["sqrt"].apply(zeros).tolist() == [0.0, 0.0, 1.0]
    for name in ("log", "rsqrt", "reciprocal"):
        assert not ACTIVATIONS[name].is_legal(zeros)


def test_the_sine_is_legal_outside_its_range_where_aws_says_what_it_gives():
    assert ACTIVATIONS["sin"].is_legal(np.array([9.0, -100.0], np.float32))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.uint32])
@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_shifts_beyond_the_word_give_zeros(name, dtype):
    """As docs/limits.md says."""
    bits = np.dtype(dtype).itemsize * 8
    x = np.array([1, 3, 100], dtype)
    for places in (bits, bits + 1, 2 * bits):
        found = ALU[name].apply(x, np.full(3, places).astype(dtype))
        np.testing.assert_array_equal(found, 0)
