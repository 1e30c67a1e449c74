"""The cores that a process may use, from its environment, checked against its instance.

NEURON_RT_VISIBLE_CORES, NEURON_RT_NUM_CORES and NEURON_PJRT_PROCESSES_NUM_DEVICES are read only
here. Everything is read anew at each call: `device/device_core` remembers it for a process.

Source: aws-neuron-sdk neuron-runtime/guides/nrt-developer-guide.rst, The LIBNRT API.
"""

from __future__ import annotations

import os
from typing import Final

from trnsim.arch import INSTANCE_VARIABLE, Target
from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel, instance_model, instance_named

VISIBLE: Final = "NEURON_RT_VISIBLE_CORES"
COUNT: Final = "NEURON_RT_NUM_CORES"
PROCESS_CORES: Final = "NEURON_PJRT_PROCESSES_NUM_DEVICES"
"""The variable for the number of cores of each process, separated by commas."""
PROCESS_INDEX: Final = "NEURON_PJRT_PROCESS_INDEX"
LOCAL_RANK: Final = "LOCAL_RANK"
"""Set by torchrun and accelerate launch, each of whose processes has a core of its own."""
LOCAL_PROCESSES: Final = "LOCAL_WORLD_SIZE"
"""Set by torchrun: the number of processes that it started on this machine."""
SOURCE: Final = "aws-neuron-sdk neuron-runtime/guides/configuration-guide.rst"
PROCESS_SOURCE: Final = "aws-neuron-sdk frameworks/jax/api-reference-guide/neuron-envvars.rst"
_CONTIGUOUS_SOURCE: Final = "aws-neuron-sdk neuron-runtime/guides/nrt-developer-guide.rst"
_MORE_THAN_ANY_CORES: Final = 1 << 20
"""More cores than any instance has: a longer range is refused before it is expanded."""


def visible_cores(chip: Target, lnc: int) -> tuple[int, ...]:
    """Numbers of the cores that this process may use; neuron:0 is the first of them.

    NEURON_RT_VISIBLE_CORES names them ("3", "0-3", "0,1"); else NEURON_RT_NUM_CORES counts them,
    with 0 for all of the instance; else they are this process's share of
    NEURON_PJRT_PROCESSES_NUM_DEVICES, after the shares of processes with lower indices; else a rank
    that torchrun started has one, and any other process all. They are cores of TRNSIM_INSTANCE,
    else of the smallest instance of the chip that has them.

    Raises:
        BadInput: for any other value, or cores that the instance lacks.
    """
    return _visible(chip, lnc, "1" if LOCAL_RANK in os.environ else "0")


def local_processes(chip: Target, lnc: int) -> int:
    """The number of processes of this program on its machine, each with a core of its own.

    torchrun sets it. Launchers inside a program, such as Lightning's, start one for each core of
    the first process, and pass its rank to each. A rank has its own core, so the cores of a process
    without a rank are counted.

    Raises:
        BadInput: as `visible_cores`.
    """
    count_text = os.environ.get(LOCAL_PROCESSES, "")
    number = int(count_text) if _is_number(count_text) else 0
    return number or len(_visible(chip, lnc, "0"))


def _visible(chip: Target, lnc: int, default_count: str) -> tuple[int, ...]:
    """The cores of `visible_cores`; `default_count` replaces an unset NEURON_RT_NUM_CORES."""
    value = os.environ.get(VISIBLE)
    if value is not None:
        cores = parse_cores(value)
        _check(f"{VISIBLE}={value!r}", cores[-1] + 1, chip, lnc)
        return cores
    shares = process_cores()
    if shares and COUNT not in os.environ:
        index = process_index()
        first_core = sum(shares[:index])
        _check(f"{PROCESS_CORES}={os.environ[PROCESS_CORES]}", sum(shares), chip, lnc)
        return tuple(range(first_core, first_core + shares[index]))
    count_text = os.environ.get(COUNT, default_count)
    if not _is_number(count_text):
        raise BadInput(
            f"{COUNT}={count_text!r} is not a number of cores; legal: 0 for all, or from 1 on",
            fix=f"{COUNT}=1, or leave it out",
            source=SOURCE,
        )
    number = int(count_text) or process_instance(chip, lnc).cores
    _check(f"{COUNT}={count_text}", number, chip, lnc)
    return tuple(range(number))


def parse_cores(text: str) -> tuple[int, ...]:
    """Core numbers of "2", "0-3" or "0-1,2".

    Raises:
        BadInput: no cores, one twice, or one left out between others.
    """
    cores: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _is_number(first) or (dash and not _is_number(last)):
            raise _unreadable(text)
        if max(int(first), int(last or 0)) >= _MORE_THAN_ANY_CORES:
            raise _unreadable(text, f"no instance has {_MORE_THAN_ANY_CORES} cores")
        cores.extend(range(int(first), int(last or first) + 1))
    if not cores:
        raise _unreadable(text)
    if len(set(cores)) != len(cores):
        raise _unreadable(text, "its parts overlap")
    if cores != list(range(cores[0], cores[0] + len(cores))):
        raise _unreadable(text, "cores must follow each other without a gap", _CONTIGUOUS_SOURCE)
    return tuple(cores)


def _unreadable(text: str, reason: str = "", source: str = SOURCE) -> BadInput:
    return BadInput(
        f"{VISIBLE}={text!r} does not name cores" + (f": {reason}" if reason else ""),
        fix=f"write a core, a list or a range, each core once: {VISIBLE}=0-3",
        source=source,
    )


def is_chosen() -> bool:
    """True if the environment sets the cores of this process, or their number."""
    return any(name in os.environ for name in (VISIBLE, COUNT, PROCESS_CORES, LOCAL_RANK))


def process_cores() -> tuple[int, ...]:
    """The number of cores of each process; () if NEURON_PJRT_PROCESSES_NUM_DEVICES is not set.

    Raises:
        BadInput: for values that are no numbers, and a NEURON_PJRT_PROCESS_INDEX beyond them.
    """
    value = os.environ.get(PROCESS_CORES, "")
    parts = [part.strip() for part in value.split(",")] if value else []
    if not all(_is_number(part) and int(part) for part in parts):
        raise BadInput(
            f"{PROCESS_CORES}={value!r} is no number of cores for each process",
            fix=f"numbers between commas: {PROCESS_CORES}=2,2",
            source=PROCESS_SOURCE,
        )
    if parts and process_index() >= len(parts):
        raise BadInput(
            f"{PROCESS_INDEX}={process_index()}, of {len(parts)} in {PROCESS_CORES}={value}",
            fix=f"{PROCESS_INDEX} counts from 0",
            source=PROCESS_SOURCE,
        )
    return tuple(int(part) for part in parts)


def process_index() -> int:
    """The number of this process by NEURON_PJRT_PROCESS_INDEX; 0 where it is not set.

    Raises:
        BadInput: for a value that is no number.
    """
    value = os.environ.get(PROCESS_INDEX, "0")
    if not _is_number(value):
        raise BadInput(f"{PROCESS_INDEX}={value!r} is no number", source=PROCESS_SOURCE)
    return int(value)


def process_instance(chip: Target, lnc: int, cores: int = 1) -> InstanceModel:
    """The instance of this process: TRNSIM_INSTANCE, else the smallest that has its cores.

    Raises:
        BadInput: TRNSIM_INSTANCE names an instance of another chip.
    """
    name = os.environ.get(INSTANCE_VARIABLE)
    accelerator = instance_named(name).accelerator if name else chip.chip
    if accelerator != chip.chip:
        raise BadInput(
            f"{INSTANCE_VARIABLE}={name} has {accelerator}; this runs on {chip.chip}",
            fix=f"name an instance with {chip.chip}, or unset {INSTANCE_VARIABLE}",
        )
    return instance_model(name, lnc, least_cores=cores, chip=chip)


def environment_number(variable: str, default: int = 0) -> int:
    """The number in a variable of the environment; `default` where it holds none."""
    value = os.environ.get(variable, "")
    return int(value) if _is_number(value) else default


def _is_number(text: str) -> bool:
    """True for ASCII digits alone; int() also takes signs, underscores and digits of any script."""
    return text.isascii() and text.isdecimal()


def _check(setting: str, core_count: int, chip: Target, lnc: int) -> None:
    """Refuse cores that the instance does not have.

    Raises:
        BadInput: with the instance and its number of cores.
    """
    instance = process_instance(chip, lnc, core_count)
    if core_count > instance.cores:
        raise BadInput(
            f"{setting} asks for {core_count} cores; {instance.name} has {instance.cores}, 0 to "
            f"{instance.cores - 1}",
            fix=f"name cores that it has, for example {VISIBLE}=0-{instance.cores - 1}",
            source=SOURCE,
        )
