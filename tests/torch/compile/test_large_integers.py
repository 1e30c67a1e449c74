"""Values that a compiled graph's program would round: each operator by itself computes them."""

import math
import warnings
from collections import Counter

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from trnsim.device import compiled_graph, fallback_policy
from trnsim.device.fallback_policy import HostFallback, set_policy
from trnsim.device.numerics import numerics
from trnsim.torch.compile.large_integers import LargeIntegers
from trnsim.torch.compile.refused import CompilerWarning
from trnsim.torch.device_errors import OperatorNotModelled

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LONG = torch.tensor([2**31 - 1, 3, 2**24 + 1])
MIDDLE = torch.tensor([2**23 + 1] * 3 + [-(2**23) - 1] * 3)
SHORT = torch.tensor([[-(2**15), 2**15 - 1]], dtype=torch.int16)
MINUEND = torch.tensor([[4097]], dtype=torch.int32)
LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(compiled_graph, "_graphs", [])
    monkeypatch.setattr(fallback_policy.state, "on_host", Counter())


def pool(x):
    return torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[0]


BEYOND = {
    "cumsum": (lambda x: x.cumsum(0), LONG),
    "amax": (lambda x: x.amax(), LONG[2:]),
    "sort": (lambda x: x.sort()[0], torch.tensor([2**24 + 4, 2**24 + 3])),
    "64 bits": (lambda x: x * 3 - x, LONG),
    "parts of a sum": (lambda x: x.sum() % 7, MIDDLE),
    "floating point of a sum": (lambda x: x.sum(dtype=torch.float32), LONG[2:].repeat(2)),
    "wrapping sum": (lambda x: x.sum(dtype=torch.int8), torch.tensor([100, 100])),
    "small operands, large products": (lambda x: x @ x.T, torch.tensor([[5001, 5003]])),
    "lowest of 16 bits": (lambda x: x @ torch.full_like(x.T, 999), SHORT),
    "product that is subtracted": (lambda x: torch.addmm(x * 24, x, x, alpha=-1), MINUEND),
    "truth value of a sum": (lambda x: x.sum() > 2**24, LONG[2:]),
    "indices": (lambda x: x.argmax() + 2**31, torch.randn(5)),
    "64 bits beside floating point": (lambda x: x * torch.tensor(1.5), 2**31 + LONG),
    "copy of 64 bits": (lambda x: x.clone(), 2**31 + LONG),
    "transposed copy of 64 bits": (lambda x: x.T.contiguous(), 2**31 + LONG.repeat(2, 1)),
    "64 bits of floating point": (lambda x: x.long() % 7, torch.tensor([1.5, 2.0**40])),
}


def integers(*numbers):
    return torch.tensor(numbers)


def to_bytes(x):
    return x.sum(dtype=torch.int8)


def subtracted(total, a, b):
    return torch.addmm(total, a, b, beta=-1)


FACTORS = integers([3, 4]), integers([5], [6])
WITHIN = {
    "sum": (torch.sum, integers(2**24 - 1, 1)),
    "negative sum": (torch.sum, integers(-(2**24))),
    "lowest of 32 bits": (lambda x: x + 1, integers(-(2**31))),
    "highest of 32 bits": (lambda x: x - 1, integers(2**31 - 1)),
    "sum in a byte": (to_bytes, integers(100, 27)),
    "product that is subtracted": (subtracted, integers([2**24 - 39]), *FACTORS),
    "32 bits beside floating point": (torch.mul, integers(2**31 - 1), torch.randn(1)),
    "quotient": (lambda x, y: (x / y).argmax(), integers(2**24 + 1, 3), torch.randn(2)),
    "none": (torch.sum, integers().long()),
    "floating point": (torch.sum, torch.tensor([2.0**40])),
    "truth values": (torch.sum, torch.tensor([True, False])),
    "indices that are not there": (lambda x, i: x.gather(0, i), torch.randn(3), integers(5)),
}
OUTSIDE = {
    "sum": (torch.sum, integers(2**24 - 1, 2)),
    "least": (torch.amin, integers(-(2**24) - 1)),
    "lowest of 32 bits": (lambda x: x + 1, integers(-(2**31) - 1)),
    "highest of 32 bits": (lambda x: x - 1, integers(2**31)),
    "sum in a byte": (to_bytes, integers(100, 28)),
    "product that is subtracted": (subtracted, integers([2**24 - 38]), *FACTORS),
    "product that wraps to 0": (torch.prod, integers(2**23, 2**23, 2**23)),
    "product that is infinite times 0": (torch.prod, integers(*[2**20] * 60, 0)),
    "64 bits beside floating point": (torch.lt, integers(2**31), torch.randn(1)),
    "64 bits of floating point": (lambda x: x.long(), torch.tensor([2.0**31])),
}


def reason_of(function, *args):
    return LargeIntegers(make_fx(function, tracing_mode="fake")(*args)).reason(args)


@pytest.mark.parametrize("name", WITHIN)
def test_integers_up_to_the_limits_are_those_of_the_program(name):
    assert not reason_of(*WITHIN[name])


@pytest.mark.parametrize("name", OUTSIDE)
def test_integers_beyond_the_limits_are_named_with_their_operator(name):
    assert "integers beyond " in reason_of(*OUTSIDE[name])


@pytest.mark.parametrize("element", [1.0, math.inf, math.nan])
def test_resampled_infinities_are_named_with_their_operator(element):
    x = torch.tensor([[[1.0, 2.0, element, 4.0]]])
    reason = reason_of(lambda x: functional.pad(x.sin().asin() * x, (1, 1), mode="reflect"), x)
    assert ("infinite or NaN" in reason) == (element != 1)


@pytest.mark.slow_but_every(10)
@pytest.mark.parametrize("name", BEYOND)
def test_a_graph_with_integers_beyond_a_programs_is_computed_operator_by_operator(name):
    function, x = BEYOND[name]
    ours = torch.compile(function, backend="neuron", dynamic=False)
    with numerics("exact"), warnings.catch_warnings(record=True) as found_warnings:
        warnings.simplefilter("always")
        found = ours(x.to("neuron"))
    assert torch.equal(found.cpu(), function(x))
    said = [str(w.message) for w in found_warnings if w.category is CompilerWarning]
    assert len(said) == 1
    assert "operator by operator: " in said[0]
    assert "integers beyond " in said[0]


@pytest.mark.parametrize("make", [torch.ones_like, lambda i, dtype: i.new_ones(3, dtype=dtype)])
def test_integers_of_which_a_program_reads_the_shape_alone_may_be_large(make):
    x = torch.tensor([0.5, 2.5, 3.5])
    ours = torch.compile(
        lambda x, i: x * 2 + make(i, dtype=x.dtype), backend="neuron", dynamic=False
    )
    with numerics("exact") as on_host, warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        found = ours(x.to("neuron"), torch.tensor([2**40, 2**62, 3]).to("neuron"))
    assert found.tolist() == [2, 6, 8]
    assert not on_host


@pytest.mark.slow
def test_a_call_with_smaller_integers_is_computed_by_the_program():
    ours = torch.compile(lambda x: (x.cumsum(0), x.amax()), backend="neuron", dynamic=False)
    with numerics("exact") as on_host:
        with pytest.warns(CompilerWarning), pytest.warns(HostFallback):
            ours(LONG.to("neuron"))
        on_host.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompilerWarning)
            sums, most = ours(torch.tensor([5, 2**24 - 9, 4]).to("neuron"))
        assert not on_host
    assert sums.tolist() == [5, 2**24 - 4, 2**24]
    assert most.item() == 2**24 - 9


@pytest.mark.slow
def test_integers_of_32_bits_stay_in_a_program_that_computes_them_exactly():
    x = torch.tensor([2**31 - 1, -(2**31), 2**24 + 1, 7], dtype=torch.int32)

    def function(x):
        return x * 3 + 1, x > 5, torch.where(x > 0, x, -1), x.clamp(min=2**24 + 3)

    ours = torch.compile(function, backend="neuron", dynamic=False)
    with numerics("exact") as on_host, warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        found = ours(x.to("neuron"))
    assert not on_host
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, function(x), strict=True))


@pytest.mark.slow
def test_the_policy_chip_refuses_what_it_refuses_of_operators():
    ours = torch.compile(lambda x: x.cumsum(0), backend="neuron", dynamic=False)
    set_policy("chip")
    try:
        with (
            numerics("exact"),
            pytest.warns(CompilerWarning),
            pytest.raises(OperatorNotModelled, match="integers like these"),
        ):
            ours(LONG.to("neuron"))
    finally:
        set_policy("host")


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("number", [LOWEST, -math.inf, math.nan])
def test_windows_of_the_lowest_number_are_computed_by_their_operator(number):
    x = torch.full((1, 1, 4, 5), number)
    ours = torch.compile(pool, backend="neuron", dynamic=False)
    with numerics("exact"), pytest.warns(CompilerWarning, match="lowest numbers of its format"):
        found = ours(x.to("neuron"))
    torch.testing.assert_close(found.cpu(), pool(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.slow
def test_values_of_which_aws_says_nothing_are_computed_by_their_operator():
    x = torch.tensor([1.0, math.nan, 3.0])
    ours = torch.compile(lambda x: x.topk(2)[0], backend="neuron", dynamic=False)
    with numerics("exact"):
        with pytest.warns(CompilerWarning, match="NaN, whose order AWS does not document"):
            found = ours(x.to("neuron"))
        again = ours(torch.tensor([1.0, 2.0, 3.0]).to("neuron"))
    assert found[0].isnan()
    assert found[1] == 3
    assert again.tolist() == [3, 2]
