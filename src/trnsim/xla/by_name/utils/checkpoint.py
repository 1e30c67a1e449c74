"""`torch_xla.utils.checkpoint`: activations computed again in the backward pass.

The real function differs from PyTorch's by a barrier that keeps its compiler from merging the two
passes; operators here run in order, and the random state of the device is kept by PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# Imported by name, as programs replace PyTorch's function in its module by this module's function.
from torch.utils.checkpoint import checkpoint as pytorch_checkpoint

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool = True, **kwargs: Any
) -> Any:
    """`function(*args)`, of which only the arguments are kept for the backward pass."""
    return pytorch_checkpoint(function, *args, use_reentrant=use_reentrant, **kwargs)
