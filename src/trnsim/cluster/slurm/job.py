"""A step of Slurm as a job of `trnsim launch`: its ranks are on several hosts.

A node with one task has all its ranks in this task; of several tasks each is one rank.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.slurm.announcement import announce, path_of
from trnsim.cluster.slurm.node_cores import node_cores
from trnsim.cluster.slurm.step import SlurmStep
from trnsim.device.loopback import LOOPBACK, free_port
from trnsim.errors import BadInput
from trnsim.instance.model import InstanceModel
from trnsim.launch.job import LaunchJob, job, torchrun_variables

_INTERFACE_VARIABLE: Final = "GLOO_SOCKET_IFNAME"
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  other nodes connect, and need the token
_ADDRESS_OF_INTERFACE: Final = 0x8915
"""SIOCGIFADDR: netdevice(7)."""
_DISCARD_PORT: Final = 9


@dataclass(frozen=True, kw_only=True)
class SlurmJob(LaunchJob):
    """A step of Slurm with its program and ranks.

    Attributes:
        step: the step, and the task that this process is.
        cores: logical cores of the step on the task's node.
        master_port: port of torch.distributed on the first node.
    """

    step: SlurmStep
    cores: range
    master_port: int

    @property
    def address(self) -> str:
        """Address that the launcher listens on: any interface if other nodes connect to it."""
        return _ANY_ADDRESS if len(self.hosts) > 1 else LOOPBACK

    @property
    def master(self) -> str:
        """The first node's name, by which all ranks connect to it."""
        return self.hosts[0] if len(self.hosts) > 1 else LOOPBACK

    @property
    def local_ranks(self) -> range:
        """Ranks that this task starts."""
        per_node = self.fabric.ranks_per_node
        if self.step.tasks_per_node[self.step.node] > 1:
            return range(self.step.task, self.step.task + 1)
        return range(self.step.node * per_node, (self.step.node + 1) * per_node)

    @property
    def announcement(self) -> Path:
        """The file with the launcher's address, for the other tasks."""
        return path_of(self.folder, self.step)

    def variables(self) -> dict[str, str]:
        """Environment of all ranks of the task; gloo takes the interface towards other nodes."""
        environment = super().variables()
        if _INTERFACE_VARIABLE not in os.environ and len(self.hosts) > 1:
            environment.pop(_INTERFACE_VARIABLE, None)
            name = interface(self.hosts[0 if self.step.node else 1])
            if name:
                environment[_INTERFACE_VARIABLE] = name
        return environment

    def launch_variable(self, port: int, token: str, restart: int) -> dict[str, Any]:
        """Content of TRNSIM_LAUNCH for this task's supervisors."""
        launch = super().launch_variable(port, token, restart)
        return launch | {"host": self.master, "first_core": self.cores.start}

    def announce(self, launch: dict[str, Any]) -> None:
        """Tell the other tasks of the step where the launcher listens."""
        announce(self.announcement, launch | {"master_port": self.master_port})

    def agents(self) -> list[tuple[str, list[str], dict[str, str]]]:
        """The supervisors of this task's ranks."""
        nodes, per_node = self.fabric.nodes, self.fabric.ranks_per_node
        port = str(self.master_port)
        return [
            (
                f"rank-{rank}",
                self.rank_command,
                torchrun_variables(rank, nodes, per_node, port, self.master),
            )
            for rank in self.local_ranks
        ]


def slurm_job(
    command: tuple[str, ...],
    step: SlurmStep,
    model: InstanceModel,
    folder: Path,
    *,
    ranks_per_node: int = 0,
    cores_per_rank: int = 1,
    fault_texts: tuple[str, ...] = (),
) -> SlurmJob:
    """The job of a step.

    Args:
        command: program and arguments.
        step: the step, and a task of it.
        model: the instance that each node is.
        folder: folder of the report.
        ranks_per_node: ranks of each node; 0 for as many as its cores have room for, or one for
            each task.
        cores_per_rank: logical cores of each rank.
        fault_texts: faults, as written on the command line.

    Raises:
        BadInput: the step's tasks, devices or ranks are not possible.
    """
    per_node = ranks_of_node(step, ranks_per_node)
    cores = node_cores(step, model, os.environ)
    if per_node * cores_per_rank > len(cores):
        size_text = "" if cores_per_rank == 1 else f" of {cores_per_rank} cores"
        raise BadInput(
            f"{per_node} ranks{size_text} on {step.host}, and step {step.name} has {len(cores)} "
            f"logical cores there, {cores.start} to {cores.stop - 1}",
            fix="request more devices, --gres=neuron:N, or start fewer ranks",
        )
    base = job(
        command,
        model.name,
        folder,
        nodes=len(step.hosts),
        ranks_per_node=per_node,
        cores_per_rank=cores_per_rank,
        fault_texts=fault_texts,
        cores=cores,
    )
    values: dict[str, Any] = {field.name: getattr(base, field.name) for field in fields(LaunchJob)}
    values |= {"through_torch": False, "hosts": step.hosts}
    return SlurmJob(**values, step=step, cores=cores, master_port=free_port())


def ranks_of_node(step: SlurmStep, ranks_per_node: int) -> int:
    """Ranks of each node: `ranks_per_node` for a single task, otherwise one for each task.

    Raises:
        BadInput: nodes differ in their number of tasks, or have several and not `ranks_per_node`.
    """
    tasks = step.tasks_per_node
    if len(set(tasks)) > 1:
        raise BadInput(
            f"step {step.name} has {', '.join(map(str, tasks))} tasks on its nodes; legal: as many "
            "on each",
            fix="srun --ntasks-per-node=1",
        )
    if tasks[0] == 1:
        return ranks_per_node
    if ranks_per_node not in (0, tasks[0]):
        raise BadInput(
            f"--ranks-per-node {ranks_per_node}, and step {step.name} has {tasks[0]} tasks on each "
            "node, each of which is a rank",
            fix="srun --ntasks-per-node=1, or leave --ranks-per-node out",
        )
    return tasks[0]


def interface(host: str) -> str:
    """The network interface towards a host; "" if the system does not name it."""
    if sys.platform != "linux":
        return ""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, _DISCARD_PORT))  # a datagram socket sends nothing when it connects
        address = socket.inet_aton(probe.getsockname()[0])
        fcntl: Any = import_module("fcntl")
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                request = struct.pack("256s", name.encode())
                answer: bytes = fcntl.ioctl(probe.fileno(), _ADDRESS_OF_INTERFACE, request)
                if answer[20:24] == address:
                    return name
    return ""
