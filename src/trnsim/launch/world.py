"""Figures of all ranks together: groups, time of each collective, and traffic over links.

Groups of one kind and size with equal messages and calls are assumed to work at the same time, so
they share the links.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from trnsim.arch import target_of_chip
from trnsim.device.collective_log import kind_of
from trnsim.device.exposed import Moment, Overlap, overlap
from trnsim.estimate.program import estimate_program
from trnsim.fabric.choice import KINDS, AlgorithmChoice, choose
from trnsim.fabric.collective_time import floors_of
from trnsim.fabric.fabric import Fabric, RankPlace
from trnsim.fabric.floors import Floor, FloorTimes
from trnsim.fabric.group import RankGroup as AlgorithmGroup

Group = tuple[int, ...]
MessageKey = tuple[str, Group, Floor]
"""Kind, ranks and floor of the collectives whose messages are listed together."""


@dataclass(frozen=True)
class WorldCollective:
    """A collective of groups that work at the same time.

    Attributes:
        nbytes: bytes of the whole message.
        choice: algorithm and transfers; None for a kind that the fabric does not know.
        floor: the floor of its time: of a program that the host starts, or inside a program.
        floors: its time by floor; None for a kind that the fabric does not know.
    """

    kind: str
    nbytes: int
    groups: tuple[Group, ...]
    calls: int
    choice: AlgorithmChoice | None
    floor: Floor = Floor.HOST
    floors: FloorTimes | None = None

    @property
    def time_s(self) -> float:
        """Seconds of one call."""
        return self.floors.time_s(self.floor) if self.floors else 0.0

    @property
    def floor_text(self) -> str:
        """The floor of its time, in words."""
        return self.floors.paid(self.floor) if self.floors else ""

    @property
    def moved_bytes(self) -> float:
        """Bytes that leave one rank for another, of all groups and calls."""
        plan = self.choice.plan if self.choice else ()
        return self.calls * sum(phase.total_bytes for phase in plan)


@dataclass(frozen=True)
class RankFigures:
    """Figures of a rank and its last step.

    Attributes:
        place: instance, chip and logical core.
        device_time_s: time of its kernels.
        missing: number of calls without a time.
    """

    rank: int
    place: RankPlace
    steps: int
    device_time_s: float
    step: Overlap
    missing: int


@dataclass(frozen=True)
class WorldFigures:
    """Figures of all ranks of a job.

    Attributes:
        fabric: instances and links of the ranks.
        link_bytes: bytes that passed each resource of the fabric.
        lost: lost ranks, each in a sentence.
    """

    fabric: Fabric
    ranks: tuple[RankFigures, ...]
    collectives: tuple[WorldCollective, ...]
    link_bytes: npt.NDArray[np.float64]
    lost: tuple[str, ...] = ()
    restarts: int = 0

    @property
    def absent(self) -> list[int]:
        """Ranks without figures."""
        return sorted(set(range(self.fabric.ranks)) - {rank.rank for rank in self.ranks})

    @property
    def slowest(self) -> RankFigures | None:
        """The rank whose last step takes longest."""
        return max(self.ranks, key=lambda rank: rank.step.total_s, default=None)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """P10 and P90 of the slowest rank's step; None if no rank has a step.

        They are quantiles of a program with the rank's kernels and exposed exchanges.
        """
        rank = self.slowest
        target = target_of_chip(self.fabric.chip.name)
        if rank is None or target is None:
            return None
        parts = {"kernels": rank.device_time_s, "exposed exchanges": rank.step.exposed_s}
        estimate = estimate_program(target, parts)
        return estimate.quantile_s("p10"), estimate.quantile_s("p90")

    @property
    def skew_s(self) -> float:
        """Excess of the slowest rank's kernel time over that of the fastest."""
        times_s = [rank.device_time_s for rank in self.ranks]
        return max(times_s) - min(times_s) if times_s else 0.0

    @property
    def links(self) -> list[tuple[str, float, float]]:
        """Name, bytes and seconds of each resource with traffic, the busiest first."""
        rows = zip(
            self.fabric.names, self.link_bytes.tolist(), self.fabric.capacity.tolist(), strict=True
        )
        loads = [(name, nbytes, nbytes / rate) for name, nbytes, rate in rows if nbytes]
        return sorted(loads, key=lambda row: -row[2])


def world(
    fabric: Fabric,
    figures: Sequence[Mapping[str, Any]],
    lost: Sequence[str] = (),
    restarts: int = 0,
) -> WorldFigures:
    """World of the ranks that wrote these figures."""
    messages = _messages(figures)
    collectives = tuple(_collectives(fabric, messages))
    time_by_size_s = {
        (collective.kind, collective.nbytes, group, collective.floor): collective.time_s
        for collective in collectives
        for group in collective.groups
    }
    times_s = {
        (kind, group, floor.name, index): time_by_size_s[kind, nbytes, group, floor]
        for (kind, group, floor), sizes in messages.items()
        for index, nbytes in enumerate(sizes)
    }
    ranks = tuple(
        _rank_figures(fabric, rank, times_s)
        for rank in sorted(figures, key=lambda rank: rank["rank"])
    )
    return WorldFigures(
        fabric, ranks, collectives, _link_bytes(fabric, collectives), tuple(lost), restarts
    )


def _messages(figures: Sequence[Mapping[str, Any]]) -> dict[MessageKey, list[int]]:
    """Kind, group and floor -> bytes of each collective in order, the most that any rank has."""
    sizes: dict[MessageKey, list[int]] = {}
    for rank in figures:
        for record in rank["collectives"]:
            key = record["kind"], tuple(record["ranks"]), Floor[record["floor"]]
            pairs = zip_longest(sizes.get(key, ()), record["nbytes"], fillvalue=0)
            sizes[key] = [max(pair) for pair in pairs]
    return sizes


def _collectives(
    fabric: Fabric, messages: Mapping[MessageKey, Sequence[int]]
) -> list[WorldCollective]:
    equal_sets: dict[tuple[Any, ...], list[list[Group]]] = defaultdict(list)
    for (kind, group, floor), sizes in messages.items():
        for nbytes, calls in Counter(sizes).items():
            phases = _phases_of_plans(fabric, kind, nbytes, group)
            _add_disjoint(equal_sets[kind, nbytes, calls, floor, phases], group)
    collectives = [
        _collective(fabric, kind, nbytes, groups, calls, floor)
        for (kind, nbytes, calls, floor, _), sets in equal_sets.items()
        for groups in sets
    ]
    return sorted(collectives, key=lambda collective: -collective.calls * collective.time_s)


def _add_disjoint(sets: list[list[Group]], group: Group) -> None:
    """Add a group to the first set of groups with which it shares no rank."""
    for groups in sets:
        if not any(set(group) & set(member) for member in groups):
            groups.append(group)
            return
    sets.append([group])


def _phases_of_plans(fabric: Fabric, name: str, nbytes: int, group: Group) -> tuple[Any, ...]:
    """The repeats of each plan that a group may take; groups with equal repeats may share time."""
    kind, size = kind_of(name), len(group)
    if kind is None or size == 1:
        return (size,)
    fabric_group = AlgorithmGroup(fabric, group)
    plans = {
        algorithm.name: algorithm.plan(fabric_group, nbytes)
        for algorithm in KINDS[kind]
        if algorithm.is_possible(fabric_group)
    }
    repeats = (
        (name, tuple(phase.repeat for phase in plan)) for name, plan in sorted(plans.items())
    )
    return size, *repeats


def _collective(
    fabric: Fabric, name: str, nbytes: int, groups: Sequence[Group], calls: int, floor: Floor
) -> WorldCollective:
    kind = kind_of(name)
    if kind is None:
        return WorldCollective(name, nbytes, tuple(groups), calls, None, floor)
    choice = choose(fabric, kind, nbytes, groups)
    layouts = [(len(group), len(AlgorithmGroup(fabric, group).by_node)) for group in groups]
    floors = floors_of(fabric, kind, nbytes, choice, layouts)
    return WorldCollective(name, nbytes, tuple(groups), calls, choice, floor, floors)


def _rank_figures(
    fabric: Fabric, rank: Mapping[str, Any], times_s: Mapping[tuple[str, Group, str, int], float]
) -> RankFigures:
    step_times_s = {
        int(number): times_s[kind, tuple(ranks), floor, index]
        for number, (kind, ranks, floor, index) in rank["exchanges"].items()
    }
    step = overlap((Moment(*moment) for moment in rank["step"]), step_times_s)
    place = fabric.place(rank["rank"])
    missing = sum(rank["missing"].values())
    return RankFigures(rank["rank"], place, rank["steps"], rank["device_time_s"], step, missing)


def _link_bytes(fabric: Fabric, collectives: Sequence[WorldCollective]) -> npt.NDArray[np.float64]:
    nbytes_by_link = np.zeros(len(fabric.names))
    for collective in collectives:
        for phase in collective.choice.plan if collective.choice else ():
            uses = fabric.uses(phase)
            nbytes = phase.nbytes[uses.transfer] * uses.weight * phase.repeat * collective.calls
            nbytes_by_link += np.bincount(uses.resource, nbytes, minlength=len(nbytes_by_link))
    return nbytes_by_link
