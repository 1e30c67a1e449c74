"""Operations on each element, at edge values of their types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agreeing import BFLOAT16, BLOCK, EDGES, WHOLE, agree, agree_text, module_of, names, parsed
from jax import lax

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

FUNCTIONS = (
    *("abs", "cbrt", "ceil", "cos", "exp", "expm1", "floor", "is_finite", "log", "log1p"),
    *("logistic", "neg", "round", "rsqrt", "sign", "sin", "sqrt", "tan", "tanh"),
)
ARITHMETIC = ("add", "sub", "mul", "div", "max", "min", "rem")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
INTEGERS = ("int32", "uint32", "int16", "int8", "uint8")
ROUND = EDGES[:, ::-1].copy()


@pytest.mark.slow_but("exp", "neg", "round", "logistic", "tan")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name):
    agree(getattr(lax, name), EDGES, tolerance=2e-5)
    agree(getattr(lax, name), EDGES.astype(BFLOAT16), tolerance=2.0**-7)


@pytest.mark.slow_but("add", "rem", "max")
@pytest.mark.parametrize("name", ARITHMETIC)
def test_functions_of_two_numbers(name):
    function = getattr(lax, name)
    agree(function, EDGES, ROUND)
    agree(function, EDGES.astype(BFLOAT16), ROUND.astype(BFLOAT16), tolerance=2.0**-7)
    agree(function, WHOLE, WHOLE[:, ::-1].copy())
    agree(function, WHOLE.astype("uint8"), WHOLE[:, ::-1].astype("uint8"))


def test_powers_and_angles():
    agree(lax.pow, EDGES, ROUND, tolerance=2e-5)
    agree(lambda x: x**3, WHOLE % 50)
    agree(lax.atan2, EDGES, ROUND)
    agree(lax.atan2, ROUND, EDGES)


@pytest.mark.slow_but("uint32")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype):
    given = WHOLE.astype(dtype), WHOLE[:, ::-1].astype(dtype)
    for name in (*BITS, *SHIFTS):
        agree(getattr(lax, name), *given)
    for name in ("clz", "population_count", "bitwise_not"):
        agree(getattr(lax, name), given[0])


@pytest.mark.parametrize("number", [0xF0000000, 0x70000000])
def test_a_shift_that_keeps_the_highest_bit_of_one_unsigned_number(number):
    places = np.array([0, 1, 5, 31, 32], np.uint32)
    agree(lambda x: lax.shift_right_arithmetic(jnp.full(5, number, jnp.uint32), x), places)


def test_logic_of_truth_values():
    given = EDGES > 0, ROUND > 0
    agree(lambda x, y: (x & y, x | y, x ^ y, ~x), *given)


@pytest.mark.slow_but("eq", "lt")
@pytest.mark.parametrize("direction", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(direction):
    function = getattr(lax, direction)
    agree(function, EDGES, ROUND)
    agree(function, WHOLE, WHOLE[:, ::-1].copy())
    agree(function, WHOLE.astype("uint32"), WHOLE[:, ::-1].astype("uint32"))
    agree(lambda x: function(x, jnp.ones_like(x)), EDGES)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_comparisons_in_a_total_order(dtype):
    shape = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[dtype]
    given = [one.astype(jnp.dtype(dtype)) for one in (EDGES, ROUND)]
    text = f"""func.func public @main(%a: tensor<2x6x{shape}>, %b: tensor<2x6x{shape}>)
      -> tensor<2x6xi1> {{
      %0 = stablehlo.compare LT, %a, %b, TOTALORDER
        : (tensor<2x6x{shape}>, tensor<2x6x{shape}>) -> tensor<2x6xi1>
      return %0 : tensor<2x6xi1> }}"""
    agree_text(text, *given)


def test_bounds_that_are_numbers_and_tensors():
    agree(
        lambda x, y: (lax.clamp(-1.0, x, 2.0), lax.clamp(y, x, y + 1), jnp.clip(x, y[1, 2], 3)),
        np.nan_to_num(EDGES),
        np.nan_to_num(ROUND),
    )


def test_choices():
    agree(
        lambda x, y: (
            jnp.where(x > y, x, y),
            lax.select(x[0, 2] > 9, x, y),
            jnp.where(x > y, 1.0, 2.0),
            jnp.where(True, x, y),
        ),
        EDGES,
        ROUND,
    )


@pytest.mark.slow_but("int32", "bfloat16", "bool")
@pytest.mark.parametrize("to", ["int32", "uint8", "int8", "bfloat16", "float16", "bool"])
def test_conversions(to):
    agree(lambda x: x.astype(to), EDGES)
    agree(lambda x: x.astype(to), WHOLE)
    with np.errstate(over="ignore"):
        given = WHOLE.astype(jnp.dtype(to))
    agree(lambda x: x.astype("float32"), given)


@pytest.mark.parametrize("to", ["float8_e4m3fn", "float8_e5m2"])
def test_conversions_to_eight_bits(to):
    agree(lambda x: x.astype(to), np.array([0.0, 1.06, -3.3, 240, 0.001], np.float32))


def test_bits_as_another_type():
    agree(
        lambda x: (
            lax.bitcast_convert_type(x, jnp.int32),
            lax.bitcast_convert_type(x, jnp.uint8),
            lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.int16), jnp.float32),
        ),
        EDGES,
    )


@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 23), (8, 7), (5, 10), (5, 2)])
def test_precision_that_a_format_has(exponent, mantissa):
    agree(lambda x: lax.reduce_precision(x, exponent, mantissa), EDGES)


def test_another_precision_is_refused():
    module = module_of(lambda x: lax.reduce_precision(x, 6, 9), EDGES)
    with pytest.raises(NotModelled, match=r"^stablehlo\.reduce_precision: reduce_precision to 6 e"):
        graph_of(module)


def test_a_body_of_a_map():
    text = """func.func public @main(%a: tensor<2x6xf32>, %b: tensor<2x6xf32>) -> tensor<2x6xf32> {
      %0 = "stablehlo.map"(%a, %b) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %two = stablehlo.constant dense<2.0> : tensor<f32>
          %1 = stablehlo.multiply %x, %two : tensor<f32>
          %2 = stablehlo.add %1, %y : tensor<f32>
          stablehlo.return %2 : tensor<f32>
      }) {dimensions = array<i64: 0, 1>}
        : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
      return %0 : tensor<2x6xf32> }"""
    agree_text(text, EDGES, ROUND)


def test_what_changes_nothing_is_left_out():
    """A NaN and the sign of a zero stay, so these numbers are neutral; 0 is not, beside -0."""
    found = agree(
        lambda x: (jnp.maximum(-jnp.inf, x) * 1 / 1 - 0, x + 0, jnp.minimum(x, jnp.inf)), EDGES
    )
    assert names(found) == ["add"]


@pytest.mark.slow_cases("bfloat16")
@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_a_logistic_that_jax_writes_out_is_one(dtype):
    found = agree(jax.nn.sigmoid, EDGES.astype(dtype), tolerance=2.0**-7)
    assert names(found) == ["logistic"]
    others = (
        lambda x: 1 / (1 + jnp.exp(x)),
        lambda x: 1 / (2 + jnp.exp(-x)),
        lambda x: 2 / (1 + jnp.exp(-x)),
        lambda x: 1 / (x + jnp.exp(-x)),
        lambda x: (1 + jnp.exp(-x)) / 1.5,
    )
    for function in others:
        assert "logistic" not in names(agree(function, BLOCK.astype(dtype), tolerance=2.0**-4))


def test_what_is_known_is_computed_at_once():
    found = agree(lambda x: x * (jnp.float32(3) + 4 * jnp.sin(jnp.float32(1))), EDGES)
    assert names(found) == ["multiply"]
    bits = agree(lambda x: x + jnp.array([1, 2, 3, 4, 5, 6]) * 2, WHOLE)
    assert [one.tolist() for one in bits.constants.values()] == [[2, 4, 6, 8, 10, 12]]


def test_an_operation_of_long_integers_is_refused():
    text = """func.func public @main(%a: tensor<3xui32>) -> tensor<3xui32> {
      %0 = stablehlo.convert %a : (tensor<3xui32>) -> tensor<3xui64>
      %1 = stablehlo.divide %0, %0 : tensor<3xui64>
      %2 = stablehlo.convert %1 : (tensor<3xui64>) -> tensor<3xui32>
      return %2 : tensor<3xui32> }"""
    with pytest.raises(NotModelled, match=r"^stablehlo\.divide: divide of integers of 64 bits"):
        graph_of(parsed(text))


def test_a_choice_of_true_and_false_is_what_it_chooses_by():
    found = agree(lambda x: jnp.tril(jnp.ones((3, 4), bool)) & (x[0, :3] > 0), BLOCK)
    assert "select" not in names(found)


def test_minus_zero_is_subtracted():
    text = """func.func public @main(%a: tensor<2x6xf32>) -> tensor<2x6xf32> {
      %zero = stablehlo.constant dense<-0.0> : tensor<2x6xf32>
      %0 = stablehlo.subtract %a, %zero : tensor<2x6xf32>
      return %0 : tensor<2x6xf32> }"""
    imported = agree_text(text, EDGES)
    (difference,) = imported.reference([EDGES])
    assert np.signbit(EDGES[0, 1])
    assert not np.signbit(difference[0, 1])  # -0 - -0
