import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch.nn import functional

from trnsim.xla.neuronx.operators import Argmax, ConcatenateOp, RmsNorm, Softmax, TopK

X = torch.randn(2, 3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_is_that_of_the_named_dimension_in_the_tensors_dtype(dtype):
    x, weight = X.to(dtype), torch.randn(4)
    expected = functional.rms_norm(x.float(), (4,), weight, 1e-5).to(dtype)
    assert torch.equal(RmsNorm.apply(x, weight, 1e-5, 2), expected)
    moved = RmsNorm.apply(x.transpose(1, 2), weight, 1e-5, 1).transpose(1, 2)
    torch.testing.assert_close(moved, expected)


def test_rms_norm_has_a_gradient():
    x = X.clone().requires_grad_()
    RmsNorm.apply(x, torch.ones(4), 1e-5, -1).sum().backward()
    assert x.grad is not None


def test_the_others_are_pytorchs():
    assert torch.equal(Softmax.apply(X, 1), X.softmax(1))
    assert torch.equal(TopK.apply(X, 2, 1)[1], X.topk(2, 1).indices)
    assert torch.equal(Argmax.apply(X, 2, keepdim=True), X.argmax(2, keepdim=True))
    assert Argmax.apply(X) == X.argmax()
    assert ConcatenateOp.apply(X, X, dim=2).shape == (2, 3, 8)
