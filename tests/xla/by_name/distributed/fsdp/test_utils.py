"""A checkpointed module: its values, its gradients, and its forward without the checkpoint."""

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.runs = nn.Parameter(torch.tensor(3.0)), 0

    def forward(self, pair, *, factor):
        self.runs += 1
        return pair[0] * self.weight * factor + pair[1]


def test_a_checkpointed_module_computes_twice_with_nested_arguments():
    from trnsim.xla.by_name.distributed.fsdp import utils

    module = utils.checkpoint_module(Scaled())
    x = torch.tensor(2.0, requires_grad=True)
    result = module((x, 1.0), factor=torch.tensor(5.0))
    assert result.item() == 31
    result.backward()
    assert module.runs == 2
    assert (x.grad.item(), module.weight.grad.item()) == (15.0, 10.0)


def test_only_a_checkpointed_module_has_a_plain_forward():
    from trnsim.xla.by_name.distributed.fsdp import utils

    assert utils.plain_forward(Scaled()) is None
    module = utils.checkpoint_module(Scaled())
    x = torch.tensor(2.0, requires_grad=True)
    utils.plain_forward(module)((x, 1.0), factor=5.0).backward()
    assert module.runs == 1
