"""A fabric: the instances on which ranks run, and the resources of each transfer between ranks.

Four kinds of resource carry a transfer: the links on its way, the HBM of both chips, the DMA
engines of the rank that sends, and the EFA adapters where it leaves its instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, permutations, product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.arch.catalogue import Accelerator, Instance, catalogue
from trnsim.errors import BadInput
from trnsim.fabric.constants import EFA_HOP_S, hop_s, rank_bytes_per_s, start_s
from trnsim.fabric.topology import DIRECTIONS, Topology, topology_of
from trnsim.fabric.transfers import Ranks, TransferPhase
from trnsim.fabric.ways import Routes, adapters_of_chips

_RESOURCES_OF_EACH_TRANSFER: Final = 3
"""Resources of every transfer: both chips' HBM and the sender's DMA engines."""
_MOST_SIMILAR_NAMES: Final = 3
"""Number of names that a refusal proposes."""
MOST_COUNT: Final = 2**31 - 1
"""Maximum of each count, far beyond any fleet."""


class Uses(NamedTuple):
    """The resources that transfers use, as a sparse matrix in coordinates.

    Entry k: ``transfer[k]`` passes ``weight[k]`` times its bytes through ``resource[k]``.
    """

    transfer: npt.NDArray[np.int64]
    resource: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]


class RankPlace(NamedTuple):
    """The place of a rank: its instance, the chip in it, and the logical core of the chip."""

    node: int
    chip: int
    core: int


@dataclass(frozen=True)
class Fabric:
    """Equal instances and the ranks on them, which fill one instance after the other.

    Attributes:
        lnc: NeuronCores of a rank.
        ranks_per_node: ranks on each instance; by default as many as fit from `first` on.
        first: the first logical core that ranks use.
        stride: logical cores from one rank of an instance to the next; a rank computes on the
            first of them.
        factors: remaining share of the bandwidth of a link or EFA adapter, by its name; 0 for a
            dead one. A name without its instance stands for every instance, the name of an adapter
            without a direction for both.
    """

    instance: Instance
    nodes: int = 1
    lnc: int = 1
    ranks_per_node: int = 0
    first: int = 0
    stride: int = 1
    factors: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        least_counts = {"nodes": 1, "lnc": 1, "ranks_per_node": 0, "first": 0, "stride": 1}
        for name, number in least_counts.items():
            count: object = getattr(self, name)
            if not isinstance(count, int | np.integer) or not number <= count <= MOST_COUNT:
                raise BadInput(
                    f"{name}={count!r} on {self.instance.name}; "
                    f"legal: a whole number from {number} to {MOST_COUNT:,}",
                )
        cores = self.chip.cores // self.lnc * self.instance.count
        most_ranks = (cores - self.first) // self.stride
        count = self.ranks_per_node or most_ranks
        object.__setattr__(self, "ranks_per_node", count)
        if not 0 < count <= most_ranks:
            each = "" if self.stride == 1 else f" of {self.stride} cores each"
            raise BadInput(
                f"{count} ranks{each} on {self.instance.name} from logical core {self.first} on; "
                f"legal: at most {max(most_ranks, 0):,}, as it has {cores:,} logical cores with "
                f"LNC={self.lnc}",
                fix="ask for fewer ranks, more instances, or a larger one",
            )
        unknown = [name for name in self.factors if name not in self._resources_by_name]
        if unknown:
            similar_names = (
                get_close_matches(unknown[0], self._resources_by_name, _MOST_SIMILAR_NAMES)
                or list(self._resources_by_name)[:1]
            )
            links, adapters = len(self.topology.links), self._adapter_count
            raise BadInput(
                f"{self.instance.name} has no link {unknown[0]!r}; it has {links}"
                + (f", and {adapters} EFA adapters" if adapters else ""),
                fix=f"for example {' or '.join(map(repr, similar_names))}"
                if similar_names
                else "it has no links",
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
        """The links between the chips of one instance."""
        return topology_of(self.instance, self.chip)

    def place(self, rank: int) -> RankPlace:
        """The place of a rank."""
        node, local = divmod(rank, self.ranks_per_node)
        chip, core = divmod(self.first + local * self.stride, self.cores_per_chip)
        return RankPlace(node, chip, core)

    def is_direct(self, source: int, target: int) -> bool:
        """True if no other chip is on the way between two ranks."""
        source_place, target_place = self.place(source), self.place(target)
        if source_place[:2] == target_place[:2] or source_place.node != target_place.node:
            return True
        return self.topology.is_direct(source_place.chip, target_place.chip)

    @cached_property
    def start_s(self) -> float:
        """Seconds before the first transfer of a collective."""
        return float(start_s(self.chip.name))

    def hop_s(self, phase: TransferPhase) -> float:
        """The latency of the transfers of a phase."""
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
            for name in self._node_resources
        )

    @cached_property
    def capacity(self) -> npt.NDArray[np.float64]:
        """Bytes per second of each resource."""
        chip, count = self.chip, self.instance.count
        engines = rank_bytes_per_s(chip.name, self.lnc, chip.memory_bytes_per_s)
        efa = self.instance.efa_bytes_per_s or 0.0
        adapters = self._adapter_count
        rates = [link.bytes_per_s for link in self.topology.links]
        rates += [float(chip.memory_bytes_per_s)] * count
        rates += [float(engines)] * (count * self.cores_per_chip)
        rates += [efa / max(adapters, 1)] * (DIRECTIONS * adapters)
        return np.tile(np.array(rates), self.nodes) * self._shares_left

    def uses(self, phase: TransferPhase) -> Uses:
        """The resources that the transfers of a phase use.

        Raises:
            BadInput: for a transfer between instances without EFA.
        """
        sender_chips, receiver_chips = (
            self._chips_of_ranks(phase.sources),
            self._chips_of_ranks(phase.targets),
        )
        self._check_efa(phase)
        count, size = self.instance.count, len(self._node_resources)
        pairs, which = np.unique(
            sender_chips * count * self.nodes + receiver_chips, return_inverse=True
        )
        routes = [
            self._resources_by_pair[divmod(pair, count * self.nodes)] for pair in pairs.tolist()
        ]
        flat = np.fromiter(chain.from_iterable(routes), np.int64)
        lengths = np.array([len(route) for route in routes], np.int64)
        route_lengths = lengths[which]
        counts = _RESOURCES_OF_EACH_TRANSFER + route_lengths
        starts = np.cumsum(counts) - counts
        resources = np.empty(int(counts.sum()), np.int64)
        memories = len(self.topology.links)
        resources[starts] = sender_chips // count * size + memories + sender_chips % count
        resources[starts + 1] = receiver_chips // count * size + memories + receiver_chips % count
        resources[starts + 2] = self.engines(phase.sources)
        step = np.arange(int(route_lengths.sum())) - np.repeat(
            np.cumsum(route_lengths) - route_lengths, route_lengths
        )
        first = np.cumsum(lengths) - lengths
        on_route = flat[np.repeat(first[which], route_lengths) + step]
        resources[np.repeat(starts + _RESOURCES_OF_EACH_TRANSFER, route_lengths) + step] = on_route
        weights = np.ones(len(resources))
        weights[starts] = phase.reads + phase.copies
        return Uses(np.repeat(np.arange(len(counts)), counts), resources, weights)

    def _chips_of_ranks(self, ranks: Ranks) -> Ranks:
        """The chip of each rank, counted over all instances."""
        nodes, local = np.divmod(ranks, self.ranks_per_node)
        cores = self.first + local * self.stride
        chips: Ranks = nodes * self.instance.count + cores // self.cores_per_chip
        return chips

    def engines(self, ranks: Ranks) -> Ranks:
        """The resource that stands for the DMA engines of each rank."""
        nodes, local = np.divmod(ranks, self.ranks_per_node)
        before = len(self.topology.links) + self.instance.count
        cores = self.first + local * self.stride
        resources: Ranks = nodes * len(self._node_resources) + before + cores
        return resources

    def _check_efa(self, phase: TransferPhase) -> None:
        per_node = self.ranks_per_node
        leaves = phase.sources // per_node != phase.targets // per_node
        if leaves.any() and not self._adapter_count:
            at = int(leaves.argmax())
            raise BadInput(
                f"ranks {phase.sources[at]} and {phase.targets[at]} are on two instances, and "
                f"{self.instance.name} has no EFA",
                fix="use one instance, or a type with EFA such as trn1.32xlarge or trn2.48xlarge",
            )

    @cached_property
    def _resources_by_pair(self) -> Mapping[tuple[int, int], tuple[int, ...]]:
        """The links or adapters between two chips, by pair, computed at the first access."""
        return _Resources(self)

    def resources_between(self, source: int, target: int) -> tuple[int, ...]:
        """The links, or the adapters, that a transfer between two chips of the fabric passes."""
        size = len(self._node_resources)
        source_node, sender = divmod(source, self.instance.count)
        target_node, receiver = divmod(target, self.instance.count)
        source_first, target_first = source_node * size, target_node * size
        if source_node == target_node:
            route = self._routes[source_node][sender, receiver] if sender != receiver else ()
            return tuple(source_first + link for link in route)
        adapters = self._adapter_count
        first_adapter = size - DIRECTIONS * adapters
        sender_adapter = self._adapters_of_chips[source_node][0][sender]
        receiver_adapter = self._adapters_of_chips[target_node][1][receiver]
        return (
            source_first + first_adapter + sender_adapter,
            target_first + first_adapter + adapters + receiver_adapter,
        )

    def check_ways(self) -> None:
        """Refuse faults that leave ranks without a way to each other.

        Raises:
            BadInput: for the first two chips, or the instance, that have none.
        """
        chips = sorted({self.place(rank).chip for rank in range(self.ranks_per_node)})
        for ways in self._routes:
            for pair in permutations(chips, 2):
                ways[pair]
        if self.nodes > 1:
            self._adapters_of_chips  # noqa: B018  it refuses

    @cached_property
    def _shares_left(self) -> npt.NDArray[np.float64]:
        """The remaining share of the bandwidth of each resource."""
        shares = np.ones(self.nodes * len(self._node_resources))
        for name in sorted(self.factors, key=_precision):
            shares[self._resources_by_name[name]] = self.factors[name]
        return shares

    @cached_property
    def _resources_by_name(self) -> Mapping[str, list[int]]:
        """The resources of each name that a fault may have."""
        resources: dict[str, list[int]] = {}
        names = self._node_resources
        size, links = len(names), len(self.topology.links)
        places = (*range(links), *range(size - DIRECTIONS * self._adapter_count, size))
        for node, place in product(range(self.nodes), places):
            local = [names[place]] if place < links else [names[place], names[place].split(",")[0]]
            for name in (*local, *(f"instance {node}, {label}" for label in local)):
                resources.setdefault(name, []).append(node * size + place)
        return resources

    def _dead_resources(self, node: int) -> frozenset[int]:
        """The resources of an instance without any bandwidth left, counted from its first."""
        size = len(self._node_resources)
        return frozenset(
            np.flatnonzero(self._shares_left[node * size : (node + 1) * size] == 0).tolist()
        )

    @cached_property
    def _routes(self) -> tuple[Routes, ...]:
        """The routes inside each instance, shared by instances with the same faults."""
        links = frozenset(range(len(self.topology.links)))
        dead = [self._dead_resources(node) & links for node in range(self.nodes)]
        routes = {dead_links: Routes(self.topology, dead_links) for dead_links in dead}
        return tuple(routes[dead_links] for dead_links in dead)

    @cached_property
    def _adapters_of_chips(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """For each instance the adapter of each chip, to send and to receive."""
        adapters_by_node = []
        count, adapters = self.instance.count, self._adapter_count
        first_adapter = len(self._node_resources) - DIRECTIONS * adapters
        for node in range(self.nodes):
            dead = self._dead_resources(node)
            sender_adapters, receiver_adapters = (
                adapters_of_chips(
                    count, adapters, {at - first for at in dead}, f"{way} instance {node}"
                )
                for way, first in (("out of", first_adapter), ("into", first_adapter + adapters))
            )
            adapters_by_node.append((sender_adapters, receiver_adapters))
        return tuple(adapters_by_node)

    @cached_property
    def _adapter_count(self) -> int:
        """EFA adapters of an instance; one per chip where their number is not stated."""
        if not self.instance.efa_bytes_per_s:
            return 0
        return self.instance.efa_devices or self.instance.count

    @cached_property
    def _node_resources(self) -> tuple[str, ...]:
        chips = range(self.instance.count)
        cores = range(self.cores_per_chip)
        adapters = range(self._adapter_count)
        return (
            *(link.name for link in self.topology.links),
            *(f"HBM of chip {chip}" for chip in chips),
            *(f"DMA of chip {chip}, core {core}" for chip in chips for core in cores),
            *(f"EFA {adapter}, out" for adapter in adapters),
            *(f"EFA {adapter}, in" for adapter in adapters),
        )


def _precision(name: str) -> tuple[bool, bool]:
    """Sort key of names: those with an instance, or with a direction, outweigh the others."""
    return name.startswith("instance "), name.endswith((", out", ", in"))


class _Resources(dict[tuple[int, int], tuple[int, ...]]):
    """The links or adapters between two chips, computed at the first access."""

    def __init__(self, fabric: Fabric) -> None:
        super().__init__()
        self._fabric = fabric

    def __missing__(self, pair: tuple[int, int]) -> tuple[int, ...]:
        self[pair] = self._fabric.resources_between(*pair)
        return self[pair]


def fabric(
    instance: str,
    *,
    nodes: int = 1,
    lnc: int = 1,
    ranks_per_node: int = 0,
    first: int = 0,
    stride: int = 1,
) -> Fabric:
    """The fabric of instances of the type called `instance`.

    Raises:
        BadInput: for a type that is not in the catalogue, or more ranks than logical cores.
    """
    return Fabric(catalogue().instance(instance), nodes, lnc, ranks_per_node, first, stride)
