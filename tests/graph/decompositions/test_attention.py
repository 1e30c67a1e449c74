import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

torch.manual_seed(0)
HOW = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "masked": {"attn_mask": torch.ones(20, 30, dtype=torch.bool).tril(4)},
    "biased": {"attn_mask": torch.randn(2, 1, 20, 30)},
}


def both(how):
    """Attention and its gradients."""

    def call(q, k, v):
        leaves = [part.detach().requires_grad_() for part in (q, k, v)]
        named = {n: x.to(q.device) if isinstance(x, torch.Tensor) else x for n, x in how.items()}
        result = F.scaled_dot_product_attention(*leaves, **named)
        weights = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
        weights = weights.to(q.device, q.dtype)
        return [result.detach(), *torch.autograd.grad(result, leaves, weights)]

    return call


@pytest.mark.parametrize("how", HOW)
def test_attention_and_its_gradients(agree, how):
    q, k, v = torch.randn(2, 3, 20, 8), torch.randn(2, 3, 30, 8), torch.randn(2, 3, 30, 8)
    agree(both(HOW[how]), q, k, v, tolerance=2.0**-15)


def test_low_precision(agree):
    q, k, v = (torch.randn(1, 2, 140, 16).bfloat16() for _ in range(3))
    agree(both({"is_causal": True}), q, k, v, tolerance=2.0**-5)
