"""A fabric: the instances on which ranks run, and what each transfer between two of them uses.

Four kinds of resource carry a transfer: the links on its way, the HBM of both chips, the DMA
engines of the rank that sends, and the EFA adapters where it leaves its instance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.arch.catalogue import Accelerator, Instance, catalogue
from trnsim.errors import BadInput
from trnsim.fabric.constants import EFA_HOP_S, hop_s, rank_bytes_per_s, start_s
from trnsim.fabric.topology import Grid, Racks, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.fabric.transfers import Phase

_DIRECTIONS: Final = 2
"""A connection's published bandwidth counts both."""


class Uses(NamedTuple):
    """What transfers use, as entries.

    Entry k: ``transfer[k]`` passes ``weight[k]`` times its bytes through ``resource[k]``.
    """

    transfer: npt.NDArray[np.int64]
    resource: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]


class Place(NamedTuple):
    """Where a rank runs: its instance, the chip in it, and the logical core of the chip."""

    node: int
    chip: int
    core: int


@dataclass(frozen=True)
class Fabric:
    """Equal instances and the ranks on them, which fill one instance after the other.

    Attributes:
        instance: the instance type.
        nodes: how many of it.
        lnc: NeuronCores of a rank.
        ranks_per_node: ranks on each instance; all its logical cores by default.
        first: the first logical core that ranks use.
        factors: by the name of a link what part of its bandwidth is left; 0 for a dead one.
    """

    instance: Instance
    nodes: int = 1
    lnc: int = 1
    ranks_per_node: int = 0
    first: int = 0
    factors: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        cores = self.chip.cores // self.lnc * self.instance.count
        count = self.ranks_per_node or cores - self.first
        object.__setattr__(self, "ranks_per_node", count)
        if not 0 < count <= cores - self.first or self.nodes < 1:
            raise BadInput(
                f"{count} ranks on {self.instance.name} from logical core {self.first} on; it has "
                f"{cores} logical cores with LNC={self.lnc}",
                fix="ask for fewer ranks, more instances, or a larger one",
            )
        unknown = [name for name in self.factors if name not in self._named]
        if unknown:
            near = get_close_matches(unknown[0], self._named, 1) or sorted(self._named)[:1]
            raise BadInput(
                f"{self.instance.name} has no link {unknown[0]!r}; it has {len(self._named)}",
                fix=f"for example {near[0]!r}" if near else "its one chip has no links",
            )

    @cached_property
    def chip(self) -> Accelerator:
        """The chip of its instances."""
        return catalogue().accelerator(self.instance.accelerator)

    @property
    def ranks(self) -> int:
        """Ranks on all instances."""
        return self.nodes * self.ranks_per_node

    @cached_property
    def cores_per_chip(self) -> int:
        """Logical cores of a chip."""
        return self.chip.cores // self.lnc

    @cached_property
    def topology(self) -> Topology:
        """How the chips of one instance are joined."""
        return topology_of(self.instance, self.chip)

    def place(self, rank: int) -> Place:
        """Where a rank runs."""
        node, local = divmod(rank, self.ranks_per_node)
        chip, core = divmod(self.first + local, self.cores_per_chip)
        return Place(node, chip, core)

    def is_direct(self, source: int, target: int) -> bool:
        """Whether no other chip is on the way between two ranks."""
        here, there = self.place(source), self.place(target)
        if here[:2] == there[:2] or here.node != there.node:
            return True
        return self.topology.is_direct(here.chip, there.chip)

    @cached_property
    def start_s(self) -> float:
        """Seconds before the first transfer of a collective."""
        return float(start_s(self.chip.name))

    def hop_s(self, phase: Phase) -> float:
        """The latency with which the transfers of a phase begin."""
        per_node = self.ranks_per_node
        leaves = (phase.sources // per_node != phase.targets // per_node).any()
        return float(EFA_HOP_S if leaves else hop_s(self.chip.name))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The resources by name, one instance after the other."""
        single = self.nodes == 1
        return tuple(
            name if single else f"instance {node}, {name}"
            for node in range(self.nodes)
            for name in self._of_a_node
        )

    @cached_property
    def capacity(self) -> npt.NDArray[np.float64]:
        """Bytes per second of each resource."""
        chip, count = self.chip, self.instance.count
        engines = rank_bytes_per_s(chip.name, self.lnc, chip.memory_bytes_per_s)
        efa = self.instance.efa_bytes_per_s or 0.0
        adapters = self._adapters
        one = [link.bytes_per_s * self.factors.get(link.name, 1.0) for link in self.topology.links]
        one += [float(chip.memory_bytes_per_s)] * count
        one += [float(engines)] * (count * self.cores_per_chip)
        one += [efa / max(adapters, 1)] * (_DIRECTIONS * adapters)
        return np.tile(np.array(one), self.nodes)

    def uses(self, phase: Phase) -> Uses:
        """What the transfers of a phase use.

        Raises:
            BadInput: for a transfer between instances that have no EFA.
        """
        transfers: list[int] = []
        resources: list[int] = []
        weights: list[float] = []
        for number, (source, target) in enumerate(
            zip(phase.sources.tolist(), phase.targets.tolist(), strict=True)
        ):
            for resource, weight in self._uses(source, target, phase.reads, phase.copies):
                transfers.append(number)
                resources.append(resource)
                weights.append(weight)
        return Uses(np.array(transfers), np.array(resources), np.array(weights, np.float64))

    def _uses(
        self, source: int, target: int, reads: float, copies: float
    ) -> list[tuple[int, float]]:
        """Resources of one transfer, and how often its bytes pass each."""
        here, there = self.place(source), self.place(target)
        size = len(self._of_a_node)
        first, other = here.node * size, there.node * size
        links = len(self.topology.links)
        engine = links + self.instance.count + here.chip * self.cores_per_chip + here.core
        found = [
            (first + links + here.chip, reads + copies),
            (other + links + there.chip, 1.0),
            (first + engine, 1.0),
        ]
        if here.node == there.node:
            route = self.routes[here.chip, there.chip] if here.chip != there.chip else ()
            return found + [(first + link, 1.0) for link in route]
        adapters = self._adapters
        if not adapters:
            raise BadInput(
                f"ranks {source} and {target} are on two instances, and {self.instance.name} has "
                "no EFA",
                fix="use one instance, or a type with EFA such as trn1.32xlarge or trn2.48xlarge",
            )
        out = size - _DIRECTIONS * adapters
        chips = self.instance.count
        return [
            *found,
            (first + out + here.chip * adapters // chips, 1.0),
            (other + out + adapters + there.chip * adapters // chips, 1.0),
        ]

    @cached_property
    def routes(self) -> Mapping[tuple[int, int], tuple[int, ...]]:
        """The links of every way inside an instance, around dead ones."""
        return _Routes(self.topology, [self.factors.get(x.name, 1.0) for x in self.topology.links])

    @cached_property
    def _adapters(self) -> int:
        """EFA adapters of an instance; one a chip where their number is not stated."""
        if not self.instance.efa_bytes_per_s:
            return 0
        return self.instance.efa_devices or self.instance.count

    @cached_property
    def _of_a_node(self) -> tuple[str, ...]:
        chips = range(self.instance.count)
        cores = range(self.cores_per_chip)
        adapters = range(self._adapters)
        return (
            *(link.name for link in self.topology.links),
            *(f"HBM of chip {chip}" for chip in chips),
            *(f"DMA of chip {chip}, core {core}" for chip in chips for core in cores),
            *(f"EFA {adapter}, out" for adapter in adapters),
            *(f"EFA {adapter}, in" for adapter in adapters),
        )

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(link.name for link in self.topology.links)


class _Routes(dict[tuple[int, int], tuple[int, ...]]):
    """The way between two chips, found when it is first asked for."""

    def __init__(self, topology: Topology, factors: Sequence[float]) -> None:
        super().__init__()
        self._topology = topology
        self._dead = {number for number, factor in enumerate(factors) if not factor}

    def __missing__(self, pair: tuple[int, int]) -> tuple[int, ...]:
        route = self._topology.route(*pair)
        if self._dead.intersection(route):
            route = self._around(*pair)
        self[pair] = route
        return route

    def _around(self, source: int, target: int) -> tuple[int, ...]:
        """The first way over two or more other chips that no dead link is on."""
        chips = range(self._topology.chips)
        known: dict[int, tuple[int, ...]] = {source: ()}
        front = [source]
        while front:
            following = []
            for here in front:
                for there in chips:
                    step = self._topology.route(here, there)
                    is_new = there not in known and step and not self._dead.intersection(step)
                    if is_new:
                        known[there] = known[here] + step
                        following.append(there)
            if target in known:
                return known[target]
            front = following
        raise BadInput(
            f"no way is left from chip {source} to chip {target}: every link between them is dead"
        )


def fabric(
    instance: str, *, nodes: int = 1, lnc: int = 1, ranks_per_node: int = 0, first: int = 0
) -> Fabric:
    """The fabric of instances of the type called `instance`.

    Raises:
        BadInput: for a type that is not in the catalogue, or more ranks than logical cores.
    """
    return Fabric(catalogue().instance(instance), nodes, lnc, ranks_per_node, first)


def topology_of(instance: Instance, chip: Accelerator) -> Topology:
    """How the chips of an instance are joined.

    Raises:
        BadInput: for an instance whose links the catalogue does not describe.
    """
    kind, _, text = instance.shape.partition(" ")
    sizes = tuple(int(size) for size in text.split("x") if size)
    inside = instance.link_bytes_per_s or chip.server_link_bytes_per_s or chip.link_bytes_per_s or 0
    between = chip.between_servers_bytes_per_s or 0.0
    if kind == "single":
        return Grid((1,), (0.0,))
    if kind == "racks":
        across = chip.between_racks_bytes_per_s or 0.0
        racks, servers, per_server = sizes
        return Racks(racks, servers, per_server, inside, between, across)
    if kind not in ("torus", "chain"):
        raise BadInput(f"the links of {instance.name} are not modelled")
    in_server = min(len(sizes), 2)  # a third dimension joins the servers of an UltraServer
    planar = inside / (2 * in_server) / _DIRECTIONS
    rates = (between / 2 / _DIRECTIONS,) * (len(sizes) - in_server) + (planar,) * in_server
    return Grid(sizes, rates, is_closed=kind == "torus")
