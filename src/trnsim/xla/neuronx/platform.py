"""`torch_neuronx.utils`: the chip of this process."""

from __future__ import annotations

from typing import Final

from trnsim.arch import TARGETS
from trnsim.device.device_core import target

SUPPORTED_TYPES: Final = tuple(TARGETS)
"""The chips."""


def get_platform_target() -> str:
    """The chip of this process, "trn2"; NEURON_PLATFORM_TARGET_OVERRIDE names another."""
    return target().name
