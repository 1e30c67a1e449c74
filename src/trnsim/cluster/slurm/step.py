"""A step of a Slurm job, and the task in it that this process is.

Both are read from the variables that srun sets (srun(1), Output Environment Variables).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trnsim.cluster.slurm.hostlist import counts, hosts
from trnsim.errors import BadInput
from trnsim.formatting import counted

_SOURCE: Final = "srun(1), Output Environment Variables"
_START: Final = "start it by srun, within sbatch or salloc: srun trnsim slurm launch -- PROGRAM"
_LARGEST_ID: Final = 0xFFFFFFFF
"""Slurm's numbers have 32 bits."""


@dataclass(frozen=True)
class SlurmStep:
    """A step, and a task of it.

    Attributes:
        hosts: its nodes, in the order of their numbers.
        node: number of the task's node.
        task: number of the task.
        local_task: number of the task on its node.
        restart: times that Slurm has requeued the job.
    """

    job: int
    step: int
    hosts: tuple[str, ...]
    tasks_per_node: tuple[int, ...]
    node: int
    task: int
    local_task: int
    restart: int = 0

    @property
    def host(self) -> str:
        """The task's node."""
        return self.hosts[self.node]

    @property
    def name(self) -> str:
        """The step as Slurm writes it, "12.0"."""
        return f"{self.job}.{self.step}"

    @property
    def is_first(self) -> bool:
        """True for the task that has rank 0."""
        return self.task == 0


def step_of(environment: Mapping[str, str]) -> SlurmStep:
    """The step and the task that the variables of a process describe.

    Raises:
        BadInput: a variable is missing, is no number, or contradicts another.
    """
    job = _number(environment, "SLURM_JOB_ID")
    step = _number(environment, "SLURM_STEP_ID")
    host_variable = _first_variable(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    names = hosts(environment[host_variable], host_variable)
    count_variable = _first_variable(
        environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"
    )
    tasks = counts(environment[count_variable], count_variable)
    if len(tasks) != len(names):
        raise BadInput(
            f"{count_variable}={environment[count_variable]!r} has "
            f"{counted(len(tasks), 'node')}, and "
            f"{host_variable}={environment[host_variable]!r} has {len(names)}",
            fix="leave both as srun sets them",
            source=_SOURCE,
        )
    node = _number(environment, "SLURM_NODEID", len(names))
    return SlurmStep(
        job,
        step,
        names,
        tasks,
        node,
        task=_number(environment, "SLURM_PROCID", sum(tasks)),
        local_task=_number(environment, "SLURM_LOCALID", tasks[node]),
        restart=_number({"SLURM_RESTART_COUNT": "0"} | dict(environment), "SLURM_RESTART_COUNT"),
    )


def _first_variable(environment: Mapping[str, str], *variables: str) -> str:
    for variable in variables:
        if environment.get(variable):
            return variable
    raise BadInput(f"{variables[0]} is not set: this is no task of Slurm", fix=_START)


def _number(environment: Mapping[str, str], variable: str, end: int = _LARGEST_ID) -> int:
    """The number in a variable, from 0 on and below `end`."""
    text = environment.get(variable, "")
    if not text:
        raise BadInput(f"{variable} is not set: this is no task of a step of Slurm", fix=_START)
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST_ID))):
        raise BadInput(
            f"{variable}={text!r}; legal: a number from 0 on",
            fix="leave it as srun sets it",
            source=_SOURCE,
        )
    if int(text) >= end:
        raise BadInput(
            f"{variable}={text}; legal: 0 to {end - 1}, by the step's nodes and tasks",
            fix="leave it as srun sets it",
            source=_SOURCE,
        )
    return int(text)
