"""One collective of a kernel for all groups at once: its time, algorithm and load of links.

Groups that differ in size or in their layout on chips have an algorithm each; the slowest decides
the time. Contention between such groups is not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from trnsim.errors import BadInput
from trnsim.fabric.choice import AlgorithmChoice, choose
from trnsim.fabric.closed_form import plan_loads
from trnsim.fabric.fabric import Fabric
from trnsim.fabric.group import RankGroup
from trnsim.fabric.transfers import Plan

Groups = tuple[tuple[int, ...], ...]
Layout = tuple[tuple[int, ...], int]

RANKS_KNOWN = (1, 2, 4, 8, 16)
"""The numbers of ranks that the runtime supports, besides multiples of `RANKS_STEP`."""
RANKS_STEP = 32
MOST_RANKS = 1 << 20
"""Maximum of the ranks whose programs run here, far beyond any cluster."""
_FEW_CHANNELS = 2
_ALL_CHANNELS = 4


@dataclass(frozen=True)
class FabricExchange:
    """A collective of all its groups.

    Attributes:
        time_s: seconds in closed form, its start included.
        chosen: the algorithm and its transfers, by the `layout` of a group.
    """

    time_s: float
    chosen: dict[Layout, AlgorithmChoice]

    @property
    def slowest(self) -> AlgorithmChoice:
        """The choice of the slowest groups, which decides the time."""
        return max(self.chosen.values(), key=lambda choice: choice.time_s)

    def algorithm(self, fabric: Fabric, group: tuple[int, ...]) -> str:
        """The algorithm of a group; "" for a single rank."""
        return self.chosen[layout(fabric, group)].algorithm

    def loads(self, fabric: Fabric, group: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Bytes that one group passes through each resource of the fabric."""
        return plan_loads(fabric, _sent_by_group(self.chosen[layout(fabric, group)].plan, group))


@cache
def layout(fabric: Fabric, group: tuple[int, ...]) -> Layout:
    """A group's layout: its ranks on each chip, fewest first, and its number of instances."""
    members = RankGroup(fabric, group)
    counts = sorted(len(ranks) for ranks in members.by_chip.values())
    return tuple(counts), len(members.by_node)


@cache
def groups_like(fabric: Fabric, groups: Groups, group: tuple[int, ...]) -> Groups:
    """The groups with the same layout as `group`."""
    own_layout = layout(fabric, group)
    return tuple(candidate for candidate in groups if layout(fabric, candidate) == own_layout)


@cache
def exchange(fabric: Fabric, kind: str, nbytes: float, groups: Groups) -> FabricExchange:
    """A collective of groups that work at once.

    Args:
        fabric: the fabric of the ranks.
        kind: one of `trnsim.fabric.choice.KINDS`.
        nbytes: bytes of the whole message: the larger of a rank's input and output.
        groups: the ranks of each; those of a permute are rings.
    """
    firsts = {layout(fabric, group): group for group in groups}
    chosen = {
        group_layout: choose(fabric, kind, nbytes, groups_like(fabric, groups, group))
        for group_layout, group in firsts.items()
    }
    return FabricExchange(max(choice.time_s for choice in chosen.values()), chosen)


@cache
def with_replicas(fabric: Fabric, groups: Groups) -> Groups:
    """The groups, and their copies on the other ranks of the same instance.

    Groups over several instances have none, as they use whole ones.
    """
    reach = max(map(max, groups)) + 1
    copies = max(fabric.ranks_per_node // reach, 1)
    return tuple(
        tuple(copy * reach + rank for rank in group) for copy in range(copies) for group in groups
    )


@cache
def engine_bytes(fabric: Fabric, kind: str, nbytes: float, groups: Groups) -> float:
    """Bytes that the DMA engines of a rank pass on in an `exchange`, for the rank with most."""
    plans = [choice.plan for choice in exchange(fabric, kind, nbytes, groups).chosen.values()]
    engines = fabric.engines(np.array([rank for group in groups for rank in group]))
    return max((float(plan_loads(fabric, plan)[engines].max()) for plan in plans), default=0.0)


@cache
def rings(fabric: Fabric, group: tuple[int, ...]) -> Groups:
    """The rings of the channels of an implicit permute, both directions of each cycle.

    Four where the group has all ranks of a node whose links have two cycles, else two.

    Source: nki.collectives.collective_permute_implicit, Channels.
    """
    members = RankGroup(fabric, group)
    if not members.is_local:
        return group, group[::-1]
    cycles = members.cycles()
    if len(cycles) == 1:
        cycles = [cycles[0], cycles[0][::-1]]
    spans_instance = len(members.chips) == fabric.instance.count and members.per_chip == (
        fabric.cores_per_chip
    )
    return tuple(cycles[: _ALL_CHANNELS if spans_instance else _FEW_CHANNELS])


def is_whole(value: object) -> bool:
    """True for an integer of Python or numpy; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_ranks(fabric: Fabric, ranks: int) -> None:
    """Refuse a number of ranks that the runtime does not support, or that the instances lack.

    Raises:
        BadInput: for such a number.
    """
    if ranks not in RANKS_KNOWN and (ranks < 1 or ranks % RANKS_STEP):
        legal = ", ".join(map(str, RANKS_KNOWN))
        raise BadInput(
            f"{ranks} ranks; legal: {legal} and multiples of {RANKS_STEP}",
            fix="let a larger number of ranks run, of which some have nothing to do",
            source="neuron-runtime, number of ranks of a collective",
        )
    if ranks > fabric.ranks:
        nodes = "" if fabric.nodes == 1 else f"{fabric.nodes} x "
        raise BadInput(
            f"{ranks} ranks on {nodes}{fabric.instance.name}, which has {fabric.ranks} logical "
            f"cores with LNC={fabric.lnc}",
            fix="ask for fewer ranks, or name a larger instance",
        )


def _sent_by_group(plan: Plan, group: Sequence[int]) -> Plan:
    """The part of a plan that ranks of `group` send."""
    phases = []
    for phase in plan:
        is_of_group = np.isin(phase.sources, np.array(group))
        phases.append(
            replace(
                phase,
                sources=phase.sources[is_of_group],
                targets=phase.targets[is_of_group],
                nbytes=phase.nbytes[is_of_group],
                channels=phase.channels[is_of_group],
            )
        )
    return tuple(phases)
