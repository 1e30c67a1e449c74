"""The ranks of a job: how many a replica starts, and whether they run on Neuron devices."""

from __future__ import annotations

from typing import Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import rank_count_text
from trnsim.place.machine import Machine, machine

__all__ = ["all_ranks", "is_neuron", "machine_of", "ranks_of"]

_MOST_DIGITS: Final = 6
"""Digits of the largest number of ranks that is read; a longer one is a mistake."""


def machine_of(role: Role) -> Machine | None:
    """The instances of a role, with AWS's chips; None for GPUs and for unknown types."""
    name = role.instance.removeprefix("ml.")
    row = catalogue().instances.get(name)
    if row is None or not catalogue().accelerator(row.accelerator).is_neuron:
        return None
    try:
        return machine(name, max(role.replicas or 1, 1))
    except BadInput:
        return None


def is_neuron(role: Role) -> bool:
    """Whether a replica has Neuron devices for certain."""
    return machine_of(role) is not None or bool(role.devices or role.device_indexes or role.cores)


def ranks_of(role: Role) -> int | None:
    """Ranks of a replica: stated, or those that its launcher starts; None for an unknown number."""
    if role.processes is not None:
        return role.processes
    text = rank_count_text(role.command)
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS else None


def all_ranks(job: Job) -> int | None:
    """Ranks of a job; None if a role does not state its own."""
    total = 0
    for role in job.roles:
        ranks = ranks_of(role)
        if ranks is None or role.replicas is None:
            return None
        total += ranks * role.replicas
    return total or None
