"""The ranks of a job: how many a replica starts, and whether they run on Neuron devices."""

from __future__ import annotations

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import started_ranks
from trnsim.place.machine import Machine, machine


def machine_of(role: Role) -> Machine | None:
    """The instances of a role, with AWS's chips; None for GPUs, unknown types or counts."""
    name = role.instance.removeprefix("ml.")
    row = catalogue().instances.get(name)
    if row is None or not catalogue().accelerator(row.accelerator).is_neuron:
        return None
    try:
        return machine(name, max(role.replicas or 1, 1))
    except BadInput:
        return None


def is_neuron(role: Role) -> bool:
    """True if the instance type or the requests of a role show that it has Neuron devices."""
    return machine_of(role) is not None or bool(role.devices or role.device_indexes or role.cores)


def ranks_of(role: Role) -> int | None:
    """Ranks of a replica: the stated number, or else that of its launcher; None if unknown."""
    if role.processes is not None:
        return role.processes
    return started_ranks(role.command)


def all_ranks(job: Job) -> int | None:
    """Ranks of a job; None if a role does not state its ranks or replicas, or there are none."""
    total = 0
    for role in job.roles:
        ranks = ranks_of(role)
        if ranks is None or role.replicas is None:
            return None
        total += ranks * role.replicas
    return total or None
