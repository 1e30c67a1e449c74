"""`torch_xla.amp.syncfree`: optimizers without a wait for the host, here PyTorch's own.

The real optimizers keep the overflow flag of a scaler of gradients on the device. Without a scaler
they compute as PyTorch's.
"""

from __future__ import annotations

from typing import Final

from torch.optim import SGD, Adam, AdamW

__all__ = ["SGD", "Adam", "AdamW"]

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names
