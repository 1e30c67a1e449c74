"""The time of an exchange between ranks of a plan, from a core's neighbour to another building.

A plan's ranks fill instances in order, and each of its axes is a stride: members of a group are
``stride`` ranks apart. So a group's size and stride say on how many chips and instances it lies.

Inside an instance of AWS chips the fabric answers. Among instances, and among GPUs, a closed form:
a stage inside each instance, then the better of a ring and of halving and doubling among instances,
where the ranks of one instance share its adapters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

from trnsim.arch.catalogue import Instance, catalogue
from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.constants import EFA_HOP_S, start_s
from trnsim.fabric.fabric import fabric
from trnsim.facts import assumed

_NVLINK_SHARE: Final = assumed(
    0.75, "part of NVLink's bandwidth that large collectives reach; NVIDIA publishes no figure"
)
_NVLINK_HOP_S: Final = assumed(3e-6, "a step of a collective over NVLink; none is published")
_PCIE_BYTES_PER_S: Final = assumed(16e9, "GPUs without NVLink exchange over PCIe Gen4 x16, shared")
_DIRECTIONS: Final = 2
_PASSES: Final = {"all_reduce": 2.0}
_DIRECT: Final = ("all_to_all", "send", "permute")


@dataclass(frozen=True)
class Spread:
    """The ranks of one group of an axis.

    Attributes:
        size: ranks of the group.
        stride: ranks from one member to the next.
    """

    size: int
    stride: int = 1


@dataclass(frozen=True)
class ExchangeTime:
    """What an exchange takes.

    Attributes:
        time_s: seconds.
        algorithm: how it is done.
        level: the farthest that it goes: "chip", "instance", "EFA", "building".
    """

    time_s: float
    algorithm: str
    level: str


@cache
def exchange(instance: str, lnc: int, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
    """The time of a collective of equal groups on instances of one type, all at once.

    Args:
        instance: the type.
        lnc: NeuronCores of a rank; 0 for a GPU.
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        spread: how a group's ranks lie.

    Raises:
        BadInput: for a type that is not known, or a group over instances without EFA.
    """
    if spread.size == 1 or not nbytes:
        return ExchangeTime(0.0, "", "chip")
    row = catalogue().instance(instance)
    per_node = _ranks(row, lnc)
    here = min(spread.size, max(per_node // spread.stride, 1))
    nodes = -(-spread.size // here)
    inside = Spread(here, spread.stride)
    if nodes == 1:
        return _inside(row, lnc, kind, nbytes, inside)
    near = _inside(row, lnc, kind, nbytes, inside) if here > 1 else ExchangeTime(0.0, "", "chip")
    if kind in _DIRECT:  # both at once, and all that leaves the instance leaves it from each rank
        far_s, algorithm = _between(row, kind, nbytes, nodes, per_node)
        return ExchangeTime(max(near.time_s, far_s + _start_s(row, lnc)), algorithm, "EFA")
    far_s, algorithm = _between(row, kind, nbytes / here, nodes, per_node)
    if here == 1:
        return ExchangeTime(far_s + _start_s(row, lnc), algorithm, "EFA")
    return ExchangeTime(near.time_s + far_s, f"{near.algorithm} and {algorithm}", "EFA")


def _start_s(row: Instance, lnc: int) -> float:
    return start_s(row.accelerator) if lnc else 0.0


def _ranks(row: Instance, lnc: int) -> int:
    return row.count * (catalogue().accelerator(row.accelerator).cores // lnc if lnc else 1)


def _inside(row: Instance, lnc: int, kind: str, nbytes: float, spread: Spread) -> ExchangeTime:
    if not lnc:
        chip = catalogue().accelerator(row.accelerator)
        link = chip.link_bytes_per_s
        rate = _NVLINK_SHARE * link / _DIRECTIONS if link else _PCIE_BYTES_PER_S
        return ExchangeTime(
            _in_turn(kind, nbytes, spread.size, rate, _NVLINK_HOP_S)[0], "NVLink", "instance"
        )
    whole = fabric(row.name, lnc=lnc)
    reach = spread.size * spread.stride
    together = min(spread.stride, whole.ranks // spread.size)
    groups = [range(first, reach, spread.stride) for first in range(together)]
    found = time_on(whole, kind, nbytes, groups)
    level = "instance" if reach > whole.cores_per_chip else "chip"
    return ExchangeTime(found.time_s, found.algorithm, level)


def _between(
    row: Instance, kind: str, nbytes: float, nodes: int, per_node: int
) -> tuple[float, str]:
    if not row.efa_bytes_per_s:
        raise BadInput(
            f"{row.name} has no EFA: its ranks cannot exchange with those of another",
            fix="use one, or a type with EFA, such as trn1.32xlarge",
        )
    return _in_turn(kind, nbytes, nodes, row.efa_bytes_per_s / per_node, EFA_HOP_S)


def _in_turn(
    kind: str, nbytes: float, ranks: int, bytes_per_s: float, hop_s: float
) -> tuple[float, str]:
    """``passes ((n - 1)/n bytes / bandwidth + steps hop)``, with the fewer steps."""
    passes = _PASSES.get(kind, 1.0)
    if kind in ("send", "permute"):
        return nbytes / bytes_per_s + hop_s, "direct"
    moved_s = (ranks - 1) / ranks * nbytes / bytes_per_s
    if kind == "all_to_all":
        return moved_s + hop_s, "direct"
    ring = passes * (moved_s + (ranks - 1) * hop_s)
    doubling = passes * (moved_s + math.ceil(math.log2(ranks)) * hop_s)
    if ranks & (ranks - 1):  # those beyond a power of two hand theirs over before and after
        doubling += nbytes / bytes_per_s + hop_s
    return (doubling, "rdh") if doubling < ring else (ring, "ring")
