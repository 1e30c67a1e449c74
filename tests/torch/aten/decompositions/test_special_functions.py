import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics

aten = torch.ops.aten
REAL = torch.linspace(-4.9, 30, 96) + 0.013
UNIT = torch.linspace(-0.999, 0.999, 96)
POSITIVE = torch.linspace(0.01, 3, 24)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (torch.erfinv, UNIT),
        (torch.lgamma, REAL),
        (torch.digamma, REAL),
        (torch.special.entr, torch.cat([torch.zeros(1), POSITIVE])),
        (torch.angle, UNIT),
    ],
)
def test_functions_made_of_others(agree, function, x):
    agree(function, x)


@pytest.mark.parametrize("function", [torch.digamma, torch.lgamma])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_poles_and_zeros_are_those_of_the_host(function, dtype):
    x = torch.tensor([-3.0, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0]).to(dtype)
    with numerics("exact") as on_host:
        found = function(x.to("neuron"))
    assert not on_host
    torch.testing.assert_close(found.cpu(), function(x), equal_nan=True, rtol=1e-5, atol=1e-5)


def test_erfinv_far_from_the_middle(agree):
    agree(torch.erfinv, torch.tensor([-0.999999, 0.9999, 0.99999]))


def test_entropy_is_minus_infinity_below_zero():
    with numerics("exact"):
        found = torch.special.entr(torch.tensor([-1.0, 1.0]).to("neuron"))
    assert found.tolist() == [-torch.inf, 0.0]


def test_xlog1py_of_tensors_and_numbers(agree):
    agree(torch.special.xlog1py, torch.linspace(0, 3, 24), POSITIVE)
    agree(lambda x: torch.special.xlog1py(x, 0.5), POSITIVE)


@pytest.mark.parametrize("eps", [None, 0.2])
def test_the_gradient_of_logit(agree, eps):
    agree(
        lambda g, x: aten.logit_backward(g, x, eps), torch.ones(24), torch.linspace(0.05, 0.95, 24)
    )
