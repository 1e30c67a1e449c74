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


def test_gradients_of_activation_functions(agree):
    agree(aten.tanh_backward, Y, X.tanh())
    agree(aten.sigmoid_backward, Y, X.sigmoid())
    agree(aten.threshold_backward, Y, X, 0)
    agree(aten.silu_backward, Y, X, tolerance=2.0**-16)
    agree(aten.gelu_backward, Y, X, tolerance=2.0**-12)
    agree(lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), Y, X, tolerance=2.0**-16)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(agree, approximate):
    agree(lambda x: F.gelu(x, approximate=approximate), X, tolerance=2.0**-12)


def test_activation_functions(agree):
    agree(F.silu, X)
    agree(F.mish, X, tolerance=2.0**-12)
    agree(lambda x: F.leaky_relu(x, 0.1), X)
    agree(F.softplus, X, tolerance=2.0**-16)
    agree(lambda x: F.hardtanh(x, -1, 1), X)


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


def test_random_numbers_stay_the_hosts(agree):
    def drop(x):
        torch.manual_seed(0)
        return F.dropout(x, 0.5)

    agree(drop, X, is_lowered=False)


def test_dropout_and_normal_numbers_have_a_time():
    from trnsim.torch.device_time import step_time  # noqa: PLC0415  torch is there by now
    from trnsim.torch.recording import recording  # noqa: PLC0415  likewise

    x = X.to("neuron")
    with recording() as found:
        F.dropout(x, 0.5)
        torch.randn(300, device="neuron")
        torch.rand(300, device="neuron")
    time = step_time(found, "trn2")
    assert not time.missing
    assert {name for name, _, _ in time.by("operation")} >= {"native_dropout", "normal_"}
