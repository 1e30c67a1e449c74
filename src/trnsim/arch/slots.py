"""The places of an instance's devices in their host: PCI addresses, NUMA nodes and their CPUs.

AWS's pages list three instances device by device. Every other instance gets addresses of the same
form and one NUMA node; their provenance marks them as assumed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from trnsim.facts import Evidence, Provenance

_ONE_DEVICE: Final = "0000:00:1e.0"
_NO_NUMA: Final = -1
_SLOTS_PER_BUS: Final = 4
_FIRST_SLOT: Final = 0x1C
_ONE_DEVICE_SOURCE: Final = "aws-neuron-sdk setup/multiframework-dlami.rst: one device, 8 vCPUs"


@dataclass(frozen=True)
class Slots:
    """The places of an instance's devices.

    Attributes:
        bdf: PCI address (domain:bus:device.function) of each device.
        numa_node: NUMA node of each device; -1 where the host has one node.
        node_cpus: processors of each NUMA node.
        provenance: the page that lists them, or the basis of the assumption.
    """

    bdf: tuple[str, ...]
    numa_node: tuple[int, ...]
    node_cpus: tuple[str, ...]
    provenance: Provenance

    def cpu_affinity(self, device: int) -> str:
        """The processors near a device, as ranges."""
        return self.node_cpus[max(self.numa_node[device], 0)]


@cache
def slots(instance: str, devices: int, vcpus: int) -> Slots:
    """The places of the devices of the instance called `instance`."""
    rows = {row["instance"]: row for row in _rows()}
    row = rows.get(instance)
    if row is None:
        return _assumed(devices, vcpus)
    places = rows[row.get("same_as", instance)]
    return Slots(
        tuple(places["bdf"]),
        tuple(places["numa_node"]),
        tuple(places["node_cpus"]),
        Provenance(Evidence(row["kind"]), row["source"]),
    )


def _rows() -> list[dict[str, Any]]:
    text = (resources.files("trnsim.arch") / "slots.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)
    return rows


def _assumed(devices: int, vcpus: int) -> Slots:
    addresses = tuple(
        f"0000:{device // _SLOTS_PER_BUS:02x}:{_FIRST_SLOT + device % _SLOTS_PER_BUS:02x}.0"
        for device in range(devices)
    )
    return Slots(
        (_ONE_DEVICE,) if devices == 1 else addresses,
        (_NO_NUMA,) * devices,
        (f"0-{vcpus - 1}",),
        Provenance(Evidence.ASSUMED, f"the form of {_ONE_DEVICE_SOURCE}"),
    )
