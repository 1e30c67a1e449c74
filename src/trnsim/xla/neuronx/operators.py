"""`torch_neuronx.xla_impl.ops`: operators that AWS's compiler knows by name.

trnsim finds such forms by itself (`trnsim.compiler.patterns`); each class computes its definition
with PyTorch's operators.

Sources: neuronx-distributed operators/topk.py, operators/argmax.py and utils/sampling.py, and
neuronx-distributed-inference modules/custom_calls.py, which call them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class RmsNorm:
    """``x / sqrt(mean(x**2) + eps) * weight``, computed in float32."""

    @staticmethod
    def apply(hidden_states: Tensor, weight: Tensor, eps: float, dim: int = -1) -> Tensor:
        """The normalized tensor, in the dtype of `hidden_states`."""
        float32_states = hidden_states.float()
        normalized_states = float32_states * torch.rsqrt(
            float32_states.square().mean(dim, keepdim=True) + eps
        )
        shape = [1] * float32_states.dim()
        shape[dim] = -1
        return (normalized_states * weight.float().reshape(shape)).to(hidden_states.dtype)


class Softmax:
    """Exponentials divided by their sum along a dimension."""

    @staticmethod
    def apply(tensor: Tensor, dim: int = -1) -> Tensor:
        """The softmax."""
        return torch.softmax(tensor, dim)


class TopK:
    """The k largest elements along a dimension, the largest first, and their indices."""

    @staticmethod
    def apply(tensor: Tensor, k: int, dim: int = -1) -> Any:
        """Values and indices."""
        return torch.topk(tensor, k, dim=dim)


class Argmax:
    """The index of the largest element along a dimension."""

    @staticmethod
    def apply(tensor: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The indices."""
        return torch.argmax(tensor, dim=dim, keepdim=keepdim)


class ConcatenateOp:
    """Tensors one after the other along a dimension."""

    @staticmethod
    def apply(*tensors: Tensor, dim: int = 0) -> Tensor:
        """The joined tensor."""
        return torch.cat(tensors, dim)
