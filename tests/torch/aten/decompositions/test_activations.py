import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

aten = torch.ops.aten
X = torch.linspace(-6, 6, 48).reshape(4, 12) + 0.01
Y = torch.linspace(0.1, 2, 48).reshape(4, 12)
CLOSE = 2.0**-14

FUNCTIONS = {
    "hardtanh": F.hardtanh,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.5, 7.0),
    "softplus": lambda x: F.softplus(x, 2.0, 5.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "silu": F.silu,
    "glu": lambda x: F.glu(x, -1),
    "prelu": lambda x: F.prelu(x, x.new_full((12,), 0.25)),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations_and_their_gradients(agree, name):
    def both(x):
        leaf = x.detach().requires_grad_()
        result = FUNCTIONS[name](leaf)
        return [result.detach(), *torch.autograd.grad(result.sum(), leaf)]

    agree(both, X, tolerance=CLOSE)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(agree, approximate):
    agree(lambda x: F.gelu(x, approximate=approximate), X, tolerance=2.0**-12)


def test_gradients_of_results(agree):
    agree(aten.tanh_backward, Y, X.tanh())
    agree(aten.sigmoid_backward, Y, X.sigmoid())
    agree(aten.threshold_backward, Y, X, 0)
    agree(aten.silu_backward, Y, X, tolerance=2.0**-16)
    agree(aten.gelu_backward, Y, X, tolerance=2.0**-12)
    agree(lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), Y, X, tolerance=2.0**-16)
    agree(lambda g, y: aten.elu_backward(g, 1, 1, 1, True, y), Y, F.elu(X), tolerance=CLOSE)


@pytest.mark.parametrize(
    ("name", "slope"),
    [("relu", 1.0), ("hardtanh", 1.0), ("relu6", 1.0), ("hardshrink", 1.0), ("hardswish", 1.0),
     ("elu", 1.0), ("hardsigmoid", 0.0)],
)  # fmt: skip
def test_a_gradient_at_nan_is_that_of_one_number_on_the_host(name, slope):
    # Of one number, as PyTorch's vectors of float32 on a CPU have another rule than its scalars.
    from trnsim.device.numerics import numerics  # noqa: PLC0415  only where torch is

    def gradient(x):
        x = x.detach().requires_grad_()
        getattr(torch.nn.functional, name)(x).sum().backward()
        return x.grad.cpu()

    x = torch.tensor([float("nan")])
    assert gradient(x).item() == slope
    with numerics("exact"):
        assert gradient(x.to("neuron")).item() == slope


def test_the_gradient_of_hardswish_at_its_bounds(same):
    def gradient(x):
        x = x.detach().clone().requires_grad_()
        torch.nn.functional.hardswish(x).sum().backward()
        return x.grad

    same(gradient, torch.tensor([-3.0, 3.0, 0.0, 4.0, -4.0]))
