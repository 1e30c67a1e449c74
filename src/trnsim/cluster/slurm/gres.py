"""gres.conf, and the lines of slurm.conf that belong to it, for nodes that are instances.

Slurm chooses devices with the most links between them (gres.conf(5), Links). With the links of a
torus Slurm 22.05 gave four devices that no legal set has: 8, 9, 11 and 12. So the number of links
of two devices is written as the number of legal sets that have both. Cores= is left out: with it
Slurm prefers devices of one socket, and gave eight devices that no legal set has, as NUMA nodes do
not follow the sets (one node of trn2.48xlarge has the devices 4 to 11).

Source: gres.conf(5), slurm.conf(5) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.cluster.slurm.allocation import RESOURCE
from trnsim.cluster.slurm.hostlist import expand
from trnsim.errors import BadInput
from trnsim.instance import device_sets
from trnsim.instance.model import InstanceModel

_FILE: Final = "/dev/neuron"
_MEMORY_SHARE: Final = 0.95
"""Share of an instance's memory that jobs get: AWS ParallelCluster, SchedulableMemory."""
_MIB: Final = 1 << 20
_HOSTS: Final = re.compile(r"[A-Za-z0-9._,\[\]-]+")
_ITSELF: Final = -1


@dataclass(frozen=True)
class NodeType:
    """Nodes of one instance type.

    Attributes:
        hosts: names of the nodes, as Slurm lists them.
    """

    model: InstanceModel
    hosts: str

    @property
    def devices(self) -> int:
        """Devices of a node."""
        return len(self.model.devices)

    @property
    def counts(self) -> tuple[int, ...]:
        """Legal numbers of devices of a job on a node."""
        return device_sets.legal_counts(self.model.name)


def node_types(models: Sequence[InstanceModel], hosts: Sequence[str]) -> list[NodeType]:
    """Each instance type with the names of its nodes.

    Args:
        models: instance types.
        hosts: a list of names for each type; () for the names of the types.

    Raises:
        BadInput: lists of hosts and types differ in number, or a host is in two lists.
    """
    for model in models:
        if "UltraServer" in model.name:
            raise BadInput(
                f"{model.name} is several machines; a node of Slurm is one",
                fix="for example --on trn2u.48xlarge",
            )
    if hosts and len(hosts) != len(models):
        raise BadInput(
            f"--node-names is given {len(hosts)} times for {len(models)} instance types; legal: "
            "once for each, in their order",
            fix="for example --on trn2.48xlarge --node-names 'trn2-[1-4]'",
        )
    lists = list(hosts) or [f"{model.name.replace('.', '-')}-1" for model in models]
    host_names: set[str] = set()
    for host_list in lists:
        names = expand(host_list, "--node-names") if _HOSTS.fullmatch(host_list) else ()
        twice = sorted(host_names.intersection(names))
        if not names or twice:
            fault = f"has {twice[0]} again" if twice else "is no list of hosts"
            raise BadInput(
                f"--node-names {host_list!r} {fault}; legal: names with ranges, each host once",
                fix="for example --node-names 'trn2-[1-4]'",
            )
        host_names.update(names)
    return [NodeType(model, host_list) for model, host_list in zip(models, lists, strict=True)]


def links(instance: str, devices: int) -> list[list[int]]:
    """Matrix of the numbers of legal sets that have both devices; its diagonal is -1."""
    shared_sets = [[0] * devices for _ in range(devices)]
    for count in device_sets.legal_counts(instance):
        for device_set in device_sets.legal_sets(instance, count):
            for first in device_set:
                for second in device_set:
                    shared_sets[first][second] += 1
    for device in range(devices):
        shared_sets[device][device] = _ITSELF
    return shared_sets


def gres_conf(types: Sequence[NodeType]) -> str:
    """The text of gres.conf."""
    lines = ["# Neuron devices of each node: gres.conf(5), written by trnsim slurm gres"]
    for node_type in types:
        counts = ", ".join(map(str, node_type.counts))
        lines += [
            f"# {node_type.model.name}: --gres={RESOURCE}:N, N = {counts}",
            f"# {device_sets.rule(node_type.model.name).provenance.source}",
            *_device_lines(node_type),
        ]
    return "\n".join(lines) + "\n"


def _device_lines(node_type: NodeType) -> list[str]:
    head = f"NodeName={node_type.hosts} Name={RESOURCE} File={_FILE}"
    rows = links(node_type.model.name, node_type.devices)
    values = {value for row in rows for value in row if value != _ITSELF}
    if len(values) <= 1:  # all pairs are alike
        last_device = node_type.devices - 1
        return [head + (f"[0-{last_device}]" if last_device else "0")]
    return [f"{head}{device} Links={','.join(map(str, row))}" for device, row in enumerate(rows)]


def slurm_conf(types: Sequence[NodeType]) -> str:
    """The lines of slurm.conf that declare the same nodes."""
    return (
        "# Lines of slurm.conf for the gres.conf beside it: Include slurm-neuron.conf\n"
        "# slurmd -C prints the sockets, cores and threads of a node, which may be added\n"
        f"GresTypes={RESOURCE}\n"
        "SelectType=select/cons_tres\n"
    ) + "".join(map(_node_line, types))


def _node_line(node_type: NodeType) -> str:
    memory = int(node_type.model.host_bytes / _MIB * _MEMORY_SHARE)
    head = f"NodeName={node_type.hosts} CPUs={node_type.model.vcpus}"
    if memory:
        head += f" RealMemory={memory}"
    return f"{head} Gres={RESOURCE}:{node_type.devices} State=UNKNOWN\n"
