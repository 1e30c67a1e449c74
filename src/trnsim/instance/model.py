"""An instance as its tools see it: devices, logical cores, memory, links, places in the host.

Numbers come from the catalogue. Fields that AWS lists for other instances only are carried over,
and named in `is_assumed`.

Sources: aws-neuron-sdk tools/neuron-sys-tools/neuron-ls.rst (fields and their order),
neuron-runtime/explore/runtime-performance-tips.rst (three instances, device by device).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from operator import attrgetter
from typing import Final

from trnsim.arch import (
    CORES_VARIABLE,
    INSTANCE_VARIABLE,
    Target,
    configured_cores,
    makes_pairs,
    target,
    target_of_chip,
)
from trnsim.arch.catalogue import Accelerator, Instance, catalogue
from trnsim.arch.slots import slots
from trnsim.errors import BadInput
from trnsim.fabric.topology import topology_of
from trnsim.facts import Evidence

_MOST_SIMILAR_NAMES: Final = 3
_LNC_SOURCE: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_HOST_FIELDS: Final = ("bdf", "numa_node", "cpu_affinity")


@dataclass(frozen=True)
class InstanceDevice:
    """A Neuron device: a chip of the instance.

    Attributes:
        bdf: its PCI address, with its domain.
        numa_node: its NUMA node; -1 where the host has one.
        cpu_affinity: the processors of that node, as ranges.
        connected: devices linked to it, in neuron-ls's order.
        first_core: the number of its first logical core on the instance.
        serial_number: 16 hexadecimal digits, the same on every instance of its type.
    """

    index: int
    cores: int
    memory_bytes: int
    bdf: str
    numa_node: int
    cpu_affinity: str
    connected: tuple[int, ...]
    first_core: int
    serial_number: str

    @property
    def core_ids(self) -> range:
        """The numbers of its logical cores on the instance."""
        return range(self.first_core, self.first_core + self.cores)


@dataclass(frozen=True)
class InstanceModel:
    """An instance.

    Attributes:
        name: its type ("trn2.48xlarge").
        chip: the catalogue key of its chip.
        generation: the generation of its NeuronCores, from 1.
        lnc: physical NeuronCores in a logical one.
        vcpus: processors of its host.
        host_bytes: memory of its host; 0 where no source states it.
        efa_adapters: EFA adapters; 0 where none is stated.
        is_assumed: fields of `devices` that no page of AWS's lists for this instance.
    """

    name: str
    chip: str
    generation: int
    lnc: int
    devices: tuple[InstanceDevice, ...]
    vcpus: int
    host_bytes: int
    efa_adapters: int
    is_assumed: tuple[str, ...]

    @property
    def cores(self) -> int:
        """Logical NeuronCores of all devices."""
        return sum(device.cores for device in self.devices)

    @property
    def has_pairs(self) -> bool:
        """True if its chip has logical cores of two."""
        return _has_pairs(self.chip)

    @property
    def core_version(self) -> str:
        """The version of its cores in neuron-monitor's words: "v2", "v3", or "v3d" at LNC=2.

        Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-top-user-guide.rst.
        """
        return f"v{self.generation}{'d' if self.lnc > 1 else ''}"

    def device(self, index: int) -> InstanceDevice:
        """The device numbered `index`.

        Raises:
            BadInput: the instance has no such device.
        """
        if not 0 <= index < len(self.devices):
            last_device = len(self.devices) - 1
            legal = "0 alone" if last_device == 0 else f"0 to {last_device}"
            raise BadInput(
                f"device {index}; legal on {self.name}: {legal}",
                fix="trnsim neuron-ls lists the devices",
            )
        return self.devices[index]


def instance_model(
    name: str | None = None,
    lnc: int | None = None,
    *,
    least_cores: int = 1,
    chip: Target | None = None,
) -> InstanceModel:
    """The instance called `name`, or else TRNSIM_INSTANCE, or else the smallest of the target chip.

    Args:
        name: an instance type or UltraServer of the catalogue, with Neuron devices.
        lnc: physical cores in a logical one; NEURON_LOGICAL_NC_CONFIG, else the chip's own.
        least_cores: logical cores that the smallest instance must have.
        chip: the target chip; NEURON_PLATFORM_TARGET_OVERRIDE's, else the default.

    Raises:
        BadInput: no such instance, or its chip lacks that LNC.
    """
    instance_name = name or os.environ.get(INSTANCE_VARIABLE)
    if instance_name:
        row = instance_named(instance_name)
        return _model(row.name, logical_config(row.accelerator, lnc))
    # Only now: a tool with a named instance starts in half the time without NKI.
    from trnsim.arch.environment import chosen_target  # noqa: PLC0415

    key = (chip or target(chosen_target()[0])).chip
    degree = logical_config(key, lnc)
    return _model(smallest(key, least_cores, degree).name, degree)


def instance_named(name: str) -> Instance:
    """The row of the instance called `name`.

    Raises:
        BadInput: there is no such instance with Neuron devices.
    """
    rows = catalogue()
    row = rows.instances.get(name)
    if row is not None and row.accelerator in rows.chips:
        return row
    legal = [row.name for row in rows.instances.values() if row.accelerator in rows.chips]
    similar_names = get_close_matches(name.strip().lower(), legal, _MOST_SIMILAR_NAMES)
    fault = "is not known" if row is None else f"has {row.accelerator}, no Neuron devices"
    raise BadInput(
        f"instance {name!r} {fault}; legal: {', '.join(legal)}",
        fix=f"perhaps {' or '.join(map(repr, similar_names))}" if similar_names else "",
    )


def smallest(chip: str, cores: int, lnc: int) -> Instance:
    """The smallest instance of a chip that has as many logical cores; else the largest.

    UltraServers come last: a process sees one machine.
    """
    rows = catalogue()
    of_chip = [row for row in rows.instances.values() if row.accelerator == chip]
    single_machines = [row for row in of_chip if "UltraServer" not in row.name] or of_chip
    per_chip = rows.chips[chip].cores // lnc
    fitting_rows = [row for row in single_machines if row.count * per_chip >= cores]
    by_devices = attrgetter("count")
    return (
        min(fitting_rows, key=by_devices) if fitting_rows else max(single_machines, key=by_devices)
    )


def logical_config(chip: str, lnc: int | None = None) -> int:
    """Physical cores in a logical one: `lnc`, else NEURON_LOGICAL_NC_CONFIG, else the chip's own.

    That is 2 where a chip has logical cores. NEURON_RT_VIRTUAL_CORE_SIZE is another name of the
    variable.

    Raises:
        BadInput: the chip lacks it.
    """
    chip_target, has_pairs = target_of_chip(chip), _has_pairs(chip)
    default = (CORES_VARIABLE, "2" if has_pairs else "1")
    name, value = ("LNC", str(lnc)) if lnc is not None else configured_cores() or default
    if value == "1" or (value == "2" and has_pairs):
        return int(value)
    setting = f"lnc is {lnc}" if lnc is not None else f"{name}={value!r}"
    raise BadInput(
        f"{setting} on {chip_target.name if chip_target else chip}; "
        f"legal: {'1 or 2' if has_pairs else '1'}",
        fix=("--lnc 1" if lnc is not None else f"{name}=1"),
        source=_LNC_SOURCE,
    )


def _has_pairs(chip: str) -> bool:
    chip_target = target_of_chip(chip)
    return chip_target is not None and makes_pairs(chip_target.core)


@cache
def _model(name: str, lnc: int) -> InstanceModel:
    row = catalogue().instances[name]
    chip = catalogue().chips[row.accelerator]
    chip_target = target_of_chip(chip.name)
    places = slots(row.name, row.count, row.vcpus)
    is_listed = places.provenance.kind is Evidence.DOCUMENTED
    is_switched = row.shape.startswith("racks")
    return InstanceModel(
        name=row.name,
        chip=chip.name,
        generation=chip_target.core.generation if chip_target else 1,
        lnc=lnc,
        devices=_devices(row, chip, lnc),
        vcpus=row.vcpus,
        host_bytes=int(row.host_bytes or 0),
        efa_adapters=row.efa_devices,
        is_assumed=(() if is_listed else _HOST_FIELDS) + (("connected",) if is_switched else ()),
    )


def _devices(row: Instance, chip: Accelerator, lnc: int) -> tuple[InstanceDevice, ...]:
    places = slots(row.name, row.count, row.vcpus)
    topology = topology_of(row, chip)
    cores = chip.cores // lnc
    return tuple(
        InstanceDevice(
            index,
            cores,
            int(chip.memory_bytes),
            places.bdf[index],
            places.numa_node[index],
            places.cpu_affinity(index),
            topology.neighbours(index) if row.count > 1 else (),
            index * cores,
            _serial_number(row.name, index),
        )
        for index in range(row.count)
    )


def _serial_number(instance: str, device: int) -> str:
    return hashlib.blake2b(f"trnsim {instance} {device}".encode(), digest_size=8).hexdigest()
