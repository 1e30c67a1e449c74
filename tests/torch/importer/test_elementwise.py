import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

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
    agree(lambda x, y: torch.addcdiv(x, x, y, value=0.5), X, Y)
    agree(lambda x, y: torch.sub(x, y, alpha=3), X, Y)
    agree(lambda x: 2 - x, X)
    agree(lambda x, y: torch.div(x, y, rounding_mode="floor"), X, Y)
    agree(torch.remainder, X, Y, tolerance=2.0**-16)


def test_remainders_and_rounding(agree):
    agree(torch.fmod, X, Y + 0.0137, tolerance=2.0**-16)
    agree(torch.round, X + 0.01)
    agree(F.elu, X, tolerance=2.0**-16)
    agree(torch.logical_xor, X > 0, Y > 1, tolerance=0)


def test_in_place_forms_write_their_argument(agree):
    agree(lambda x, y: x.clone().mul_(y).add_(1), X, Y)


def test_angles_in_every_quadrant(agree):
    agree(torch.atan2, X, Y - 1, tolerance=2.0**-14)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_bits(agree, name, dtype):
    x, y = (X * 20).abs().to(dtype), (Y * 20).to(dtype)
    agree(getattr(torch, name), x, y, tolerance=0)
    agree(getattr(torch, name), x, y[:, :1], tolerance=0)
    if dtype is not torch.bool:
        agree(lambda x: getattr(torch, name)(x, 6), x, tolerance=0)


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
