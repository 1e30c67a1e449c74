"""Exchanges of one rank's program, which other ranks of its instance run too.

The ranks of a plan fill whole instances of the chip's usual type, so all replicas of the program's
groups exchange at the same time. A program of one group of ranks is timed in the same way: its
groups are taken as the first replica.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from trnsim import arch
from trnsim.arch import INSTANCE_VARIABLE, TARGETS
from trnsim.fabric.collective_time import CollectiveTime, collective_time, fabric_for
from trnsim.fabric.exchange import Groups, with_replicas
from trnsim.fabric.fabric import Fabric
from trnsim.place.machine import machine


def usual_instance(chip: str) -> str:
    """The instance type that TRNSIM_INSTANCE names; without it, that of the chip's plans."""
    target = next(target.name for target in TARGETS.values() if target.chip == chip)
    return os.environ.get(INSTANCE_VARIABLE, "") or machine(target).instance.name


def program_fabric(chip: str, groups: Groups, lnc: int, instance: str) -> Fabric:
    """The fabric of the ranks of `groups` on instances of one type.

    Raises:
        BadInput: for an instance of another chip.
    """
    return fabric_for(chip, max(map(max, groups)) + 1, lnc, instance)


def program_time(
    kind: str, nbytes: float, groups: Sequence[Sequence[int]], target: str, lnc: int
) -> CollectiveTime:
    """The time of an exchange inside a program of one rank of `target`.

    Args:
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        groups: the ranks of each group of the program.
        target: the chip, a name of `trnsim.arch.TARGETS`.
        lnc: NeuronCores of a rank.

    Raises:
        BadInput: for an instance of another chip in TRNSIM_INSTANCE.
    """
    chip = arch.target(target).chip
    instance = usual_instance(chip)
    members = tuple(tuple(group) for group in groups)
    all_groups = with_replicas(program_fabric(chip, members, lnc, instance), members)
    return collective_time(kind, nbytes, all_groups, target, lnc=lnc, instance=instance)
