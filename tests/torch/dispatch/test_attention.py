import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

ONE = "aten::_scaled_dot_product_fused_attention_overrideable"


def attend(*shape, **how):
    """The calls that attention makes, forward and backward, and what it gives."""
    torch.manual_seed(0)
    leaves = [torch.randn(shape).to("neuron").requires_grad_() for _ in range(3)]
    with recording() as found:
        result = F.scaled_dot_product_attention(*leaves, **how)
        result.square().sum().backward()
    return found, [result, *(leaf.grad for leaf in leaves)]


def on_cpu(*shape, **how):
    torch.manual_seed(0)
    leaves = [torch.randn(shape).requires_grad_() for _ in range(3)]
    result = F.scaled_dot_product_attention(*leaves, **how)
    result.square().sum().backward()
    return [result, *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_one_kernel_each_way_with_the_cpus_values(is_causal):
    found, values = attend(2, 3, 20, 8, is_causal=is_causal)
    names = [event.call.name for event in found.events]
    assert names[0] == ONE
    assert f"{ONE}_backward" in names
    step = step_time(found, "trn2")
    assert not step.missing
    for mine, theirs in zip(values, on_cpu(2, 3, 20, 8, is_causal=is_causal), strict=True):
        assert torch.equal(mine.cpu(), theirs)
        assert mine.stride() == theirs.stride()


def test_a_mask_that_is_learned_keeps_products_and_a_softmax():
    mask = torch.zeros(20, 20, device="neuron", requires_grad=True)
    found, _ = attend(1, 1, 20, 8, attn_mask=mask)
    assert ONE not in [event.call.name for event in found.events]
    assert mask.grad is not None


def test_heads_that_share_keys_keep_products_and_a_softmax():
    q, k = torch.randn(1, 4, 9, 8), torch.randn(1, 2, 9, 8)
    mine = F.scaled_dot_product_attention(*(t.to("neuron") for t in (q, k, k)), enable_gqa=True)
    expected = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    assert torch.allclose(mine.cpu(), expected, atol=1e-6)


def test_no_values_are_computed_where_shapes_are_asked_for():
    from trnsim.device.numerics import numerics  # noqa: PLC0415  torch is there by now

    with numerics("shapes"):
        found, values = attend(1, 2, 16, 8)
    assert [tuple(v.shape) for v in values] == [(1, 2, 16, 8)] * 4
    assert ONE in [event.call.name for event in found.events]


@pytest.mark.slow
def test_flex_attention_with_a_block_mask_is_that_of_a_masked_one():
    from torch.nn.attention.flex_attention import (  # noqa: PLC0415  imports much
        create_block_mask,
        flex_attention,
    )

    own = torch.Generator().manual_seed(0)
    host = [torch.randn(2, 2, 128, 16, generator=own) for _ in range(3)]
    documents = torch.arange(128) // 50

    def within(batch, head, query, key):
        del batch, head
        here = documents.to(query.device)
        return (query >= key) & (here[query] == here[key])

    mask = torch.ones(128, 128).tril().bool() & (documents[:, None] == documents)
    expected = [t.clone().requires_grad_() for t in host]
    out = torch.nn.functional.scaled_dot_product_attention(*expected, attn_mask=mask)
    out.pow(2).sum().backward()
    mine = [t.to("neuron").requires_grad_() for t in host]
    blocks = create_block_mask(within, 2, None, 128, 128, device="neuron")
    compiled = torch.compile(flex_attention, backend="neuron")
    found = compiled(*mine, block_mask=blocks)
    found.pow(2).sum().backward()
    torch.testing.assert_close(found.cpu(), out, rtol=1e-4, atol=1e-5)
    for one, other in zip(mine, expected, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)
