"""Columns of neuron-ls's tables: a device's cores, memory, links and place in the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trnsim.instance.model import InstanceDevice, InstanceModel

_GIB: Final = 1 << 30


@dataclass(frozen=True)
class DeviceColumn:
    """A column of a table of devices.

    Attributes:
        title: header of the column, of several lines.
        text: function from a device to the text of its cell.
    """

    title: str
    text: Callable[[InstanceDevice], str]


def bdf_without_domain(bdf: str) -> str:
    """A PCI address without its domain."""
    return bdf.partition(":")[2]


def _ids(device: InstanceDevice) -> str:
    """The numbers of a device's cores: "0-3", or "0" for a single core."""
    ids = device.core_ids
    return f"{ids[0]}-{ids[-1]}" if len(ids) > 1 else str(ids[0])


_DEVICE: Final = DeviceColumn("NEURON\nDEVICE", lambda device: str(device.index))
_CORES: Final = DeviceColumn("NEURON\nCORES", lambda device: str(device.cores))
_IDS: Final = DeviceColumn("NEURON\nCORE IDS", _ids)
_MEMORY: Final = DeviceColumn("NEURON\nMEMORY", lambda device: f"{device.memory_bytes // _GIB} GB")
_CONNECTED: Final = DeviceColumn(
    "CONNECTED\nDEVICES", lambda device: ", ".join(map(str, device.connected))
)
_BDF: Final = DeviceColumn("PCI\nBDF", lambda device: device.bdf)
_SHORT_BDF: Final = DeviceColumn("PCI\nBDF", lambda device: bdf_without_domain(device.bdf))
_AFFINITY: Final = DeviceColumn("CPU\nAFFINITY", lambda device: device.cpu_affinity)
_NUMA_NODE: Final = DeviceColumn("NUMA\nNODE", lambda device: str(device.numa_node))

DEVICES_ALONE: Final = (_DEVICE, _CORES, _IDS, _MEMORY, _CONNECTED, _BDF, _AFFINITY, _NUMA_NODE)
"""Columns of a table that has devices only."""
WITH_PROCESSES: Final = (_DEVICE, _CORES, _MEMORY, _CONNECTED, _SHORT_BDF)
"""Columns of a table of devices that also has processes or links."""


def instance_columns(model: InstanceModel, columns: tuple[DeviceColumn, ...]) -> list[DeviceColumn]:
    """`columns`, without the column of connected devices if the instance's devices have no links.

    Source: aws-neuron-sdk setup/multiframework-dlami.rst, a table of one device.
    """
    has_links = any(device.connected for device in model.devices)
    return [column for column in columns if column is not _CONNECTED or has_links]
