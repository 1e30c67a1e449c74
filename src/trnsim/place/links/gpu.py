"""Exchanges of GPUs: NVLink inside an instance, a network adapter each between instances.

The form is that of NCCL's own tuning model: a base, a latency a step and a part of the bandwidth,
for each protocol, of a ring, or of a tree for an all-reduce over instances.

Source: NVIDIA/nccl, src/graph/tuning.cc (latencies and parts of the bandwidth); NVIDIA/nccl-tests,
doc/PERFORMANCE.md (bytes that cross each link).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.arch.catalogue import Instance, catalogue
from trnsim.facts import Rate, assumed, documented
from trnsim.place.links.lines import Line

if TYPE_CHECKING:
    from trnsim.place.links.exchange import GroupLayout

_TUNING_SOURCE: Final = "NVIDIA/nccl, src/graph/tuning.cc"
NVLINK_PART: Final = documented(
    0.8,
    f"{_TUNING_SOURCE} and topo.h: 20 GB/s of each NVLink's 25; a direction is half the published",
)
PCIE_BYTES_PER_S: Final = assumed(
    12e9, "NCCL's rate of a 16-lane PCIe of the third generation; these cards share a host's"
)
NET_PART: Final = assumed(0.9, "what EFA passes of its line rate; no vendor publishes it")


@dataclass(frozen=True)
class Protocol:
    """One of NCCL's protocols.

    Attributes:
        name: NCCL's name.
        base_s: fixed seconds of a collective.
        nvlink_s: seconds of a step over NVLink.
        pcie_s: seconds of a step over PCIe.
        net_s: seconds of a step over the network.
        part: the part of the bandwidth that the protocol reaches.
    """

    name: str
    base_s: float
    nvlink_s: float
    pcie_s: float
    net_s: float
    part: float


RING: Final = (
    Protocol("ring, LL", 3.6e-6, 0.47e-6, 1.0e-6, 2.7e-6, 0.25),
    Protocol("ring", 8.4e-6, 3.4e-6, 5.7e-6, 9.6e-6, 1.0),
)
TREE: Final = (
    Protocol("tree, LL", 4.4e-6, 0.52e-6, 1.0e-6, 5.0e-6, 0.9 / 3.8),
    Protocol("tree", 0.0, 28e-6, 28e-6, 50e-6, 0.9),
)
"""NCCL's latencies in microseconds and parts of the bandwidth."""


def lines(instance: str, kind: str, layout: GroupLayout) -> tuple[Line, ...]:
    """A line for each algorithm and protocol of NCCL."""
    row = catalogue().instance(instance)
    rings = tuple(_ring(row, kind, layout, protocol) for protocol in RING)
    if kind == "all_reduce" and layout.nodes > 1:
        return rings + tuple(_tree(row, layout, protocol) for protocol in TREE)
    return rings


def local_bytes_per_s(row: Instance) -> Rate:
    """Bytes per second of one GPU to the others of its instance, a direction."""
    link = catalogue().accelerator(row.accelerator).link_bytes_per_s
    if link is None:
        return PCIE_BYTES_PER_S
    return Rate(link / 2 * NVLINK_PART, NVLINK_PART.provenance)


def net_bytes_per_s(row: Instance) -> float:
    """Bytes per second of one GPU's adapters, a direction."""
    return float(row.efa_bytes_per_s or 0.0) / row.count * float(NET_PART)


def _ring(row: Instance, kind: str, layout: GroupLayout, protocol: Protocol) -> Line:
    """``base + steps latency + bytes / (bandwidth of the narrowest link)``."""
    size, passes = layout.size, 2 if kind == "all_reduce" else 1
    inner_s = protocol.nvlink_s if _has_nvlink(row) else protocol.pcie_s
    network_steps = passes * (layout.nodes - 1)
    local_steps = passes * (size - 1) - network_steps
    if kind == "all_to_all":
        return _all_to_all(row, layout, protocol)
    if kind in ("permute", "send"):
        link_bytes_per_s = local_bytes_per_s(row) if layout.nodes == 1 else net_bytes_per_s(row)
        step_s = inner_s if layout.nodes == 1 else protocol.net_s
        return Line("direct", protocol.base_s + step_s, 1 / (link_bytes_per_s * protocol.part))
    link_bytes_per_s = _ring_bytes_per_s(row, layout)
    part = passes * (size - 1) / size
    fixed_s = protocol.base_s + local_steps * inner_s + network_steps * protocol.net_s
    return Line(protocol.name, fixed_s, part / (link_bytes_per_s * protocol.part))


def _tree(row: Instance, layout: GroupLayout, protocol: Protocol) -> Line:
    """Reduce and broadcast: chains inside instances, a double binary tree between them."""
    inner_s = protocol.nvlink_s if _has_nvlink(row) else protocol.pcie_s
    depth = (layout.nodes - 1).bit_length()
    fixed_s = protocol.base_s + 2 * ((layout.per_node - 1) * inner_s + depth * protocol.net_s)
    return Line(protocol.name, fixed_s, 2 / (_ring_bytes_per_s(row, layout) * protocol.part))


def _ring_bytes_per_s(row: Instance, layout: GroupLayout) -> float:
    """The narrowest link of a ring: with all adapters of the members that one instance has."""
    local_rate = float(local_bytes_per_s(row))
    if layout.nodes == 1:
        return local_rate
    return min(local_rate, net_bytes_per_s(row) * layout.per_node)


def _all_to_all(row: Instance, layout: GroupLayout, protocol: Protocol) -> Line:
    """Bytes inside the instance and bytes between instances pass at the same time."""
    local_s = (layout.per_node - 1) / layout.size / float(local_bytes_per_s(row))
    network_s = 0.0
    fixed_s = protocol.base_s + (protocol.nvlink_s if _has_nvlink(row) else protocol.pcie_s)
    if layout.nodes > 1:
        network_s = (1 - layout.per_node / layout.size) / net_bytes_per_s(row)
        fixed_s += protocol.net_s
    return Line("direct", fixed_s, max(local_s, network_s) / protocol.part)


def _has_nvlink(row: Instance) -> bool:
    return catalogue().accelerator(row.accelerator).link_bytes_per_s is not None
