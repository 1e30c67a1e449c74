"""The time of an exchange between ranks of a plan, from a core's neighbour to another building.

A plan's ranks fill instances in order, and each of its axes is a stride: members of a group are
``stride`` ranks apart. So a group's size and stride say on how many chips and instances it lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric


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
    one = fabric(instance, lnc=lnc)
    reach = spread.size * spread.stride
    nodes = -(-reach // one.ranks_per_node)
    whole = fabric(instance, nodes=nodes, lnc=lnc)
    together = min(spread.stride, whole.ranks // spread.size)
    groups = [range(first, reach, spread.stride) for first in range(together)]
    found = time_on(whole, kind, nbytes, groups)
    level = "EFA" if nodes > 1 else "instance" if reach > whole.cores_per_chip else "chip"
    return ExchangeTime(found.time_s, found.algorithm, level)
