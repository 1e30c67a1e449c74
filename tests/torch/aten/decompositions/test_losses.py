import math

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

aten = torch.ops.aten
torch.manual_seed(0)
SCORES = torch.log_softmax(torch.randn(40, 11), -1)
CLASSES = torch.randint(0, 11, (40,))
CLASSES[3] = -100


@pytest.mark.parametrize("reduction", [1, 2])
def test_negative_log_likelihood_and_its_gradient(agree, reduction):
    agree(
        lambda x, t: aten.nll_loss_forward(x, t, None, reduction, -100),
        SCORES, CLASSES, tolerance=2.0**-16,
    )  # fmt: skip
    agree(
        lambda g, x, t, n: aten.nll_loss_backward(g.sum(), x, t, None, reduction, -100, n.sum()),
        torch.ones(1), SCORES, CLASSES, torch.full((1,), 39.0), tolerance=2.0**-16,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weight", [None, torch.rand(11)])
def test_a_class_that_is_impossible_leaves_the_loss_finite(agree, reduction, weight):
    scores = SCORES.clone()
    scores[:, 5] = -torch.inf
    agree(
        lambda x, t: aten.nll_loss_forward(
            x, t, None if weight is None else weight.to(x.device), reduction, -100
        ),
        scores, CLASSES.clamp(0, 4), tolerance=2.0**-16,
    )  # fmt: skip


def test_scores_have_no_gradient_where_every_row_is_ignored(agree):
    agree(
        lambda g, x, t, n: aten.nll_loss_backward(g.sum(), x, t, None, 1, -100, n.sum()),
        torch.ones(1), SCORES, torch.full((40,), -100), torch.zeros(1), tolerance=0,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_the_squared_error_and_its_gradient(agree, reduction):
    other = torch.randn(40, 11)
    agree(lambda x, y: aten.mse_loss(x, y, reduction), SCORES, other, tolerance=2.0**-16)
    agree(
        lambda g, x, y: aten.mse_loss_backward(g, x, y, reduction),
        torch.randn(40, 11), SCORES, other, tolerance=2.0**-16,
    )  # fmt: skip


def test_classes_weigh_and_lie_in_images(agree):
    weights = torch.rand(11)
    agree(
        lambda x, t, w: aten.nll_loss_forward(x, t, w, 1, 4), SCORES, CLASSES.clamp(min=0), weights,
        tolerance=2.0**-16,
    )  # fmt: skip
    image, classes = torch.randn(2, 11, 3, 4).log_softmax(1), torch.randint(0, 11, (2, 3, 4))
    for reduction in (0, 1, 2):
        agree(
            lambda x, t, w, r=reduction: aten.nll_loss2d_forward(x, t, w, r, -100),
            image, classes, weights, tolerance=2.0**-16,
        )  # fmt: skip


LOSSES = {
    "binary": lambda x, t: F.binary_cross_entropy(x.sigmoid(), t.sigmoid()),
    "binary with logits": lambda x, t: F.binary_cross_entropy_with_logits(x, t.sigmoid()),
    "smooth": lambda x, t: F.smooth_l1_loss(x, t, beta=0.7),
    "huber": lambda x, t: F.huber_loss(x, t, delta=0.7),
    "absolute": F.l1_loss,
    "divergence": lambda x, t: F.kl_div(x.log_softmax(-1), t.softmax(-1), reduction="batchmean"),
    "classes": lambda x, t: F.cross_entropy(x, t.argmax(-1), label_smoothing=0.1),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_their_gradients(agree, name):
    def both(x, t):
        leaf = x.detach().requires_grad_()
        loss = LOSSES[name](leaf, t)
        return [loss.detach(), *torch.autograd.grad(loss, leaf)]

    agree(both, torch.randn(20, 11), torch.randn(20, 11), tolerance=2.0**-14)


@pytest.mark.parametrize(("rows", "classes"), [(37, 9001), (130, 300), (3, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loss_of_many_classes_and_its_gradient(agree, rows, classes, dtype):
    x = torch.randn(rows, classes).to(dtype)
    labels = torch.randint(0, classes, (rows,))
    labels[0], labels[-1], labels[1] = 0, classes - 1, -100

    def gradient(x, t):
        logits = x.detach().requires_grad_()
        loss = F.cross_entropy(logits.float(), t)
        loss.backward()
        return loss.detach(), logits.grad

    agree(gradient, x, labels, tolerance=2.0**-8 if dtype == torch.bfloat16 else 2.0**-16)


@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_compiled_loss_has_the_values_of_the_cpu(ignored, smoothing):
    from trnsim.device.numerics import numerics  # noqa: PLC0415  only where torch is

    x, labels = torch.randn(33, 2100), torch.randint(0, 2100, (33,))
    labels[:4] = torch.tensor([2, 0, 2099, ignored])

    def loss_of(x, t):
        return F.cross_entropy(x, t, ignore_index=ignored, label_smoothing=smoothing)

    def gradient(loss_of, x, t):
        logits = x.clone().requires_grad_()
        loss = loss_of(logits, t)
        loss.backward()
        return loss.detach().cpu(), logits.grad.cpu()

    expected = gradient(loss_of, x, labels)
    torch._dynamo.reset()
    compiled = torch.compile(loss_of, backend="neuron")
    with numerics("exact"):
        found = gradient(compiled, x.to("neuron"), labels.to("neuron"))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_a_class_without_probability_has_an_infinite_loss(same):
    x, labels = torch.tensor([[-math.inf, 0.0], [0.0, -math.inf]]), torch.tensor([0, 0])
    same(lambda x, t: F.nll_loss(x, t, reduction="none"), x, labels)


def test_the_binary_loss_of_small_probabilities_is_at_most_100(agree):
    x = torch.tensor([0.0, 1.0, 0.0, 1e-30, 1e-20, 1e-18, 0.5, 1 - 2**-24])
    labels = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.5, 0.25, 0.0])
    agree(lambda x, t: F.binary_cross_entropy(x, t, reduction="none"), x, labels)
