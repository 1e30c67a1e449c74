"""`torch_neuronx.utils`: the chip of this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.arch import TARGETS
from trnsim.compiler import Flags
from trnsim.device.device_core import target

SUPPORTED_TYPES: Final = tuple(TARGETS)
"""Names of the chips."""


def get_platform_target(compiler_args: str | Sequence[str] | None = None) -> str:
    """The chip that --target names, else that of this process.

    That is "trn2", unless NEURON_PLATFORM_TARGET_OVERRIDE names another.

    Raises:
        BadInput: for flags that are not legal.
    """
    flags = Flags.parse(compiler_args or "", "compiler_args")
    return flags.target or target().name
