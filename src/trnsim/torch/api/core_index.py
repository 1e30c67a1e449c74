"""The core index of a PyTorch device, which may be given by name or by number."""

from __future__ import annotations

import operator

import torch

from trnsim.device.device_core import visible_core
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.device_name import is_neuron

Device = torch.device | str | int | None


def core_index(device: Device = None) -> int:
    """The core index of a device, which may be given by name or by number; 0 for None.

    Raises:
        NoSuchCore: if there is no core of that index.
        BadInput: if the device is not a neuron device.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if not is_neuron(device):
            raise BadInput(
                f"{device} is not a neuron device",
                fix="pass 'neuron', 'neuron:0', or the number of a core",
                line=program_line(),
            )
        device = device.index
    try:
        index = 0 if device is None else operator.index(device)
    except TypeError:
        raise BadInput(
            f"{device!r} is no device",
            fix="pass 'neuron', 'neuron:0', or the number of a core",
            line=program_line(),
        ) from None
    return visible_core(index)
