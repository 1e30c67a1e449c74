"""`torch_xla.runtime`, which programs call `xr`: ranks and devices of the program.

Source: torch_xla 2.9.0, runtime.py; `using_pjrt` of 2.1.
"""

from __future__ import annotations

import os
from typing import Final

import torch

from trnsim.instance.cores import environment_number
from trnsim.torch.api import device as device_module
from trnsim.xla import ranks
from trnsim.xla.absent_names import absence_getter
from trnsim.xla.device_spelling import SPELLING

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names

_DEVICE: Final = "PJRT_DEVICE"


def device_type() -> str:
    """The runtime's kind of device: "NEURON", whatever PJRT_DEVICE is (a warning says so)."""
    return "NEURON"


def set_device_type(pjrt_device: str) -> None:
    """Accept the kind of device that there is.

    Raises:
        ValueError: for another kind.
    """
    if pjrt_device != "NEURON":
        raise ValueError(f"PJRT_DEVICE is NEURON here, not {pjrt_device!r}")
    os.environ[_DEVICE] = pjrt_device


def using_pjrt() -> bool:
    """True: the older runtime (XRT) is gone."""
    return True


def is_bf16_supported() -> bool:
    """True: every NeuronCore has bfloat16."""
    return True


def is_spmd() -> bool:
    """False: sharding by annotations is not modelled for PyTorch."""
    return False


# A rank is a process.
world_size = process_count = ranks.world_size
global_ordinal = process_index = ranks.ordinal
local_ordinal = ranks.local_ordinal
local_process_count = ranks.local_world_size


def host_index() -> int:
    """The number of this machine, by torchrun's GROUP_RANK; 0 without a number in it."""
    return environment_number("GROUP_RANK", 0)


def addressable_device_count() -> int:
    """The number of devices that a rank uses: 1, but all of them in a program of one rank."""
    return device_module.device_count() if ranks.world_size() == 1 else 1


def local_device_count() -> int:
    """The number of devices that the ranks of this machine use."""
    return ranks.local_world_size() * addressable_device_count()


def global_device_count() -> int:
    """The number of devices that all ranks use."""
    return ranks.world_size() * addressable_device_count()


# No device is virtual.
addressable_runtime_device_count = addressable_device_count
global_runtime_device_count = global_device_count


def xla_device(n: int | None = None) -> torch.device:
    """The device of this process, or its core `n`."""
    return torch.device(SPELLING, n or 0)


__getattr__ = absence_getter("torch_xla.runtime", __name__)
