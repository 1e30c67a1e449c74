"""The NeuronCores that are devices of this process, and the chip that they belong to.

A device is a logical NeuronCore of AWS's runtime: two physical ones on Trn2 and Trn3, over which
graphs are split, unless NEURON_LOGICAL_NC_CONFIG=1; one on other chips. It has their part of the
chip's HBM, and their peak. `device_core` decides this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from trnsim.arch import CORES_VARIABLE, Target, configured_cores, makes_pairs
from trnsim.arch import target as target_named
from trnsim.arch.catalogue import catalogue
from trnsim.arch.environment import chosen_target
from trnsim.arch.peaks import peak_flop_per_s
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.instance import cores as settings
from trnsim.instance import model
from trnsim.profile.units import bytes_text

if TYPE_CHECKING:  # a kernel alone needs no compiler
    from trnsim.compiler import Flags

_LOGICAL_SOURCE: Final = "aws-neuron-sdk logical-neuroncore-config.rst"


class NoSuchCore(BadInput, RuntimeError):
    """A device index for which there is no NeuronCore."""


@cache
def target() -> Target:
    """The chip that the device emulates, read once per process as by the runtime."""
    return target_named(chosen_target()[0])


@dataclass(frozen=True, slots=True)
class DeviceCore:
    """The NeuronCores that make up one device on a chip.

    Attributes:
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
        hbm = bytes_text(self.hbm_bytes)
        if self.physical_cores == 1:
            return f"one of the {cores} NeuronCores of {self.chip.name}, {hbm} of HBM"
        pair = f"two of its {cores} NeuronCores"
        return f"a logical NeuronCore of {self.chip.name}: {pair}, {hbm} of HBM"


def device_core(chip: Target | None = None, cores: int | None = None) -> DeviceCore:
    """The device of this process, or of another chip, or of another number of cores."""
    chip = chip or target()
    if chip == target():
        default_cores = logical_config()
    else:
        default_cores = model.logical_config(chip.chip) if makes_pairs(chip.core) else 1
    physical_cores = cores or default_cores
    row = catalogue().chips[chip.chip]
    return DeviceCore(
        chip,
        physical_cores,
        int(row.memory_bytes) // row.cores * physical_cores,
        peak_flop_per_s(chip.core) * physical_cores,
        row.memory_bytes.provenance.source,
    )


@cache
def logical_config() -> int:
    """The number of NeuronCores in a device: NEURON_LOGICAL_NC_CONFIG, else the chip's default.

    The default is 2 where a chip has logical cores.

    Raises:
        BadInput: for another number, and for 2 on a chip without logical cores.
    """
    return model.logical_config(target().chip)


def device_text(target: str, cores: int) -> str:
    """A chip's device in a title: "trn2", or "trn2 (LNC=2)" where it is two cores."""
    return target if cores == 1 else f"{target} (LNC={cores})"


def compiled_cores(chip: Target, flags: Flags, cores: int | None = None) -> int:
    """NeuronCores to compile a graph for: `cores`, else by its flags, else as many as a device has.

    Raises:
        BadInput: for flags that contradict NEURON_LOGICAL_NC_CONFIG, or `cores`.
    """
    flag_cores, configuration = flags.logical_nc_config, configured_cores()
    requested_cores = cores or (None if configuration is None else device_core(chip).physical_cores)
    if flag_cores is not None and requested_cores not in (None, flag_cores):
        setting = f"--lnc {cores}" if cores else "=".join(configuration or ())
        raise BadInput(
            f"--logical-nc-config={flag_cores} and {setting} on {chip.name}; legal: the same "
            "number",
            fix="leave one of the two out: the compiler's and the runtime's must agree",
            source=_LOGICAL_SOURCE,
        )
    return requested_cores or flag_cores or device_core(chip).physical_cores


def require_same_cores(flags: Flags) -> None:
    """Refuse flags for another number of cores than a device of this process has.

    Raises:
        BadInput: for such flags.
    """
    flag_cores, device_cores = flags.logical_nc_config, device_core().physical_cores
    if flag_cores not in (None, device_cores):
        raise BadInput(
            f"--logical-nc-config={flag_cores} on {target().name}; legal: {device_cores}, as a "
            "device of this process has",
            fix=f"{CORES_VARIABLE}={flag_cores}: the compiler's and the runtime's must agree",
            source=_LOGICAL_SOURCE,
        )


@cache
def visible_cores() -> tuple[int, ...]:
    """Numbers of the cores that this process may use; neuron:0 is the first of them.

    Raises:
        BadInput: the environment names none, or cores that the instance lacks.
    """
    return settings.visible_cores(target(), logical_config())


def local_processes() -> int:
    """The number of this program's processes on its machine, where each has a core of its own.

    Raises:
        BadInput: the environment names no cores, or cores that the instance lacks.
    """
    return settings.local_processes(target(), logical_config())


def visible_core(index: int) -> int:
    """The visible core of a device with an index.

    Launchers give each process its rank on the machine (LOCAL_RANK), and programs use it as the
    index of their device. So where a process has one core, its rank stands for this core too.

    Raises:
        NoSuchCore: if there is no core of that index.
    """
    if 0 <= index < len(visible_cores()):
        return index
    if len(visible_cores()) == 1 and os.environ.get(settings.LOCAL_RANK) == str(index):
        return 0
    raise no_such_core(index)


def no_such_core(index: int) -> NoSuchCore:
    """The error for an index without a core."""
    cores = visible_cores()
    return NoSuchCore(
        f"neuron:{index} does not exist: this process has {len(cores)} NeuronCore(s), "
        f"neuron:0 to neuron:{len(cores) - 1}",
        fix=f"neuron:{len(cores) - 1} is the last one"
        if index < 0
        else f"set {settings.VISIBLE} before the program starts, for example "
        f"{settings.VISIBLE}=0-{max(index, 1)}",
        source=settings.SOURCE,
        line=program_line(),
    )
