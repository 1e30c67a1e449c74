"""The placement of the ranks of this process's world on a fabric, by a launcher's variables."""

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
from trnsim.instance.cores import (
    LOCAL_PROCESSES,
    LOCAL_RANK,
    PROCESS_CORES,
    VISIBLE,
    environment_number,
)

_WORLD: Final = "WORLD_SIZE"


@cache
def world_fabric(target: str, least_ranks: int = 1) -> Fabric:
    """The fabric of this process's world on a chip.

    The instance is TRNSIM_INSTANCE, else the smallest that has the ranks of a node. WORLD_SIZE
    counts the ranks (at least `least_ranks`), LOCAL_WORLD_SIZE the ranks of a node; without
    LOCAL_WORLD_SIZE, ranks fill one instance after the other. A rank has the core that
    NEURON_RT_VISIBLE_CORES names, else the core of its LOCAL_RANK; the cores of a node's ranks
    follow each other. Where all ranks have the same number of cores by
    NEURON_PJRT_PROCESSES_NUM_DEVICES, a rank computes on its first.

    Raises:
        BadInput: for an instance of another chip, or one that is too small.
    """
    chip, lnc = TARGETS[target].chip, device_core(TARGETS[target]).physical_cores
    instance = os.environ.get(INSTANCE_VARIABLE, "")
    ranks = max(environment_number(_WORLD), least_ranks)
    local_world = environment_number(LOCAL_PROCESSES)
    is_node_known = 0 < local_world <= ranks
    stride = _stride(ranks) if is_node_known else 1
    per_node = local_world if is_node_known else 0
    return fabric_for(
        chip,
        ranks,
        lnc,
        instance,
        ranks_per_node=per_node,
        first=_first_core(per_node, stride) if is_node_known else 0,
        stride=stride,
        factors=faults.link_factors(faults.requested_faults()),
    )


def _stride(ranks: int) -> int:
    """The number of cores of a rank, if the launcher gave all ranks the same number; else 1."""
    shares = os.environ.get(PROCESS_CORES, "").split(",")
    if len(shares) != ranks or len(set(shares)) != 1 or VISIBLE not in os.environ:
        return 1
    count = len(visible_cores())
    return count if shares[0].strip() == str(count) else 1


def _first_core(per_node: int, stride: int) -> int:
    """The first core of a node's ranks, from the core and the local rank of this process."""
    local = environment_number(LOCAL_RANK)
    if VISIBLE not in os.environ or local >= per_node:
        return 0
    return max(visible_cores()[0] - local * stride, 0)


def placed_time(
    kind: str,
    nbytes: float,
    groups: Sequence[Sequence[int]],
    target: str,
    floor: Floor = Floor.HOST,
) -> CollectiveTime:
    """The time of a collective of this process's world, with the placement of its ranks.

    By default its fixed time is the time of a program that the host starts, as for a collective of
    an eager program.
    """
    return _cached_time(kind, nbytes, tuple(map(tuple, groups)), target, floor)


@cache
def _cached_time(
    kind: str, nbytes: float, groups: tuple[tuple[int, ...], ...], target: str, floor: Floor
) -> CollectiveTime:
    fabric = world_fabric(target, max(map(max, groups)) + 1)
    return time_on(fabric, kind, nbytes, groups, floor)
