"""The figures of all ranks together: who met whom, how long each exchange took, over which links.

Groups of one kind and size that exchange as much and as often as each other are taken to work at
once, so they share the links.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from trnsim.device.collective_log import kind_of
from trnsim.device.exposed import Moment, Overlap, overlap
from trnsim.fabric.choice import KINDS, Chosen, choose
from trnsim.fabric.fabric import Fabric, Place
from trnsim.fabric.group import Group as AlgorithmGroup

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
        rows = zip(
            self.fabric.names, self.link_bytes.tolist(), self.fabric.capacity.tolist(), strict=True
        )
        used = [(name, nbytes, nbytes / rate) for name, nbytes, rate in rows if nbytes]
        return sorted(used, key=lambda row: -row[2])


def world(
    fabric: Fabric,
    figures: Sequence[Mapping[str, Any]],
    lost: Sequence[str] = (),
    restarts: int = 0,
) -> World:
    """The world of ranks that wrote these figures."""
    messages = _messages(figures)
    exchanged = tuple(_exchanged(fabric, messages))
    by_size = {
        (one.kind, one.nbytes, group): one.time_s for one in exchanged for group in one.groups
    }
    times_s = {
        (kind, group, at): by_size[kind, nbytes, group]
        for (kind, group), sizes in messages.items()
        for at, nbytes in enumerate(sizes)
    }
    ranks = tuple(
        _of_rank(fabric, one, times_s) for one in sorted(figures, key=lambda one: one["rank"])
    )
    return World(fabric, ranks, exchanged, _link_bytes(fabric, exchanged), tuple(lost), restarts)


def _messages(figures: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Group], list[int]]:
    """By kind and group the bytes of each collective in order: the most that any rank has."""
    found: dict[tuple[str, Group], list[int]] = {}
    for rank in figures:
        for one in rank["collectives"]:
            key = one["kind"], tuple(one["ranks"])
            both = zip_longest(found.get(key, ()), one["nbytes"], fillvalue=0)
            found[key] = [max(pair) for pair in both]
    return found


def _exchanged(
    fabric: Fabric, messages: Mapping[tuple[str, Group], Sequence[int]]
) -> list[Exchanged]:
    alike: dict[tuple[Any, ...], list[list[Group]]] = defaultdict(list)
    for (kind, group), sizes in messages.items():
        for nbytes, number in Counter(sizes).items():
            _put(alike[kind, nbytes, number, _shape(fabric, kind, nbytes, group)], group)
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


def _shape(fabric: Fabric, name: str, nbytes: int, group: Group) -> tuple[Any, ...]:
    """The phases of each plan that the group may take; plans of groups at once must be alike."""
    kind, size = kind_of(name), len(group)
    if kind is None or size == 1:
        return (size,)
    one = AlgorithmGroup(fabric, group)
    plans = {
        algorithm.name: algorithm.plan(one, nbytes)
        for algorithm in KINDS[kind]
        if algorithm.is_possible(one)
    }
    repeats = (
        (name, tuple(phase.repeat for phase in plan)) for name, plan in sorted(plans.items())
    )
    return size, *repeats


def _chosen(fabric: Fabric, name: str, nbytes: int, groups: Sequence[Group]) -> Chosen | None:
    kind = kind_of(name)
    return None if kind is None else choose(fabric, kind, nbytes, groups)


def _of_rank(
    fabric: Fabric, one: Mapping[str, Any], times_s: Mapping[tuple[str, Group, int], float]
) -> RankFigures:
    of_step = {
        int(number): times_s[kind, tuple(ranks), at]
        for number, (kind, ranks, at) in one["exchanges"].items()
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
