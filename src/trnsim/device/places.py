"""The fabric of this process's world, which a launcher's variables describe."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Final

from trnsim.arch import INSTANCE_VARIABLE, TARGETS
from trnsim.device import faults
from trnsim.device.device_core import device_core, visible_cores
from trnsim.fabric.collective_time import CollectiveTime, fabric_for, time_on
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.floors import Floor
from trnsim.instance.cores import PROCESS_CORES

_WORLD: Final = "WORLD_SIZE"
_LOCAL_WORLD: Final = "LOCAL_WORLD_SIZE"
_LOCAL_RANK: Final = "LOCAL_RANK"
_VISIBLE: Final = "NEURON_RT_VISIBLE_CORES"


@cache
def world_fabric(target: str, least: int = 1) -> Fabric:
    """The fabric of this process's world on a chip.

    The instance is TRNSIM_INSTANCE, else the smallest that has the ranks of a node. WORLD_SIZE
    counts the ranks (at least `least`), LOCAL_WORLD_SIZE those of a node: without it they fill one
    instance after the other. A rank has the core that NEURON_RT_VISIBLE_CORES names, else the one
    of its LOCAL_RANK; the cores of a node's ranks follow each other. Where all ranks have the same
    number of cores by NEURON_PJRT_PROCESSES_NUM_DEVICES, a rank computes on its first.

    Raises:
        BadInput: for an instance of another chip, or one that is too small.
    """
    chip, lnc = TARGETS[target].chip, device_core(TARGETS[target]).physical_cores
    named = os.environ.get(INSTANCE_VARIABLE, "")
    ranks = max(_count(_WORLD), least)
    local_world = _count(_LOCAL_WORLD)
    is_here = 0 < local_world <= ranks
    stride = _stride(ranks) if is_here else 1
    per_node = local_world if is_here else 0
    return fabric_for(
        chip,
        ranks,
        lnc,
        named,
        ranks_per_node=per_node,
        first=_first_core(per_node, stride) if is_here else 0,
        stride=stride,
        factors=faults.link_factors(faults.requested_faults()),
    )


def _stride(ranks: int) -> int:
    """Cores of each rank, where the launcher gave all of them as many; else 1."""
    shares = os.environ.get(PROCESS_CORES, "").split(",")
    if len(shares) != ranks or len(set(shares)) != 1 or _VISIBLE not in os.environ:
        return 1
    count = len(visible_cores())
    return count if shares[0].strip() == str(count) else 1


def _first_core(per_node: int, stride: int) -> int:
    """The first core of a node's ranks, from the core and the local rank of this process."""
    local = _count(_LOCAL_RANK)
    if _VISIBLE not in os.environ or local >= per_node:
        return 0
    return max(visible_cores()[0] - local * stride, 0)


def _count(variable: str) -> int:
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else 0


def placed_time(
    kind: str,
    nbytes: float,
    groups: Sequence[Sequence[int]],
    target: str,
    floor: Floor = Floor.HOST,
) -> CollectiveTime:
    """The time of a collective of this process's world, with its ranks' real placement.

    A collective of an eager program is a program of its own, which the host starts.
    """
    return _timed(kind, nbytes, tuple(map(tuple, groups)), target, floor)


@cache
def _timed(
    kind: str, nbytes: float, groups: tuple[tuple[int, ...], ...], target: str, floor: Floor
) -> CollectiveTime:
    fabric = world_fabric(target, max(map(max, groups)) + 1)
    return time_on(fabric, kind, nbytes, groups, floor)
