import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

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
def test_the_squared_error_and_its_gradient(agree, reduction):
    other = torch.randn(40, 11)
    agree(lambda x, y: aten.mse_loss(x, y, reduction), SCORES, other, tolerance=2.0**-16)
    agree(
        lambda g, x, y: aten.mse_loss_backward(g, x, y, reduction),
        torch.randn(40, 11), SCORES, other, tolerance=2.0**-16,
    )  # fmt: skip


def test_weighted_classes_are_named_as_missing(agree):
    agree(
        lambda x, t, w: aten.nll_loss_forward(x, t, w, 1, -100),
        SCORES, CLASSES, torch.rand(11), is_lowered=False,
    )  # fmt: skip
