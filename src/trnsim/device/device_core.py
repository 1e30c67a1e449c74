"""The NeuronCores that are devices of this process, and the chip that they belong to.

A device is a logical NeuronCore as AWS's runtime makes it: two physical ones on Trn2 and Trn3, over
which graphs are split, unless NEURON_LOGICAL_NC_CONFIG=1; one on other chips. It has their part of
the chip's HBM, and their peak. `device_core` is the one place that decides this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from trnsim.arch import makes_pairs
from trnsim.arch import target as target_named
from trnsim.arch.catalogue import catalogue
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.nki.environment import CORES_VARIABLE, chosen_target
from trnsim.profile.measures.metrics import peak_flop_per_s
from trnsim.profile.units import bytes_text

if TYPE_CHECKING:
    from trnsim.arch import Target
    from trnsim.compiler import Flags

_VISIBLE: Final = "NEURON_RT_VISIBLE_CORES"
_COUNT: Final = "NEURON_RT_NUM_CORES"
PROCESS_CORES: Final = "NEURON_PJRT_PROCESSES_NUM_DEVICES"
"""The number of cores of each process, between commas."""
PROCESS_INDEX: Final = "NEURON_PJRT_PROCESS_INDEX"
_LOCAL_RANK: Final = "LOCAL_RANK"  # set by torchrun and accelerate launch
_LOGICAL: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_SOURCE: Final = "aws-neuron-sdk neuron-runtime/nrt-configurable-parameters.rst"
PROCESS_SOURCE: Final = "aws-neuron-sdk frameworks/jax/api-reference-guide/neuron-envvars.rst"


class NoSuchCore(BadInput, RuntimeError):
    """A device index for which there is no NeuronCore."""


@cache
def target() -> Target:
    """The chip that the device emulates, read once per process as the runtime does."""
    return target_named(chosen_target()[0])


@dataclass(frozen=True, slots=True)
class DeviceCore:
    """The NeuronCores that make up one device on a chip.

    Attributes:
        chip: the chip.
        physical_cores: number of NeuronCores, 1 or 2.
        hbm_bytes: their part of the chip's HBM.
        peak_flop_per_s: the peak of all of them, in bfloat16.
        source: where the chip's HBM is documented.
    """

    chip: Target
    physical_cores: int
    hbm_bytes: int
    peak_flop_per_s: float
    source: str

    def __str__(self) -> str:
        cores = catalogue().chips[self.chip.chip].cores
        held = bytes_text(self.hbm_bytes)
        if self.physical_cores == 1:
            return f"one of the {cores} NeuronCores of {self.chip.name}, {held} of HBM"
        pair = f"two of its {cores} NeuronCores"
        return f"a logical NeuronCore of {self.chip.name}: {pair}, {held} of HBM"


def device_core(chip: Target | None = None, cores: int | None = None) -> DeviceCore:
    """The device of this process, or what it would be on another chip, or of as many cores."""
    found = chip or target()
    asked = logical_config()
    physical = cores or (asked if makes_pairs(found.core) else 1)
    row = catalogue().chips[found.chip]
    return DeviceCore(
        found,
        physical,
        int(row.memory_bytes) // row.cores * physical,
        peak_flop_per_s(found.core) * physical,
        row.memory_bytes.provenance.source,
    )


@cache
def logical_config() -> int:
    """The number of NeuronCores in a device: NEURON_LOGICAL_NC_CONFIG, else the chip's own.

    That is 2 where a chip has logical cores.

    Raises:
        BadInput: for another number, and for 2 on a chip without logical cores.
    """
    has_pairs = makes_pairs(target().core)
    value = os.environ.get(CORES_VARIABLE) or ("2" if has_pairs else "1")
    if value == "1" or (value == "2" and has_pairs):
        return int(value)
    legal = "1 or 2" if has_pairs else "1"
    raise BadInput(
        f"{CORES_VARIABLE}={value!r} on {target().name}; legal: {legal}",
        fix=f"{CORES_VARIABLE}=1",
        source=_LOGICAL,
    )


def device_text(target: str, cores: int) -> str:
    """A chip's device in a title: "trn2", or "trn2 (LNC=2)" where it is two cores."""
    return target if cores == 1 else f"{target} (LNC={cores})"


def compiled_cores(chip: Target, flags: Flags, cores: int | None = None) -> int:
    """NeuronCores that a graph is compiled for: `cores`, those of its flags, those of a device.

    Raises:
        BadInput: for flags that contradict NEURON_LOGICAL_NC_CONFIG, or `cores`.
    """
    flagged, configured = flags.logical_nc_config, os.environ.get(CORES_VARIABLE) or None
    asked = cores or (None if configured is None else device_core(chip).physical_cores)
    if flagged is not None and asked not in (None, flagged):
        said = f"--lnc {cores}" if cores else f"{CORES_VARIABLE}={configured}"
        raise BadInput(
            f"--logical-nc-config={flagged} and {said} on {chip.name}; legal: the same number",
            fix="leave one of the two out: the compiler's and the runtime's must agree",
            source=_LOGICAL,
        )
    return asked or flagged or device_core(chip).physical_cores


def require_same_cores(flags: Flags) -> None:
    """Refuse flags for another number of cores than a device of this process has.

    Raises:
        BadInput: for them.
    """
    flagged, has = flags.logical_nc_config, device_core().physical_cores
    if flagged not in (None, has):
        raise BadInput(
            f"--logical-nc-config={flagged} on {target().name}; legal: {has}, as a device of this "
            "process has",
            fix=f"{CORES_VARIABLE}={flagged}: the compiler's and the runtime's must agree",
            source=_LOGICAL,
        )


@cache
def visible_cores() -> tuple[int, ...]:
    """Numbers of the cores that this process may use; neuron:0 is the first of them.

    NEURON_RT_VISIBLE_CORES names them ("3", "0-3", "0,2"); else NEURON_RT_NUM_CORES counts them;
    else they are this process's share of NEURON_PJRT_PROCESSES_NUM_DEVICES, behind the others';
    else there is one. They are cores of the chip's largest instance.

    Raises:
        BadInput: for a value that is none of these, or cores that no instance has.
    """
    named = os.environ.get(_VISIBLE)
    if named is not None:
        found = _parse(named)
        _check_instance(f"{_VISIBLE}={named!r}", max(found) + 1)
        return found
    shares = process_cores()
    if shares and _COUNT not in os.environ:
        first = sum(shares[: process_index()])
        _check_instance(f"{PROCESS_CORES}={os.environ[PROCESS_CORES]}", sum(shares))
        return tuple(range(first, first + shares[process_index()]))
    counted = os.environ.get(_COUNT, "1")
    if not counted.isdecimal() or not int(counted):
        raise BadInput(f"{_COUNT}={counted!r} is not a number of cores", source=_SOURCE)
    _check_instance(f"{_COUNT}={counted}", int(counted))
    return tuple(range(int(counted)))


def process_cores() -> tuple[int, ...]:
    """The number of cores of each process; none where NEURON_PJRT_PROCESSES_NUM_DEVICES is not set.

    Raises:
        BadInput: for what are no numbers, and for a NEURON_PJRT_PROCESS_INDEX beyond them.
    """
    value = os.environ.get(PROCESS_CORES, "")
    parts = [part.strip() for part in value.split(",")] if value else []
    if not all(part.isdecimal() and int(part) for part in parts):
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
        BadInput: for what is no number.
    """
    value = os.environ.get(PROCESS_INDEX, "0")
    if not value.isdecimal():
        raise BadInput(f"{PROCESS_INDEX}={value!r} is no number", source=PROCESS_SOURCE)
    return int(value)


def _check_instance(setting: str, needed: int) -> None:
    """Refuse cores beyond those of the chip's largest instance.

    Raises:
        BadInput: naming the instance and how many it has.
    """
    found = catalogue()
    having = [one for one in found.instances.values() if one.accelerator == target().chip]
    alone = [one for one in having if "UltraServer" not in one.name]
    instance = max(alone or having, key=lambda one: one.count)
    number = instance.count * found.chips[instance.accelerator].cores // logical_config()
    if needed > number:
        raise BadInput(
            f"{setting} asks for {needed} cores; {instance.name} has {number}, 0 to {number - 1}",
            fix=f"name cores that it has, for example {_VISIBLE}=0-{number - 1}",
            source=_SOURCE,
        )


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


def core_of(index: int) -> int:
    """The core that a device's index stands for.

    Launchers give each process its rank on the machine (LOCAL_RANK), and programs use it as the
    index of their device. So where a process has one core, its rank stands for this core too.

    Raises:
        NoSuchCore: if there is no core of that index.
    """
    if 0 <= index < len(visible_cores()):
        return index
    if len(visible_cores()) == 1 and os.environ.get(_LOCAL_RANK) == str(index):
        return 0
    raise no_such_core(index)


def no_such_core(index: int) -> NoSuchCore:
    """The error for an index without a core."""
    cores = visible_cores()
    return NoSuchCore(
        f"neuron:{index} does not exist: this process has {len(cores)} NeuronCore(s), "
        f"neuron:0 to neuron:{len(cores) - 1}",
        fix=f"set {_VISIBLE} before the program starts, for example {_VISIBLE}=0-{max(index, 1)}",
        source=_SOURCE,
        line=program_line(),
    )
