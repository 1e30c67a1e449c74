"""A job to launch: a program, the instances and ranks of its world, faults, folders."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trnsim.arch import CORES_VARIABLE, INSTANCE_VARIABLE, TARGETS, target_of_chip
from trnsim.arch.catalogue import catalogue
from trnsim.arch.environment import TARGET_VARIABLE
from trnsim.device import faults
from trnsim.device.loopback import LOOPBACK, free_port
from trnsim.device.rank_figures import RANK_FIGURES_VARIABLE
from trnsim.errors import BadInput
from trnsim.fabric.fabric import MOST_COUNT, Fabric
from trnsim.instance.cores import VISIBLE, parse_cores
from trnsim.instance.model import logical_config

_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
_PYTHON_NAMES: Final = ("python", "python3")
_AUTOLOAD_VARIABLE: Final = "TORCH_DEVICE_BACKEND_AUTOLOAD"


@dataclass(frozen=True)
class LaunchJob:
    """A program and its world of ranks.

    Attributes:
        fabric: instances, and the places of the ranks on them.
        target: name of their chip, such as "trn2".
        folder: folder of the report; logs lie in `logs` below.
        fault_texts: faults, as written on the command line.
        max_restarts: limit on restarts of all ranks after one was lost.
        through_torch: True if agents of torch.distributed.run start the ranks.
        hosts: name of each node; () where all nodes are this machine.
        start_s: seconds in which ranks on other machines must start.
    """

    command: tuple[str, ...]
    fabric: Fabric
    target: str
    folder: Path
    fault_texts: tuple[str, ...] = ()
    max_restarts: int = 0
    through_torch: bool = False
    hosts: tuple[str, ...] = ()
    start_s: float = 300.0

    @property
    def address(self) -> str:
        """Address at which the launcher listens."""
        return LOOPBACK

    @property
    def logs(self) -> Path:
        """Folder of the logs."""
        return self.folder / "logs"

    @property
    def figures(self) -> Path:
        """Folder into which each rank writes its times and calls, as rank-N.json."""
        return self.folder / "ranks"

    @property
    def shown_rank(self) -> int:
        """Rank whose output is shown."""
        return 0

    def variables(self) -> dict[str, str]:
        """Environment that all agents share, without TRNSIM_LAUNCH and an agent's own variables."""
        fabric = self.fabric
        environment = dict(os.environ)
        environment.pop(VISIBLE, None)
        environment |= {
            INSTANCE_VARIABLE: fabric.instance.name,
            TARGET_VARIABLE: self.target,
            CORES_VARIABLE: str(fabric.lnc),
            RANK_FIGURES_VARIABLE: str(self.figures.absolute()),
            faults.FAULTS_VARIABLE: faults.variable_value(self.fault_texts),
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        if sys.platform == "linux":
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if self.through_torch:
            environment[_AUTOLOAD_VARIABLE] = "0"  # agents have no device
        return environment

    def launch_variable(self, port: int, token: str, restart: int) -> dict[str, Any]:
        """Content of TRNSIM_LAUNCH, which supervisors read."""
        return {
            "host": LOOPBACK,
            "port": port,
            "token": token,
            "restart": restart,
            "logs": str(self.logs.absolute()),
            "shown": self.shown_rank,
            "first_core": self.fabric.first,
            "rank_cores": self.fabric.stride,
            "coordinator_port": free_port(),
            "restored": {_AUTOLOAD_VARIABLE: os.environ.get(_AUTOLOAD_VARIABLE)}
            if self.through_torch
            else {},
        }

    @property
    def rank_command(self) -> list[str]:
        """Command of a rank: its supervisor, with the program."""
        return [sys.executable, "-S", "-E", str(_SUPERVISOR), *self.command]

    def announce(self, launch: dict[str, Any]) -> None:
        """Announce the launcher's port to other nodes; a job on one node does nothing."""

    def agents(self) -> list[tuple[str, list[str], dict[str, str]]]:
        """Name, command and variables of processes that start ranks: node agents or supervisors."""
        rank_command = self.rank_command
        port = str(free_port())
        nodes, per_node = self.fabric.nodes, self.fabric.ranks_per_node
        if self.through_torch:
            return [
                (f"node-{node}", [*_torchrun(nodes, per_node, node, port), *rank_command], {})
                for node in range(nodes)
            ]
        return [
            (f"rank-{rank}", rank_command, torchrun_variables(rank, nodes, per_node, port))
            for rank in range(self.fabric.ranks)
        ]


def job(
    command: tuple[str, ...],
    instance: str,
    folder: Path,
    *,
    nodes: int = 1,
    ranks_per_node: int = 0,
    cores_per_rank: int = 1,
    fault_texts: tuple[str, ...] = (),
    max_restarts: int = 0,
    cores: range = range(0),
) -> LaunchJob:
    """Job of a command line.

    Args:
        command: program and arguments.
        instance: the instance type.
        folder: folder of the report.
        nodes: number of instances.
        ranks_per_node: ranks of each instance; 0 for as many as its cores allow.
        cores_per_rank: logical cores of each rank; its device 0 is the first of them.
        fault_texts: faults, as written on the command line.
        max_restarts: limit on restarts of all ranks after one was lost.
        cores: logical cores of each instance that ranks take; empty for the cores that
            NEURON_RT_VISIBLE_CORES names.

    Raises:
        BadInput: the instance, the number of ranks, cores or a fault is not possible.
    """
    if not command:
        raise BadInput("no program to launch", fix="trnsim launch ... -- python train.py")
    failures = [faults.parse(text) for text in fault_texts]
    row = catalogue().instance(instance)
    target = target_of_chip(row.accelerator)
    if target is None:
        raise BadInput(
            f"{instance} has {row.accelerator}, which is not emulated",
            fix="name an instance with one of "
            + ", ".join(target.chip for target in TARGETS.values()),
        )
    lnc = logical_config(target.chip)
    first_core, core_count = (cores.start, len(cores)) if cores else _visible()
    if not 1 <= cores_per_rank <= MOST_COUNT:
        raise BadInput(
            f"--cores-per-rank {cores_per_rank}; legal: 1 or more, at most {MOST_COUNT:,}",
            fix="leave it out for ranks of one core",
        )
    per_node = ranks_per_node or core_count // cores_per_rank
    factors = faults.link_factors(failures)
    fabric = Fabric(row, nodes, lnc, per_node, first_core, cores_per_rank, factors)
    _check_ranks(fabric, core_count, cores_per_rank, failures)
    if fabric.factors:
        fabric.check_ways()
    has_torch = importlib.util.find_spec("torch") is not None
    program = _with_interpreter(command)
    return LaunchJob(program, fabric, target.name, folder, fault_texts, max_restarts, has_torch)


def _check_ranks(
    fabric: Fabric, core_count: int, cores_per_rank: int, failures: Sequence[faults.LaunchFault]
) -> None:
    """Refuse ranks that take more cores than there are, and faults of ranks that do not exist."""
    if core_count and fabric.ranks_per_node * cores_per_rank > core_count:
        each = "" if cores_per_rank == 1 else f" of {cores_per_rank} cores"
        raise BadInput(
            f"{fabric.ranks_per_node} ranks{each} a node, and {VISIBLE} names {core_count} cores",
            fix=f"unset {VISIBLE}, or name as many cores as ranks take",
        )
    for fault in failures:
        if fault.rank >= fabric.ranks:
            raise BadInput(
                f"a fault of rank {fault.rank}, and there are ranks 0 to {fabric.ranks - 1}",
                fix="name one of them",
            )


def _with_interpreter(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command with this interpreter for "python", and before a Python file."""
    program, *arguments = command
    if program in _PYTHON_NAMES:
        return (sys.executable, *arguments)
    return (sys.executable, *command) if program.endswith(".py") else command


def _visible() -> tuple[int, int]:
    """(First core of NEURON_RT_VISIBLE_CORES, number of cores); (0, 0) without the variable.

    Raises:
        BadInput: it does not name consecutive cores.
    """
    text = os.environ.get(VISIBLE)
    if not text:
        return 0, 0
    cores = parse_cores(text)
    return cores[0], len(cores)


def _torchrun(nodes: int, per_node: int, node: int, port: str) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", str(nodes),
        "--nproc-per-node", str(per_node), "--node-rank", str(node), "--master-addr", LOOPBACK,
        "--master-port", port, "--max-restarts", "0", "--no-python",
    ]  # fmt: skip


def torchrun_variables(
    rank: int, nodes: int, per_node: int, port: str, address: str = LOOPBACK
) -> dict[str, str]:
    """Variables that torchrun's agents set."""
    node, local = divmod(rank, per_node)
    numbers = {
        "RANK": rank,
        "LOCAL_RANK": local,
        "WORLD_SIZE": nodes * per_node,
        "LOCAL_WORLD_SIZE": per_node,
        "GROUP_RANK": node,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": nodes * per_node,
        "TORCHELASTIC_RESTART_COUNT": 0,
        "TORCHELASTIC_MAX_RESTARTS": 0,
    }
    texts = {name: str(number) for name, number in numbers.items()}
    return texts | {
        "ROLE_NAME": "default",
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": "none",
    }
