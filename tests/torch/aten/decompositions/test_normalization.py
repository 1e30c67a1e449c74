import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device import compiled_graph
from trnsim.device.numerics import numerics
from trnsim.torch.compile.refused import CompilerWarning

aten = torch.ops.aten
torch.manual_seed(0)
X, G = torch.randn(6, 5, 40), torch.randn(6, 5, 40)
W, B = torch.randn(40), torch.randn(40)
CLOSE = 2.0**-16


@pytest.mark.parametrize("dim", [-1, 1])
def test_softmax_and_its_gradient(agree, dim):
    agree(lambda x: torch.softmax(x, dim), X, tolerance=CLOSE)
    agree(lambda x: torch.log_softmax(x, dim), X, tolerance=CLOSE)
    y = torch.softmax(X, dim)
    agree(lambda g, y: aten._softmax_backward_data(g, y, dim, torch.float32), G, y, tolerance=CLOSE)
    agree(
        lambda g, y: aten._log_softmax_backward_data(g, y, dim, torch.float32),
        G, y.log(), tolerance=CLOSE,
    )  # fmt: skip


@pytest.mark.parametrize("dim", [0, -1])
def test_a_number_is_a_row_of_its_own(agree, dim):
    x, g = torch.tensor(1.5), torch.tensor(-2.0)
    agree(lambda x: torch.softmax(x, dim), x)
    agree(lambda x: torch.log_softmax(x, dim), x)
    agree(lambda g, y: aten._softmax_backward_data(g, y, dim, torch.float32), g, torch.tensor(1.0))
    agree(
        lambda g, y: aten._log_softmax_backward_data(g, y, dim, torch.float32),
        g, torch.tensor(0.0),
    )  # fmt: skip


def test_a_softmax_too_long_for_the_chip_is_walked_in_pieces(agree):
    agree(lambda x: torch.softmax(x, -1), torch.randn(3, 9001), tolerance=CLOSE)


def test_layer_normalization_and_its_gradient(agree):
    agree(lambda x, w, b: aten.native_layer_norm(x, [40], w, b, 1e-5), X, W, B, tolerance=CLOSE)
    _, mean, rstd = aten.native_layer_norm(X, [40], W, B, 1e-5)
    agree(
        lambda g, x, m, r, w, b: aten.native_layer_norm_backward(
            g, x, [40], m, r, w, b, [True, True, True]
        ),
        G, X, mean, rstd, W, B, tolerance=CLOSE,
    )  # fmt: skip


def test_rms_normalization(agree):
    agree(lambda x, w: F.rms_norm(x, (40,), w), X, W, tolerance=CLOSE)


def test_batch_normalization_in_evaluation(agree):
    moments = torch.randn(5), torch.rand(5) + 0.5
    agree(
        lambda x, m, v, w: F.batch_norm(x, m, v, w, None, False),
        X, *moments, torch.randn(5), tolerance=CLOSE,
    )  # fmt: skip


def test_group_normalization(agree):
    agree(
        lambda x, w: F.group_norm(x, 2, w, w),
        torch.randn(3, 4, 5, 6), torch.randn(4), tolerance=CLOSE,
    )  # fmt: skip


NORMS = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "batch, evaluated": lambda x, w, b: F.batch_norm(x, b.detach(), w.detach() ** 2, w, b),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("name", NORMS)
def test_normalizations_of_images_and_their_gradients(agree, name):
    def both(*given):
        leaves = [part.detach().requires_grad_() for part in given]
        y = NORMS[name](*leaves)
        weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.device)
        return [y.detach(), *torch.autograd.grad(y, leaves, weights)]

    agree(both, torch.randn(3, 4, 5, 6), torch.randn(4), torch.randn(4), tolerance=CLOSE)


def test_moments_of_a_narrow_batch_are_not_rounded(agree):
    def normalize(x, w):
        moments = torch.zeros(4, device=x.device), torch.ones(4, device=x.device)
        return torch.ops.aten.native_batch_norm(x, w, w, *moments, True, 0.1, 1e-5)[1:]

    agree(normalize, torch.randn(3, 4, 5, 6).bfloat16() + 3, torch.randn(4), tolerance=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_compiled_training_of_batch_normalization_has_one_program(mode, monkeypatch):
    monkeypatch.setattr(compiled_graph, "_graphs", [])
    torch.compiler.reset()
    x = torch.randn(3, 4, 5, 6)
    twin = torch.nn.BatchNorm2d(4, momentum=0.3)
    model = torch.nn.BatchNorm2d(4, momentum=0.3).to("neuron")
    with numerics(mode) as on_host, warnings.catch_warnings():
        warnings.simplefilter("error", CompilerWarning)
        torch.compile(model, backend="neuron")(x.to("neuron")).square().sum().backward()
    assert not on_host
    twin(x).square().sum().backward()
    for mine, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert not any(graph.missing for graph in compiled_graph.compiled_graphs())


def test_the_gradient_of_rms_normalization(agree):
    def both(x, w):
        leaves = [x.detach().requires_grad_(), w.detach().requires_grad_()]
        return torch.autograd.grad(F.rms_norm(leaves[0], (40,), leaves[1]).square().sum(), leaves)

    agree(both, X, W, tolerance=CLOSE)


def test_gradients_of_a_group_of_large_images(agree):
    def gradient(x):
        leaf = x.detach().requires_grad_()
        (F.group_norm(leaf, 1) * torch.linspace(-1, 1, 52, device=x.device)).sum().backward()
        return leaf.grad

    agree(gradient, torch.randn(1, 8, 52, 52), tolerance=2.0**-14)


@pytest.mark.parametrize("dim", [0, 2])
def test_weights_by_direction_and_length(agree, dim):
    def with_gradients(v, g):
        leaves = [v.detach().requires_grad_(), g.detach().requires_grad_()]
        found = torch._weight_norm_interface(*leaves, dim)[0]
        weights = torch.linspace(-1, 1, v.numel()).reshape(v.shape).to(v.device)
        return [found.detach(), *torch.autograd.grad(found, leaves, weights)]

    shape = [n if place == dim else 1 for place, n in enumerate((6, 4, 5))]
    agree(with_gradients, torch.randn(6, 4, 5), torch.rand(shape) + 0.5, tolerance=2.0**-16)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("has_weight", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_groups_far_from_zero(agree, groups, has_weight, dtype):
    """Their means are ten deviations, which the sums over channels leave out first.

    The rounding of such a mean is 2e-4 of the largest gradient of a weight on the host as well.
    """

    def both(x, w, b):
        leaves = [part.detach().requires_grad_() for part in ((x, w, b) if has_weight else (x,))]
        y = F.group_norm(leaves[0], groups, *leaves[1:])
        weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.device, y.dtype)
        return torch.autograd.grad(y, leaves, weights)

    sides = (torch.randn(2, 6, 5, 7) + 10, torch.randn(6), torch.randn(6))
    tolerance = 2.0**-7 if dtype == torch.bfloat16 else 2.0**-11
    agree(both, *(side.to(dtype) for side in sides), tolerance=tolerance)
