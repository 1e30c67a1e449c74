import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device.numerics import numerics

aten = torch.ops.aten
X = torch.linspace(-3, 3, 24).reshape(4, 6)
Y = torch.linspace(0.1, 2, 24).reshape(4, 6)
ROW, COLUMN = torch.linspace(-1, 1, 6), torch.linspace(0.5, 2, 4)[:, None]
UNARY_ANYWHERE = [
    "abs",
    "neg",
    "exp",
    "tanh",
    "sigmoid",
    "sin",
    "atan",
    "floor",
    "ceil",
    "sign",
    "expm1",
    "erf",
    "square",
    "relu",
    "exp2",
    "sinh",
    "cosh",
    "asinh",
    "trunc",
    "isnan",
    "isinf",
    "cos",
]
UNARY_POSITIVE = ["log", "sqrt", "rsqrt", "log1p", "reciprocal", "log2", "log10"]
UNARY_WITHIN_ONE = ["asin", "acos", "atanh", "tan"]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "fmax",
    "fmin",
]


@pytest.mark.parametrize("name", UNARY_ANYWHERE)
def test_functions_of_one_tensor(agree, name):
    agree(getattr(torch, name), X, tolerance=2.0**-16)


@pytest.mark.parametrize("name", UNARY_POSITIVE)
def test_functions_of_positive_numbers(agree, name):
    agree(getattr(torch, name), Y, tolerance=2.0**-16)


@pytest.mark.parametrize("name", UNARY_WITHIN_ONE)
def test_functions_of_small_numbers(agree, name):
    agree(getattr(torch, name), X / 4, tolerance=2.0**-16)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", [Y, ROW, COLUMN, Y.t().contiguous().t(), 0.5], ids=str)
def test_functions_of_two_tensors_broadcast(agree, name, other):
    if not isinstance(other, torch.Tensor) and name in ("maximum", "minimum", "fmax", "fmin"):
        other = torch.tensor([other])
    agree(getattr(torch, name), X, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_float32_and_rounded_once(agree, dtype):
    agree(lambda x, y: x * y + x, X.to(dtype), Y.to(dtype), tolerance=2.0**-8)


def test_integers_stay_exact(agree):
    whole = torch.arange(-12, 12, dtype=torch.int32) * 40_000_003
    agree(torch.add, whole, torch.ones_like(whole), tolerance=0)
    agree(torch.bitwise_not, whole > 0, tolerance=0)


def test_choices(agree):
    agree(torch.where, X > 0, X, Y)
    agree(lambda x: x.masked_fill(x > 1, -7.0), X)
    agree(lambda x: x.clamp(-1, 1), X)
    agree(lambda x: x.clamp(min=0.5), X)


def test_mixtures(agree):
    agree(torch.lerp, X, Y, 0.25)
    agree(lambda x, y: torch.addcmul(x, x, y, value=0.5), X, Y)
    # A tensor without dimensions is no reason for a wider result.
    agree(torch.addcmul, X.bfloat16(), Y.bfloat16(), torch.tensor(0.5), tolerance=2.0**-7)
    agree(lambda x, y: torch.addcdiv(x, x, y, value=0.5), X, Y)
    agree(lambda x, y: torch.sub(x, y, alpha=3), X, Y)
    agree(lambda x: 2 - x, X)


def test_rounding_and_steps(agree):
    agree(torch.round, X + 0.01)
    agree(F.elu, X, tolerance=2.0**-16)
    agree(torch.logical_xor, X > 0, Y > 1, tolerance=0)


def test_in_place_forms_write_their_argument(agree):
    agree(lambda x, y: x.clone().mul_(y).add_(1), X, Y)


def test_angles_in_every_quadrant(agree):
    agree(torch.atan2, X, Y - 1, tolerance=2.0**-14)


def test_inverse_hyperbolic_functions_of_large_numbers(agree):
    large = torch.tensor([1.0, 3.0, 1e4, 1e6, 1e15])
    agree(torch.acosh, large, tolerance=2.0**-14)
    agree(torch.asinh, torch.cat([large, -large, torch.zeros(2)]), tolerance=2.0**-14)


def test_angles_of_zeros_with_signs_and_of_infinities(agree):
    edges = torch.tensor([0.0, -0.0, 1.0, -2.5, torch.inf, -torch.inf])
    agree(torch.atan2, edges[:, None].repeat(1, 6), edges.repeat(6, 1), tolerance=2.0**-14)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_bits(agree, name, dtype):
    x, y = (X * 20).abs().to(dtype), (Y * 20).to(dtype)
    agree(getattr(torch, name), x, y, tolerance=0)
    agree(getattr(torch, name), x, y[:, :1], tolerance=0)
    if dtype is not torch.bool:
        agree(lambda x: getattr(torch, name)(x, 6), x, tolerance=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_shifts_of_bits(same, dtype):
    x = torch.tensor([-100, -1, 0, 1, 7, 100]).to(dtype)
    counts = torch.tensor([0, 1, 7, 8, 31, 3]).to(dtype)
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        same(shift, x.abs() if shift is torch.bitwise_left_shift else x, counts % 25)
        same(shift, x, counts % 8)
        same(lambda x, shift=shift: shift(x, 3), x)
    same(lambda x: (x >> 4) + (x << 1), x)
    same(lambda x: x.clone().__irshift__(1), x)


def test_what_is_not_finite_becomes_a_number(agree):
    x = torch.tensor([[1.0, float("inf"), -float("inf"), -2.5]])
    agree(lambda x: torch.nan_to_num(x, posinf=7.0, neginf=-8.0), x)


FUNCTIONS = {
    "frac": torch.frac,
    "signbit": torch.signbit,
    "copysign": lambda x: torch.copysign(x, -1.5),
    "hypot": lambda x: torch.hypot(x, x + 1),
    "heaviside": lambda x: torch.heaviside(x, x + 1),
    "xlogy": lambda x: torch.xlogy(x, x.abs() + 0.1),
    "logaddexp": lambda x: torch.logaddexp(x, 1 - x),
    "logaddexp2": lambda x: torch.logaddexp2(x, 1 - x),
    "logit": lambda x: torch.logit(x.abs() / 4, 0.1),
    "sinc": torch.sinc,
    "erfc": torch.erfc,
    "deg2rad": torch.deg2rad,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compositions(agree, name):
    agree(FUNCTIONS[name], X, tolerance=2.0**-13)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_compositions_give_the_dtype_of_what_they_are_given(agree, name, dtype):
    agree(FUNCTIONS[name], X.to(dtype), tolerance=2.0**-6)


@pytest.mark.parametrize(
    "y", [0.0, -0.0, 0.5, 1.0, -1.0, float("inf"), -float("inf"), float("nan")]
)
def test_a_number_whose_logarithm_is_no_number_is_multiplied_all_the_same(y):
    x = torch.tensor([[0.0, 1.0, -2.0, float("inf"), float("nan")]])
    with numerics("exact") as on_host:
        found = torch.xlogy(x.to("neuron"), y)
    assert not on_host
    torch.testing.assert_close(found.cpu(), torch.xlogy(x, y), equal_nan=True)


WHOLE = torch.tensor(
    [0.0, 0.5, 1.5, 2.5, 0.49999997, 7.0, 3e9, 2.0**23 + 1, 2.0**31, 1e20, float("inf")]
)
SIGNED = torch.cat((WHOLE, -WHOLE, torch.tensor([float("nan")]))).reshape(1, -1)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rounding_is_the_hosts_for_every_magnitude(name, dtype):
    x = SIGNED.to(dtype)
    with numerics("exact") as on_host:
        found = getattr(torch, name)(x.to("neuron")).cpu()
    assert not on_host
    expected = getattr(torch, name)(x)
    assert torch.equal(found.nan_to_num(-7), expected.nan_to_num(-7))
    is_number = ~expected.isnan()
    assert torch.equal(found.signbit()[is_number], expected.signbit()[is_number])


def test_fractions_have_the_sign_of_what_they_are_of(agree):
    x = torch.tensor([[0.25, -0.25, 1.75, -1.75, 8388607.5, 3e9, -3e9, 0.0]])
    agree(torch.frac, x, tolerance=0)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_many_turns_are_reduced(agree, name):
    angles = torch.linspace(-8e5, 8e5, 4096).reshape(64, 64)
    agree(getattr(torch, name), angles, tolerance=2.0**-21)


INF, NAN = float("inf"), float("nan")


INTEGERS = torch.tensor([7, -7, 2**31 - 1, -(2**31), 2**24 + 1, 0, 1], dtype=torch.int32)


def test_integers_beyond_24_bits_keep_all_their_bits(same):
    others = torch.tensor([1, 2**24, 1, 5, 2**24, -1, 2**31 - 1], dtype=torch.int32)
    for function in (torch.add, torch.sub, torch.mul, torch.eq, torch.lt, torch.maximum):
        same(function, INTEGERS, others)
    same(lambda x: x + 1, INTEGERS)
    same(lambda x: -x, INTEGERS)
    same(torch.bitwise_not, INTEGERS)
    same(torch.abs, INTEGERS)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_shorter_integers_wrap_around(same, dtype):
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.max, limits.min, 1, 100], dtype=dtype)
    for function in (torch.add, torch.sub, torch.mul):
        same(function, x, x.flip(0))
    same(torch.bitwise_not, x)


def test_an_extreme_of_two_leaves_nan_out_where_it_should(same):
    x, y = torch.tensor([NAN, 1.0, NAN, -0.5]), torch.tensor([2.0, NAN, NAN, 3.0])
    same(torch.fmax, x, y)
    same(torch.fmin, x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_infinities_become_the_largest_number_of_the_type(same, dtype):
    x = torch.tensor([INF, -INF, NAN, 1.0], dtype=dtype)
    same(torch.nan_to_num, x)
    same(torch.signbit, torch.tensor([-0.0, 0.0, -1.0, 2.0], dtype=dtype))


@pytest.mark.parametrize(("nan", "posinf", "neginf"), [(INF, 1.0, 2.0), (-INF, -INF, INF)])
def test_what_takes_the_place_of_an_infinity_is_not_replaced_again(same, nan, posinf, neginf):
    x = torch.tensor([INF, -INF, NAN, 1.0])
    same(lambda x: torch.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf), x)


def test_functions_near_zero_keep_their_digits():
    x = torch.tensor([1e-7, -1e-6, 1e-4, -0.3, 0.0, 2.0])
    for function in (torch.log1p, torch.expm1):
        with numerics("exact"):
            found = function(x.to("neuron")).cpu()
        torch.testing.assert_close(found, function(x), rtol=2e-6, atol=0)


_OF_REALS = [
    "reciprocal",
    "rsqrt",
    "sqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("name", _OF_REALS)
def test_a_function_of_real_numbers_takes_integers_as_float32(agree, name, dtype):
    x = torch.tensor([[1, 0, 1], [1, 1, 1]], dtype=dtype)
    if name in ("reciprocal", "rsqrt", "log", "log2", "log10", "acosh"):
        x = torch.ones(2, 3, dtype=dtype)
    if name == "atanh":
        x = torch.zeros(2, 3, dtype=dtype)
    agree(getattr(torch, name), x)


@pytest.mark.parametrize(
    "shape", [(2, 130, 1, 3, 1, 2), (1, 5, 1, 2, 1, 3), (3, 1, 2, 1, 2, 1, 2, 1)]
)
def test_repeats_along_many_dimensions_in_turn(agree, shape):
    whole = tuple(2 if length == 1 else length for length in shape)
    agree(torch.add, torch.randn(shape), torch.randn(whole))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_integers_are_whole_already(same, name):
    x = torch.tensor([2**24 + 1, -(2**24) - 1, 2**31 - 2, 0, -7], dtype=torch.int32)
    same(getattr(torch, name), x)


@pytest.mark.parametrize("function", [torch.sign, torch.sgn])
def test_a_sign_of_nan_is_zero(same, function):
    same(function, torch.tensor([float("nan"), -0.0, 0.0, -2.0, float("inf"), 1e-30]))


def test_the_gradient_of_a_magnitude_is_zero_at_nan(same):
    def gradient(x):
        x = x.detach().requires_grad_()
        x.abs().sum().backward()
        return x.grad

    same(gradient, torch.tensor([float("nan"), 0.0, -2.0, 3.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("decimals", [2, 0, -1])
def test_a_number_is_rounded_to_decimals(same, decimals, dtype):
    x = torch.tensor([1.005, -2.345, 0.125, 1234.5, -0.0, math.inf, -math.inf, math.nan, 15, 25])
    same(lambda x: torch.round(x, decimals=decimals), x.to(dtype))


def test_factors_are_applied_in_the_dtype_of_the_result(same):
    wide, byte = torch.tensor([1, 2], dtype=torch.int32), torch.tensor([100, 3], dtype=torch.int8)
    same(lambda x, y: torch.add(x, y, alpha=2), wide, byte)
    same(lambda x, y: torch.sub(x, y, alpha=2), wide, byte)
    same(lambda x, y: torch.rsub(y, x, alpha=2), wide, byte)
    same(lambda x, y: torch.add(x, y, alpha=2), wide, torch.tensor([True, False]))
    same(lambda x, y: torch.addcmul(x, y, y, value=2), wide, byte)


@pytest.mark.slow
@pytest.mark.parametrize("function", [torch.hypot, lambda x, y: torch.addcmul(x, y, y, value=0.5)])
def test_products_of_mixed_floats_are_those_of_the_wider_one(function):
    x, y = torch.randn(7, 5), torch.randn(7, 5).bfloat16()
    with numerics("exact"):
        found = torch.compile(function, backend="neuron")(x.to("neuron"), y.to("neuron"))
    torch.testing.assert_close(found.cpu(), function(x, y), rtol=2.0**-18, atol=1e-6)


@pytest.mark.parametrize("weight", [0.25, 0.5, 1.0, -1.0, 2.0])
def test_interpolation_to_the_end_is_the_end(same, weight):
    start, end = torch.tensor([1e5, -7.0, math.inf]), torch.tensor([0.1, 3.0, 1.0])
    same(lambda x, y: torch.lerp(x, y, weight), start, end)
