"""`torch_xla.distributed.fsdp.utils`: a module whose activations are computed again.

Source: torch_xla 2.9.0, distributed/fsdp/utils.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from torch import nn
from torch.utils import _pytree as pytree

from trnsim.xla.absent_names import absence_getter
from trnsim.xla.by_name.utils.checkpoint import checkpoint

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_PLAIN: Final = "_forward_without_checkpoint"


def add_checkpoint(forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward` under a checkpoint: only its arguments are kept for the backward pass."""

    @wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = pytree.tree_flatten((args, kwargs))

        def run(*values: Any) -> Any:
            arguments, keywords = pytree.tree_unflatten(list(values), tree)
            return forward(*arguments, **keywords)

        return checkpoint(run, *leaves)

    return call


def checkpoint_module(module: nn.Module) -> nn.Module:
    """The module itself, whose forward keeps only its arguments for the backward pass.

    A wrapper of fsdp around it gathers the parameters again in the backward pass.
    """
    setattr(module, _PLAIN, module.forward)
    module.forward = add_checkpoint(module.forward)
    return module


def plain_forward(module: nn.Module) -> Callable[..., Any] | None:
    """The forward of a module of `checkpoint_module` without the checkpoint; None of others."""
    forward: Callable[..., Any] | None = getattr(module, _PLAIN, None)
    return forward


__getattr__ = absence_getter("torch_xla.distributed.fsdp.utils", __name__)
