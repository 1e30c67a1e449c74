"""``neuron-ls``: the devices of an instance and the processes on them.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-ls.rst, for the columns, their order, and the
length to which a command is cut. Programs are emulated ones; the version is trnsim's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trnsim.instance import INSTANCE_ID
from trnsim.instance.model import InstanceDevice, InstanceModel
from trnsim.instance.state.observers import Observer
from trnsim.instance.state.record import ProcessRecord
from trnsim.tools.box import Row, box
from trnsim.tools.columns import (
    DEVICES_ALONE,
    WITH_PROCESSES,
    DeviceColumn,
    bdf_without_domain,
    instance_columns,
)
from trnsim.tools.drawing import drawing

_SHORT_COMMAND_CHARS: Final = 40
_LONG_COMMAND_CHARS: Final = 80
"""Characters of a command, in a narrow and in a wide table."""
_ABSENT_CELL: Final = "NA"
"""Cell for a process or a version that does not exist."""
_PROCESS_HEADER: Final = ("PID", "COMMAND", "RUNTIME\nVERSION")


@dataclass(frozen=True)
class Process:
    """A process that has devices open.

    Attributes:
        version: the version of the runtime; "NA" for a tool.
    """

    pid: int
    command: str
    version: str
    devices: frozenset[int]


def processes(
    records: Sequence[ProcessRecord], model: InstanceModel, version: str
) -> list[Process]:
    """The emulated programs of `records`, each with the devices of its cores."""
    return [
        Process(record.pid, record.command, version, _devices_of(record, model))
        for record in records
    ]


def _devices_of(record: ProcessRecord, model: InstanceModel) -> frozenset[int]:
    """Indices of the devices of a program's cores; its LNC may differ from the instance's."""
    cores_per_device = model.devices[0].cores * model.lnc
    indices = {core * record.lnc // cores_per_device for core in record.cores}
    return frozenset(index for index in indices if index < len(model.devices))


def tools(observers: Iterable[Observer], model: InstanceModel) -> list[Process]:
    """Observing tools as processes that have all devices open, for ``--show-all-procs``."""
    devices = frozenset(range(len(model.devices)))
    return [
        Process(observer.pid, observer.command, _ABSENT_CELL, devices) for observer in observers
    ]


def head(model: InstanceModel) -> str:
    """The lines above a table."""
    lines = [f"instance-type: {model.name}", f"instance-id: {INSTANCE_ID}"]
    if model.has_pairs:
        lines.append(f"logical-neuroncore-config: {model.lnc}")
    return "\n".join(lines)


def overview(model: InstanceModel) -> str:
    """Devices with the numbers of their cores and their places in the host."""
    return _device_table(model, DEVICES_ALONE)


def wide(model: InstanceModel, procs: Sequence[Process]) -> str:
    """Devices with their processes, with long commands."""
    return _process_table(model, procs, _LONG_COMMAND_CHARS)


def all_processes(model: InstanceModel, procs: Sequence[Process]) -> str:
    """Devices with all processes, tools among them, and a line between devices."""
    return _process_table(model, procs, _SHORT_COMMAND_CHARS, is_ruled=True)


def topology(model: InstanceModel) -> str:
    """Devices with their links, as a table and drawn."""
    table = _device_table(model, WITH_PROCESSES)
    drawing_text = drawing(model)
    return f"{table}\n\n\n{drawing_text}" if drawing_text else table


def as_json(model: InstanceModel, procs: Sequence[Process]) -> str:
    """The devices as JSON."""
    values = [_device_values(device, model, procs) for device in model.devices]
    return json.dumps(values, indent=4)


def _device_values(
    device: InstanceDevice, model: InstanceModel, procs: Sequence[Process]
) -> dict[str, Any]:
    config = {"logical_neuroncore_config": model.lnc} if model.has_pairs else {}
    return {
        "neuron_device": device.index,
        "bdf": bdf_without_domain(device.bdf),
        "cpu_affinity": device.cpu_affinity,
        "numa_node": str(device.numa_node),
        "connected_to": list(device.connected) or None,
        "nc_count": device.cores,
        **config,
        "memory_size": device.memory_bytes,
        "neuroncore_ids": list(device.core_ids),
        "neuron_processes": [
            {
                "pid": process.pid,
                "command": cut(process.command, _SHORT_COMMAND_CHARS),
                "neuron_runtime_version": process.version,
            }
            for process in procs
            if device.index in process.devices
        ],
    }


def _device_table(model: InstanceModel, candidates: tuple[DeviceColumn, ...]) -> str:
    columns = instance_columns(model, candidates)
    return box(
        [column.title for column in columns], [[_row(device, columns) for device in model.devices]]
    )


def _process_table(
    model: InstanceModel, procs: Sequence[Process], width: int, *, is_ruled: bool = False
) -> str:
    columns = instance_columns(model, WITH_PROCESSES)
    groups = [_process_rows(device, columns, procs, width) for device in model.devices]
    return box((*(column.title for column in columns), *_PROCESS_HEADER), groups, is_ruled=is_ruled)


def _process_rows(
    device: InstanceDevice, columns: Sequence[DeviceColumn], procs: Sequence[Process], width: int
) -> list[Row]:
    """One row per process of a device, the first with the device; "NA" where it has no process.

    Source: aws-neuron-sdk@93e9f5d8 tools/neuron-sys-tools/neuron-ls.rst, device 3 of inf1.6xlarge.
    """
    process_rows: list[Row] = [
        (str(process.pid), cut(process.command, width), process.version)
        for process in procs
        if device.index in process.devices
    ]
    first_row, *further_rows = process_rows or [(_ABSENT_CELL,) * len(_PROCESS_HEADER)]
    blank = ("",) * len(columns)
    return [(*_row(device, columns), *first_row), *((*blank, *row) for row in further_rows)]


def _row(device: InstanceDevice, columns: Sequence[DeviceColumn]) -> Row:
    return tuple(column.text(device) for column in columns)


def cut(command: str, width: int) -> str:
    """A command in one line of at most `width` characters; a shortened command ends in "..."."""
    line = " ".join(command.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
