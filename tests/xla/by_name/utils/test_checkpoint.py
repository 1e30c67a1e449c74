"""Activations computed again: the same values and gradients, dropout's too."""

import pytest
import torch


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_with_dropout_are_those_of_the_forward_pass(reentrant):
    from torch_xla.utils.checkpoint import checkpoint

    calls = []

    def layer(tensor, factor=1):
        calls.append(factor)
        return torch.nn.functional.dropout(tensor * factor, 0.5)

    tensor = torch.ones(64, device="xla", requires_grad=True)
    result = checkpoint(layer, tensor, use_reentrant=reentrant)
    result.sum().backward()
    assert len(calls) == 2
    assert torch.equal(tensor.grad, result.detach())


def test_keywords_reach_the_function():
    from torch_xla.utils.checkpoint import checkpoint

    tensor = torch.ones(2, device="xla", requires_grad=True)
    result = checkpoint(lambda x, factor: x * factor, tensor, use_reentrant=False, factor=3)
    assert result.tolist() == [3.0, 3.0]


def test_it_may_take_the_place_of_pytorchs():
    """As programs of AWS's samples do: `torch.utils.checkpoint.checkpoint = checkpoint`."""
    import torch.utils.checkpoint
    import torch_xla.utils.checkpoint

    torch.utils.checkpoint.checkpoint = torch_xla.utils.checkpoint.checkpoint
    tensor = torch.ones(2, device="xla", requires_grad=True)
    for reentrant in (True, False):
        torch.utils.checkpoint.checkpoint(
            torch.sin, tensor, use_reentrant=reentrant
        ).sum().backward()
    assert tensor.grad.tolist() == [2 * torch.cos(torch.tensor(1.0)).item()] * 2
