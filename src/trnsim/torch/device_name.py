"""The name of the device, and whether a device of PyTorch is it."""

from __future__ import annotations

from typing import Final

import torch

__all__ = ["DEVICE_TYPE", "device_names", "is_neuron"]

DEVICE_TYPE: Final = "neuron"
device_names: Final = {DEVICE_TYPE}
"""Names under which a device of PyTorch is ours."""


def is_neuron(device: torch.device) -> bool:
    """True if `device` is ours, whatever its name."""
    return device.type in device_names
