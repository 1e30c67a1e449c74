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
