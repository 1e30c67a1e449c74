"""Weights stored as 8-bit integers, each row with a scale.

Source: aws-neuron-sdk, transformers-neuronx-developer-guide.rst, int8 weight storage: weights are
cast to the activations' dtype where they are used, and the product is scaled.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Int8Linear(nn.Module):
    """``(x @ W.T) * scale + b`` of weights W [N, K] in int8 and a scale of each row [N]."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        rows, columns = linear.weight.shape
        meta = torch.device("meta")
        self.in_features, self.out_features = columns, rows
        self.register_buffer("weight", torch.empty(rows, columns, dtype=torch.int8, device=meta))
        self.register_buffer("scale", torch.empty(rows, dtype=linear.weight.dtype, device=meta))
        self.bias: nn.Parameter | None = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """[*, K] to [*, N]."""
        product = functional.linear(x, self.get_buffer("weight").to(x.dtype))
        product = product * self.get_buffer("scale")
        return product if self.bias is None else product + self.bias


def use_int8_weights(model: nn.Module) -> None:
    """Replace the linear layers of a model's blocks; the output layer stays as it is."""
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and ".layers." in f".{name}.":
            parent, _, attribute = name.rpartition(".")
            replacement = Int8Linear(module)
            replacement._forward_hooks = module._forward_hooks  # noqa: SLF001  the exchanges between ranks
            setattr(model.get_submodule(parent), attribute, replacement)
