"""The logical NeuronCores of this process, and the chip that they belong to."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Final

import torch

from trnsim.arch import target as target_named
from trnsim.errors import BadInput
from trnsim.torch.faults import NoSuchCore, program_line
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from trnsim.arch import Target

Device = torch.device | str | int | None

DEFAULT_TARGET: Final = "trn2"
_TARGET: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
_VISIBLE: Final = "NEURON_RT_VISIBLE_CORES"
_COUNT: Final = "NEURON_RT_NUM_CORES"
_LOCAL_RANK: Final = "LOCAL_RANK"  # set by torchrun and accelerate launch
_SOURCE: Final = "aws-neuron-sdk neuron-runtime/nrt-configurable-parameters.rst"


@cache
def target() -> Target:
    """The chip that the device emulates, read once per process as the runtime does."""
    return target_named(os.environ.get(_TARGET, DEFAULT_TARGET))


@cache
def visible_cores() -> tuple[int, ...]:
    """Numbers of the logical cores that this process may use; neuron:0 is the first of them.

    NEURON_RT_VISIBLE_CORES names them ("3", "0-3", "0,2"); else NEURON_RT_NUM_CORES counts them;
    else there is one.

    Raises:
        BadInput: for a value that is none of these.
    """
    named = os.environ.get(_VISIBLE)
    if named is not None:
        return _parse(named)
    counted = os.environ.get(_COUNT, "1")
    if not counted.isdecimal() or not int(counted):
        raise BadInput(f"{_COUNT}={counted!r} is not a number of cores", source=_SOURCE)
    return tuple(range(int(counted)))


def _parse(named: str) -> tuple[int, ...]:
    """Core numbers of "0,2" or "0-3"."""
    cores: list[int] = []
    for part in named.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise _unreadable(named)
        cores.extend(range(int(first), int(last or first) + 1))
    if not cores or len(set(cores)) != len(cores):
        raise _unreadable(named)
    return tuple(cores)


def _unreadable(named: str) -> BadInput:
    return BadInput(
        f"{_VISIBLE}={named!r} does not name cores",
        fix=f"write a core, a list or a range, each core once: {_VISIBLE}=0-3",
        source=_SOURCE,
    )


def core_index(device: Device = None) -> int:
    """The index that a device, its name or a number stands for; 0 where none is given.

    Launchers give each process its rank on the machine (LOCAL_RANK), and programs take that for
    the index of their device. Where a process has one core, its rank means this core too.

    Raises:
        NoSuchCore: if there is no core of that index.
        BadInput: if the device is not a neuron device.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != DEVICE_TYPE:
            raise BadInput(f"{device} is not a neuron device", line=program_line())
        device = device.index
    index = device or 0
    if 0 <= index < len(visible_cores()):
        return index
    if len(visible_cores()) == 1 and os.environ.get(_LOCAL_RANK) == str(index):
        return 0
    raise no_such_core(index)


def no_such_core(index: int) -> NoSuchCore:
    """The error for an index without a core."""
    cores = visible_cores()
    return NoSuchCore(
        f"neuron:{index} does not exist: this process has {len(cores)} logical NeuronCore(s), "
        f"neuron:0 to neuron:{len(cores) - 1}",
        fix=f"set {_VISIBLE} before the program starts, for example {_VISIBLE}=0-{max(index, 1)}",
        source=_SOURCE,
        line=program_line(),
    )
