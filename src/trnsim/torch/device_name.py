"""The name of the device's type in PyTorch."""

from __future__ import annotations

from typing import Final

import torch

DEVICE_TYPE: Final = "neuron"
device_names: Final = {DEVICE_TYPE}
"""Types under which PyTorch names the device; `torch_xla` adds its own."""


def is_neuron(device: torch.device) -> bool:
    """True if `device` is a neuron device, under any name of its type."""
    return device.type in device_names
