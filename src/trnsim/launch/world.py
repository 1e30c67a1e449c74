"""The figures of all ranks together: who met whom, how long each exchange took, over which links.

Groups of one kind and size that exchange as much and as often as each other are taken to work at
once, so they share the links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trnsim.device.collective_log import kind_of
from trnsim.device.exposed import Moment, Overlap, overlap
from trnsim.fabric.choice import Chosen, choose
from trnsim.fabric.fabric import Fabric, Place

Group = tuple[int, ...]


@dataclass(frozen=True)
class Exchanged:
    """A collective of groups that work at once.

    Attributes:
        kind: its name in the framework.
        nbytes: bytes of the whole message.
        groups: the ranks of each group.
        calls: how often each group made it.
        chosen: its algorithm, transfers and time; None for one that the fabric does not know.
    """

    kind: str
    nbytes: int
    groups: tuple[Group, ...]
    calls: int
    chosen: Chosen | None

    @property
    def time_s(self) -> float:
        """Seconds of one of them."""
        return self.chosen.time_s if self.chosen else 0.0

    @property
    def moved_bytes(self) -> float:
        """Bytes that leave one rank for another, of all groups and calls."""
        plan = self.chosen.plan if self.chosen else ()
        return self.calls * sum(phase.total_bytes for phase in plan)


@dataclass(frozen=True)
class RankFigures:
    """One rank's last step.

    Attributes:
        rank: its number.
        place: instance, chip and logical core.
        steps: how many steps it made.
        device_time_s: the time of its kernels.
        step: with its exchanges.
        missing: calls without a time.
    """

    rank: int
    place: Place
    steps: int
    device_time_s: float
    step: Overlap
    missing: int


@dataclass(frozen=True)
class World:
    """All ranks of a job.

    Attributes:
        fabric: where they ran.
        ranks: the figures of those that wrote some.
        exchanged: the collectives of the whole program.
        link_bytes: bytes that passed each resource of the fabric.
        lost: the ranks that were lost, each in a sentence.
        restarts: how often all ranks were started again.
    """

    fabric: Fabric
    ranks: tuple[RankFigures, ...]
    exchanged: tuple[Exchanged, ...]
    link_bytes: npt.NDArray[np.float64]
    lost: tuple[str, ...] = ()
    restarts: int = 0

    @property
    def absent(self) -> list[int]:
        """Ranks without figures."""
        return sorted(set(range(self.fabric.ranks)) - {one.rank for one in self.ranks})

    @property
    def skew_s(self) -> float:
        """By how much the kernels of the slowest rank take longer than those of the fastest."""
        times_s = [one.device_time_s for one in self.ranks]
        return max(times_s) - min(times_s) if times_s else 0.0

    @property
    def links(self) -> list[tuple[str, float, float]]:
        """Name, bytes and seconds of each resource that carried any, the busiest first."""
        busy_s = self.link_bytes / self.fabric.capacity
        used = [(name, float(nbytes), float(time_s)) for name, nbytes, time_s in
                zip(self.fabric.names, self.link_bytes, busy_s, strict=True) if nbytes]  # fmt: skip
        return sorted(used, key=lambda row: -row[2])


def world(
    fabric: Fabric,
    figures: Sequence[Mapping[str, Any]],
    lost: Sequence[str] = (),
    restarts: int = 0,
) -> World:
    """The world of ranks that wrote these figures."""
    exchanged = tuple(_exchanged(fabric, figures))
    times_s = {
        (one.kind, one.nbytes, group): one.time_s for one in exchanged for group in one.groups
    }
    ranks = tuple(
        _of_rank(fabric, one, times_s) for one in sorted(figures, key=lambda one: one["rank"])
    )
    return World(fabric, ranks, exchanged, _link_bytes(fabric, exchanged), tuple(lost), restarts)


def _exchanged(fabric: Fabric, figures: Sequence[Mapping[str, Any]]) -> list[Exchanged]:
    calls: dict[tuple[str, int, Group], int] = {}
    for rank in figures:
        for one in rank["collectives"]:
            key = one["kind"], one["nbytes"], tuple(one["ranks"])
            calls[key] = max(calls.get(key, 0), one["calls"])
    alike: dict[tuple[Any, ...], list[list[Group]]] = defaultdict(list)
    for (kind, nbytes, group), number in calls.items():
        _put(alike[kind, nbytes, number, _shape(fabric, group)], group)
    found = [
        Exchanged(kind, nbytes, tuple(groups), number, _chosen(fabric, kind, nbytes, groups))
        for (kind, nbytes, number, _), sets in alike.items()
        for groups in sets
    ]
    return sorted(found, key=lambda one: -one.calls * one.time_s)


def _put(sets: list[list[Group]], group: Group) -> None:
    """Add a group to the first set of groups with which it shares no rank."""
    for groups in sets:
        if not any(set(group) & set(other) for other in groups):
            groups.append(group)
            return
    sets.append([group])


def _shape(fabric: Fabric, group: Group) -> tuple[tuple[int, int, int], ...]:
    """The places of a group, chips and instances numbered as they come: equal plans fit these."""
    nodes: dict[int, int] = {}
    chips: dict[tuple[int, int], int] = {}
    return tuple(
        (nodes.setdefault(node, len(nodes)), chips.setdefault((node, chip), len(chips)), core)
        for node, chip, core in map(fabric.place, group)
    )


def _chosen(fabric: Fabric, name: str, nbytes: int, groups: Sequence[Group]) -> Chosen | None:
    kind = kind_of(name)
    return None if kind is None else choose(fabric, kind, nbytes, groups)


def _of_rank(
    fabric: Fabric, one: Mapping[str, Any], times_s: Mapping[tuple[str, int, Group], float]
) -> RankFigures:
    of_step = {
        int(number): times_s[what["kind"], what["nbytes"], tuple(what["ranks"])]
        for number, what in one["exchanges"].items()
    }
    step = overlap((Moment(*moment) for moment in one["step"]), of_step)
    place = fabric.place(one["rank"])
    missing = sum(one["missing"].values())
    return RankFigures(one["rank"], place, one["steps"], one["device_time_s"], step, missing)


def _link_bytes(fabric: Fabric, exchanged: Sequence[Exchanged]) -> npt.NDArray[np.float64]:
    found = np.zeros(len(fabric.names))
    for one in exchanged:
        for phase in one.chosen.plan if one.chosen else ():
            uses = fabric.uses(phase)
            nbytes = phase.nbytes[uses.transfer] * uses.weight * phase.repeat * one.calls
            found += np.bincount(uses.resource, nbytes, minlength=len(found))
    return found
