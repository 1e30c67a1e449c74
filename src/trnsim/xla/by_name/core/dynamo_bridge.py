"""`torch_xla.core.dynamo_bridge`, which PyTorch's backend "openxla" calls with its graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

__all__ = ["extract_compiled_graph"]


def extract_compiled_graph(module: fx.GraphModule, args: Sequence[Any]) -> Callable[..., Any]:
    """A graph compiled as by `torch.compile(backend="neuron")`, when it is called."""
    del args
    compiled_function: Callable[..., Any] = torch.compile(module, backend="neuron", dynamic=False)
    return compiled_function
