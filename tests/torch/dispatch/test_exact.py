import math
import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device import fallback_policy
from trnsim.device.fallback_policy import HostFallback, set_policy
from trnsim.device.numerics import FUNCTION_BOUND, FUNCTION_BOUNDS, numerics
from trnsim.device.step_time import step_time
from trnsim.errors import BadInput
from trnsim.torch.call_recording import recording
from trnsim.torch.device_errors import OperatorNotModelled


def bound(a, b, K, dtype):
    """One rounding of the output, and 2 K roundings of float32 in the sum of magnitudes."""
    rounding = torch.finfo(dtype).eps * (a.double() @ b.double()).abs()
    return rounding + 2 * K * 2.0**-24 * (a.abs().double() @ b.abs().double())


def both(function, *given):
    """What `exact` gives, and what `fast` does."""
    found = []
    for kind in ("exact", "fast"):
        with numerics(kind) as on_host:
            found.append(function(*(t.to("neuron") for t in given)).cpu().double())
        assert not on_host
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("K", [1, 100, 512, 3000])
def test_sums_of_products_agree_within_the_stated_bound(dtype, K):
    torch.manual_seed(K)
    a, b = torch.randn(40, K).to(dtype), torch.randn(K, 50).to(dtype)
    exact, fast = both(torch.matmul, a, b)
    assert ((exact - fast).abs() <= bound(a, b, K, dtype)).all()
    assert ((exact - a.double() @ b.double()).abs() <= bound(a, b, K, dtype)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_agree_within_the_stated_bound(dtype, dim):
    x = torch.randn(700, 900).to(dtype)
    exact, fast = both(lambda x: x.sum(dim), x)
    K, size = x.shape[dim], x.abs().double().sum(dim)
    assert ((exact - fast).abs() <= torch.finfo(dtype).eps * size + 2 * K * 2.0**-24 * size).all()


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_agree_within_the_stated_bound(groups):
    x, w = torch.randn(2, 4, 9, 9), torch.randn(8, 4 // groups, 3, 3)

    def convolve(x, w):
        return torch.nn.functional.conv2d(x, w, padding=1, groups=groups)

    exact, fast = both(convolve, x, w)
    size, K = convolve(x.abs().double(), w.abs().double()), 9 * 4 // groups
    assert ((exact - fast).abs() <= 2.0**-23 * fast.abs() + 2 * K * 2.0**-24 * size).all()


ANY, POSITIVE = torch.linspace(-8, 8, 4096), torch.logspace(-6, 6, 4096)
SMALL = torch.linspace(-0.999, 0.999, 4096)
aten, F = torch.ops.aten, torch.nn.functional
FUNCTIONS = {
    **{name: (getattr(torch, name), ANY) for name in (
        "exp", "exp2", "expm1", "tanh", "sigmoid", "erf", "sin", "cos", "atan", "sinh", "cosh",
        "asinh", "relu",
    )},
    **{name: (getattr(torch, name), POSITIVE) for name in (
        "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal",
    )},
    **{name: (getattr(torch, name), SMALL) for name in ("tan", "asin", "acos", "atanh")},
    **{name: (getattr(F, name), ANY) for name in (
        "gelu", "silu", "mish", "softplus", "elu", "hardswish", "logsigmoid",
    )},
    "acosh": (torch.acosh, POSITIVE + 1),
    "pow": (lambda x: torch.pow(x, 1.7), POSITIVE),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), ANY),
    "gelu_backward": (lambda x: aten.gelu_backward(torch.ones_like(x), x), ANY),
    "silu_backward": (lambda x: aten.silu_backward(torch.ones_like(x), x), ANY),
}  # fmt: skip


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_agrees_within_its_bound(name):
    function, x = FUNCTIONS[name]
    exact, fast = both(function, x)
    largest = ((exact - fast).abs() / fast.abs().clamp(min=1)).max().item()
    assert largest <= FUNCTION_BOUNDS.get(name, FUNCTION_BOUND)


def test_no_bound_is_for_a_function_that_is_not_tested():
    assert set(FUNCTION_BOUNDS) <= set(FUNCTIONS)


def losses(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(20, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 32),
        torch.nn.GELU(), torch.nn.Linear(32, 20),
    ).to("neuron")  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, 20, (24,)).to("neuron")
    found = []
    with numerics(kind) as on_host:
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), tokens.roll(1))
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found, on_host


@pytest.mark.slow
def test_a_model_trains_alike_in_both_numerics():
    fast, _ = losses("fast")
    exact, on_host = losses("exact")
    assert exact == pytest.approx(fast, rel=1e-4)
    assert not any("layer_norm" in reason or "mm" in reason for reason in on_host)


@pytest.fixture
def chip():
    set_policy("chip")
    yield
    set_policy("host")


def test_what_has_no_kernel_is_left_to_the_host_counted_and_warned_of(monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    x = torch.randn(5, 5).to("neuron")
    with numerics("exact") as on_host, pytest.warns(HostFallback) as caught:
        values = [torch.linalg.eigvalsh(x) for _ in range(2)]
    assert torch.equal(values[1].cpu(), torch.linalg.eigvalsh(x.cpu()))
    reason = "aten::_linalg_eigh has no lowering to the chip's instructions yet"
    assert on_host == {reason: 2}
    assert torch.neuron.host_fallbacks() == {"aten::_linalg_eigh": 2}
    assert len(caught) == 1
    assert str(caught[0].message).startswith(
        f"aten::_linalg_eigh runs on the host, not instruction by instruction: {reason}; "
        f"TRNSIM_POLICY=chip refuses it (at {__file__}:"
    )


@pytest.mark.usefixtures("chip")
def test_the_chip_refuses_by_name_what_has_no_kernel():
    x = torch.randn(5, 5).to("neuron")
    with numerics("exact") as on_host, pytest.raises(OperatorNotModelled) as caught:
        torch.masked_select(x, x > 0)
    reason, fix, source, line = str(caught.value).splitlines()
    assert reason == (
        "aten::masked_select has no lowering to the chip's instructions yet; it was called on "
        "float32[5, 5], bool[5, 5] in exact numerics; operators of a like name that have one: "
        "masked_scatter, masked_fill, index_select"
    )
    assert fix == (
        "  fix: compute this part on the CPU, or let the host compute it on the device's tensors "
        "and count it: TRNSIM_POLICY=host, or torch.neuron.set_policy('host')"
    )
    assert source == "  source: docs/generated/torch-ops.md: which operators have a lowering"
    assert line.startswith(f"  at {__file__}")
    assert caught.value.line.file == __file__
    assert isinstance(caught.value, NotImplementedError)
    assert sum(on_host.values()) == 1


@pytest.mark.usefixtures("chip")
def test_a_refused_form_leaves_what_it_would_have_written_as_it_was():
    x = torch.arange(12.0).reshape(3, 4).t().to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="a mask as an index"):
        x.index_put_((x > 5,), torch.zeros(6, device="neuron"))
    assert torch.equal(x.cpu(), torch.arange(12.0).reshape(3, 4).t())


@pytest.mark.slow
@pytest.mark.usefixtures("chip")
def test_the_chip_takes_what_has_a_kernel_and_fast_numerics_refuses_no_operator():
    losses("exact")
    assert torch.eye(3, device="neuron").nonzero().shape == (3, 2)


def test_random_numbers_and_operators_on_nothing_are_no_gap():
    with numerics("exact") as on_host:
        torch.randn(3, device="neuron")
        torch.empty(0, 4, device="neuron").exp()
    assert not on_host


def test_other_numerics_are_refused():
    legal = "numerics 'slow'; legal: fast, exact, shapes"
    with pytest.raises(BadInput, match=legal), numerics("slow"):
        pass


NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan, 1e30, 7)
OF_A_NUMBER = {
    "add": torch.add,
    "add, alpha": lambda x, n: torch.add(x, x, alpha=n),
    "sub": torch.sub,
    "rsub": lambda x, n: n - x,
    "mul": torch.mul,
    "div": torch.div,
    "reversed div": lambda x, n: n / x,
    "foreach div": lambda x, n: torch._foreach_div([x], n)[0],
    "pow": torch.pow,
    "reversed pow": lambda x, n: torch.pow(n, x),
    "clamp min": lambda x, n: x.clamp(min=n),
    "clamp max": lambda x, n: x.clamp(max=n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "lt": torch.lt,
    "eq": torch.eq,
    "xlogy": torch.xlogy,
    "copysign": torch.copysign,
    "lerp": lambda x, n: torch.lerp(x, x, n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "leaky_relu": F.leaky_relu,
    "hardshrink": F.hardshrink,
    "threshold": lambda x, n: F.threshold(x, n, n),
    "softplus": lambda x, n: F.softplus(x, beta=n),
    "full": torch.full_like,
    "nan_to_num": lambda x, n: torch.nan_to_num(x, n, n, n),
    "norm": torch.linalg.vector_norm,
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", OF_A_NUMBER)
def test_an_operator_of_any_number_computes_what_the_host_does(name):
    function = OF_A_NUMBER[name]
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.5, math.inf, -math.inf, math.nan])
    moved = x.to("neuron")
    for number in NUMBERS:
        with numerics("exact") as on_host:
            found = function(moved, number).cpu()
        assert not on_host
        expected = function(x, number)
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-6)


def test_a_division_by_zero_has_the_time_of_any_other():
    taken = []
    for number in (3.0, 0.0):
        with recording() as found:
            torch.ones(300, device="neuron") / number
        taken.append(step_time(found, "trn2").device_time_s)
    assert taken[0] == taken[1] > 0


LONG, SHORT = torch.tensor([2**31 - 1, 3, 2**24 + 1]), torch.tensor([100, 100], dtype=torch.int8)
BEYOND = {
    "cumsum": (lambda x: x.cumsum(0), LONG),
    "cumprod": (lambda x: x.int().cumprod(0), LONG),
    "sum": (lambda x: x.int().sum(), LONG),
    "sum of one": (lambda x: x.sum(), LONG[2:]),
    "prod": (lambda x: x.prod(), LONG),
    "nansum": (lambda x: x.nansum(), LONG),
    "trace": (lambda x: x.reshape(1, 3).trace(), LONG[2:].repeat(3)),
    "wrapping cumsum": (lambda x: x.cumsum(0, dtype=torch.int8), SHORT),
    "wrapping sum": (lambda x: x.sum(dtype=torch.int8), SHORT),
    "wrapping prod": (lambda x: x.prod(0, dtype=torch.uint8), SHORT),
    "amax": (lambda x: x.amax(), LONG[2:]),
    "place": (lambda x: x.max(0)[1], torch.tensor([2**24 + 3, 2**24 + 4])),
    "sort": (lambda x: x.sort()[0], torch.tensor([2**24 + 4, 2**24 + 3])),
    "mul": (lambda x: x * 3, LONG),
    "mm": (lambda x: x @ x.T, torch.tensor([[5001, 5003]])),
    "clone": (lambda x: x.clone(), LONG + 2**40),
}


@pytest.mark.parametrize("name", BEYOND)
def test_integers_beyond_the_chips_are_the_hosts_and_named(name, monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    function, x = BEYOND[name]
    moved = x.to("neuron")
    with numerics("exact") as on_host, pytest.warns(HostFallback):
        found = function(moved).cpu()
    assert torch.equal(found, function(x))
    (reason,) = on_host
    assert "for integers like these: its instructions are exact up to 2**24" in reason


def test_a_range_beyond_32_bits_is_the_hosts(monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    with numerics("exact"), pytest.warns(HostFallback):
        found = torch.arange(2**31 - 2, 2**31 + 2, device="neuron").cpu()
    assert torch.equal(found, torch.arange(2**31 - 2, 2**31 + 2))


@pytest.mark.usefixtures("chip")
def test_the_policy_chip_refuses_integers_beyond_the_chips():
    x = LONG.to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="integers like these"):
        x.mul_(3)
    assert torch.equal(x.cpu(), LONG)


@pytest.mark.usefixtures("chip")
@pytest.mark.parametrize("before", [[7, 8, 9], []], ids=["of its shape", "empty"])
def test_a_refused_operator_leaves_its_out_as_it_was(before):
    x, out = LONG.to("neuron"), torch.tensor(before, dtype=torch.int64).to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="integers like these"):
        torch.cumsum(x, 0, out=out)
    assert out.tolist() == before


@pytest.mark.usefixtures("chip")
def test_a_refused_operator_leaves_the_tensor_of_which_its_out_is_a_view():
    x, whole = LONG.to("neuron"), torch.arange(6).to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="integers like these"):
        torch.cumsum(x, 0, out=whole[::2])
    assert whole.tolist() == list(range(6))


def test_an_out_on_another_device_is_refused_by_name():
    x = LONG.to("neuron")
    with numerics("exact"), pytest.raises(RuntimeError, match=r"same device.*neuron:0 and cpu"):
        torch.cumsum(x, 0, out=torch.zeros(3, dtype=torch.int64))


def test_the_places_of_equal_integers_may_be_any(recwarn):
    x = torch.tensor([1, 1, 0, 1]).to("neuron")
    with numerics("exact") as on_host:
        values, _ = x.topk(2)
    assert values.tolist() == [1, 1]
    assert not on_host
    assert not recwarn.list


LOWEST = torch.finfo(torch.float32).min
INFINITE = [-math.inf] * 5


@pytest.mark.parametrize(
    "row", [[LOWEST] * 5, INFINITE, [-math.inf, LOWEST, -math.inf, 1, 2], [math.nan] * 5]
)
@pytest.mark.parametrize("which", [0, 1])
def test_maxima_of_the_lowest_number_are_the_hosts(row, which, monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    x = torch.tensor(row).expand(1, 1, 4, 5).contiguous()

    def pool(x):
        return torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[which]

    with numerics("exact") as on_host, warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallback)
        found = pool(x.to("neuron")).cpu()
    torch.testing.assert_close(found, pool(x), rtol=0, atol=0, equal_nan=True)
    assert all("windows like these" in reason for reason in on_host)
    assert bool(on_host) == (row != INFINITE)


ORDERED = {
    "topk": lambda x: x.topk(2)[1],
    "sort": lambda x: x.sort()[1],
    "kthvalue": lambda x: x.kthvalue(4)[1],
    "median": lambda x: x.median(),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_host_orders_nan_and_is_named(name, monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    x = torch.tensor([1.0, math.nan, 3.0, math.inf])
    with numerics("exact") as on_host, pytest.warns(HostFallback):
        found = ORDERED[name](x.to("neuron")).cpu()
    torch.testing.assert_close(found, ORDERED[name](x), equal_nan=True)
    (reason,) = on_host
    assert (
        "of these values: top_k: the operand holds NaN, whose order AWS does not document" in reason
    )


@pytest.mark.usefixtures("chip")
def test_the_policy_chip_refuses_to_order_nan():
    x = torch.tensor([1.0, math.nan, 3.0]).to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="AWS does not document"):
        x.topk(2)


def test_truth_values_beside_integers_are_checked_too(monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    x, mask = torch.tensor([2**40, 2**24 + 1]), torch.tensor([True, False])
    with numerics("exact"), pytest.warns(HostFallback):
        found = torch.where(mask.to("neuron"), x.to("neuron"), x.to("neuron")).cpu()
    assert torch.equal(found, x)


@pytest.mark.parametrize("name", ["deg2rad", "mixed"])
def test_integers_beyond_32_bits_are_the_hosts_in_floating_point_too(name, monkeypatch):
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())
    x = torch.tensor([2**40, -(2**63), 5])
    function = {
        "deg2rad": torch.deg2rad,
        "mixed": lambda x: x * torch.full((3,), 0.5, device=x.device),
    }[name]
    with numerics("exact") as on_host, pytest.warns(HostFallback):
        found = function(x.to("neuron")).cpu()
    assert torch.equal(found, function(x))
    (reason,) = on_host
    assert "integers like these" in reason


@pytest.mark.usefixtures("chip")
def test_a_refused_operator_leaves_integers_of_64_bits_as_they_were():
    x = torch.tensor([2**40, 7]).to("neuron")
    with numerics("exact"), pytest.raises(OperatorNotModelled, match="integers like these"):
        x.mul_(3)
    assert x.tolist() == [2**40, 7]


LARGEST = torch.finfo(torch.float32).max
ENDS = [math.inf, LARGEST, -math.inf, -LARGEST, 0.0, -0.0, 1.0, 1.0]


@pytest.mark.parametrize("length", [40, 1500, 17_001])
@pytest.mark.parametrize("descending", [False, True])
def test_infinities_and_the_largest_numbers_have_an_order(length, descending):
    x = torch.arange(2 * length).remainder(37).float().reshape(2, length)
    x[0, 3:11] = torch.tensor(ENDS)
    x[1, 5:8] = torch.tensor([LARGEST, -LARGEST, LARGEST])

    def ordered(x):
        return torch.sort(x, descending=descending, stable=True)

    with numerics("exact"), warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallback)
        found = [part.cpu() for part in ordered(x.to("neuron"))]
    for part, expected in zip(found, ordered(x), strict=True):
        torch.testing.assert_close(part, expected, rtol=0, atol=0)
