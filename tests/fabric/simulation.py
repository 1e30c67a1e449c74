"""An event simulation of a plan: transfers that share links, HBM and DMA engines fairly.

A transfer begins when its ranks have what earlier phases bring them, waits for the latency of its
hop, and then passes its bytes at the rate that is left to it: the rates are max-min fair, so that
none grows but at the cost of one that is no larger. An event is a transfer that begins or ends.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from trnsim.fabric.fabric import Fabric, Uses
    from trnsim.fabric.transfers import Plan, TransferPhase

Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_EVEN: Final = 1e-9
"""Relative difference below which two ends or two shares are the same."""


@dataclass(frozen=True)
class Simulated:
    """A simulated collective.

    Attributes:
        time_s: seconds to its last transfer, its start included.
        end_s: by rank, seconds to the last transfer that it is part of.
        nbytes: bytes that passed each resource.
        busy_s: seconds in which each resource carried anything.
    """

    time_s: float
    end_s: Mapping[int, float]
    nbytes: Floats
    busy_s: Floats


class _Round(NamedTuple):
    """One repetition of a phase."""

    phase: int
    repetition: int


def simulate(fabric: Fabric, plan: Plan, late_s: Mapping[int, float] | None = None) -> Simulated:
    """Simulate `plan` on `fabric`.

    Args:
        fabric: where its ranks run.
        plan: the transfers.
        late_s: by rank, seconds after the others at which it comes to the collective.
    """
    return _Simulation(fabric, plan, late_s or {}).run()


@dataclass
class _Simulation:
    fabric: Fabric
    plan: Plan
    late_s: Mapping[int, float]
    now_s: float = 0.0
    end_s: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    _waiting: list[tuple[float, int, _Round, Indices]] = field(default_factory=list)
    _missing: dict[_Round, Indices] = field(default_factory=dict)
    _order: Iterator[int] = field(default_factory=count)

    def run(self) -> Simulated:
        """Go from event to event until every transfer has ended."""
        self.uses = [self.fabric.uses(one) for one in self.plan]
        self.successors = _Successors(self.plan)
        self.running = _Running(self.fabric.capacity, self.plan, self.uses)
        for number, first in self.successors.first.items():
            self._begin_late(_Round(number, 0), first)
        while self._waiting or self.running.count:
            begins_s = self._waiting[0][0] if self._waiting else np.inf
            if self.now_s + self.running.next_end_s() < begins_s:
                self.now_s += self.running.next_end_s()
                for one, ended in self.running.pass_to_next_end():
                    self._ended(one, ended)
            else:
                self.running.pass_by(begins_s - self.now_s)
                self.now_s = begins_s
                while self._waiting and self._waiting[0][0] <= begins_s * (1 + _EVEN):
                    _, _, one, begun = heapq.heappop(self._waiting)
                    self.running.add(one, begun)
        return Simulated(
            self.now_s, dict(self.end_s), self.running.passed_bytes, self.running.busy_s
        )

    def _begin_late(self, one: _Round, first: Indices) -> None:
        """The first transfers wait for the later of their ranks."""
        phase = self.plan[one.phase]
        pairs = zip(phase.sources[first].tolist(), phase.targets[first].tolist(), strict=True)
        late = np.array([max(self.late_s.get(a, 0), self.late_s.get(b, 0)) for a, b in pairs])
        for late_s in np.unique(late):
            self._begin(one, first[late == late_s], self.fabric.start_s + float(late_s))

    def _begin(self, one: _Round, transfers: Indices, from_s: float) -> None:
        begins_s = from_s + self.fabric.hop_s(self.plan[one.phase])
        heapq.heappush(self._waiting, (begins_s, next(self._order), one, transfers))

    def _ended(self, one: _Round, transfers: Indices) -> None:
        """Let transfers begin that waited for these."""
        phase = self.plan[one.phase]
        for ranks in (phase.sources, phase.targets):
            for rank in np.unique(ranks[transfers]).tolist():
                self.end_s[rank] = self.now_s
        for following, waits in self.successors.after(one, transfers):
            missing = self._missing.get(following)
            if missing is None:
                missing = self._missing[following] = self.successors.counts(following).copy()
            np.subtract.at(missing, waits, 1)
            ready = np.unique(waits[missing[waits] == 0])
            if len(ready):
                self._begin(following, ready, self.now_s)


class _Running:
    """The transfers that pass bytes now, and their rates."""

    def __init__(self, capacity: Floats, plan: Plan, uses: list[Uses]) -> None:
        self._capacity = capacity
        self._plan = plan
        self._uses = [
            _by_transfer(one, len(phase.nbytes)) for one, phase in zip(uses, plan, strict=True)
        ]
        self._rounds: list[_Round] = []
        self._transfers: list[Indices] = []
        self._left = np.empty(0)
        self._rates: Floats | None = None
        self.passed_bytes = np.zeros(len(capacity))
        self.busy_s = np.zeros(len(capacity))

    @property
    def count(self) -> int:
        """Transfers that have not ended."""
        return len(self._left)

    def add(self, one: _Round, transfers: Indices) -> None:
        """Transfers of a round begin to pass bytes."""
        self._rounds.append(one)
        self._transfers.append(transfers)
        self._left = np.concatenate([self._left, self._plan[one.phase].nbytes[transfers]])
        self._rates = None

    def next_end_s(self) -> float:
        """Seconds until the next transfer ends; infinite where none runs."""
        if not self.count:
            return np.inf
        return float((self._left / self._shares()).min())

    def pass_by(self, time_s: float) -> None:
        """Pass bytes for `time_s`."""
        if self.count and time_s > 0:
            moved = self._shares() * time_s
            self._left = np.maximum(self._left - moved, 0.0)
            load = np.bincount(
                self._resource, moved[self._entry] * self._weight, minlength=len(self._capacity)
            )
            self.passed_bytes += load
            self.busy_s += np.where(load > 0, time_s, 0.0)

    def pass_to_next_end(self) -> Iterator[tuple[_Round, Indices]]:
        """Pass bytes until transfers end; they leave, and are returned by round."""
        ends_s = self._left / self._shares()
        time_s = float(ends_s.min())
        ended = ends_s <= time_s * (1 + _EVEN)
        self.pass_by(time_s)
        at, rounds, kept = 0, [], []
        found = []
        for one, transfers in zip(self._rounds, self._transfers, strict=True):
            here = ended[at : at + len(transfers)]
            at += len(transfers)
            if here.any():
                found.append((one, transfers[here]))
            if not here.all():
                rounds.append(one)
                kept.append(transfers[~here])
        self._rounds, self._transfers = rounds, kept
        self._left, self._rates = self._left[~ended], None
        return iter(found)

    def _shares(self) -> Floats:
        """The rate of every running transfer."""
        if self._rates is None:
            self._gather()
            self._rates = fair_rates(
                self._entry, self._resource, self._weight, self._capacity, self.count
            )
        return self._rates

    def _gather(self) -> None:
        """What the running transfers use."""
        entries, resources, weights, at = [], [], [], 0
        for one, transfers in zip(self._rounds, self._transfers, strict=True):
            first, uses = self._uses[one.phase]
            lengths = first[transfers + 1] - first[transfers]
            numbers = np.repeat(np.arange(len(transfers)), lengths)
            offset = np.arange(len(numbers)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            places = first[transfers][numbers] + offset
            entries.append(numbers + at)
            resources.append(uses.resource[places])
            weights.append(uses.weight[places])
            at += len(transfers)
        self._entry = np.concatenate(entries)
        self._resource, self._weight = np.concatenate(resources), np.concatenate(weights)


def fair_rates(
    transfer: Indices, resource: Indices, weight: Floats, capacity: Floats, count: int
) -> Floats:
    """Max-min fair rates of `count` transfers.

    Entry k says that ``transfer[k]`` passes ``weight[k]`` times its bytes through ``resource[k]``.
    """
    rates, is_open = np.zeros(count), np.ones(count, bool)
    left = capacity.astype(np.float64)
    while is_open.any():
        here = is_open[transfer]
        wanted = np.bincount(resource[here], weight[here], minlength=len(capacity))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(wanted > 0, left / wanted, np.inf)
        level = share.min()
        is_tight = share <= level * (1 + _EVEN)
        fixed = np.zeros(count, bool)
        fixed[transfer[here & is_tight[resource]]] = True
        rates[fixed] = level
        taken = fixed[transfer]
        left -= level * np.bincount(resource[taken], weight[taken], minlength=len(capacity))
        np.maximum(left, 0.0, out=left)
        is_open &= ~fixed
    return rates


def _by_transfer(uses: Uses, count: int) -> tuple[Indices, Uses]:
    """The place of each transfer's first entry, and the entries, which are in their order."""
    return np.searchsorted(uses.transfer, np.arange(count + 1)), uses


class _Successors:
    """Which transfers wait for which.

    A transfer waits for all that its sender received or sent in the last phase of which it was
    part, on the same channel where both phases know it.

    Attributes:
        first: by phase, the transfers that wait for none.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._own = [_waits(one, one) if one.repeat > 1 else None for one in plan]
        self._next: dict[int, list[tuple[int, _Waits]]] = defaultdict(list)
        self.first: dict[int, Indices] = {}
        self._counts: dict[int, Indices] = {}
        for number, one in enumerate(plan):
            waiting = np.arange(len(one.sources))
            self._counts[number] = np.zeros(len(one.sources), np.int64)
            for before in reversed(range(number)):
                waits = _waits(plan[before], one, waiting)
                found = np.unique(waits.waiting)
                if len(found):
                    self._next[before].append((number, waits))
                    self._counts[number] += np.bincount(waits.waiting, minlength=len(one.sources))
                    waiting = np.setdiff1d(waiting, found)
            if len(waiting):
                self.first[number] = waiting

    def counts(self, one: _Round) -> Indices:
        """How many transfers each transfer of a round waits for."""
        own = self._own[one.phase]
        if one.repetition and own is not None:
            return np.bincount(own.waiting, minlength=len(self._plan[one.phase].sources))
        return self._counts[one.phase]

    def after(self, one: _Round, ended: Indices) -> Iterator[tuple[_Round, Indices]]:
        """The rounds that wait for these transfers, and which of theirs do, once for each."""
        own = self._own[one.phase]
        if own is not None and one.repetition + 1 < self._plan[one.phase].repeat:
            yield _Round(one.phase, one.repetition + 1), own.after(ended)
            return
        for number, waits in self._next[one.phase]:
            found = waits.after(ended)
            if len(found):
                yield _Round(number, 0), found


class _Waits:
    """Transfers of one phase that wait for transfers of another, as pairs."""

    def __init__(self, ended: Indices, waiting: Indices, count: int) -> None:
        order = np.argsort(ended, kind="stable")
        self.waiting = waiting[order]
        self._first = np.searchsorted(ended[order], np.arange(count + 1))

    def after(self, ended: Indices) -> Indices:
        """Those that wait for `ended`, once for each that they wait for."""
        spans = [self.waiting[self._first[one] : self._first[one + 1]] for one in ended.tolist()]
        return np.concatenate(spans) if spans else np.empty(0, np.int64)


def _waits(before: TransferPhase, after: TransferPhase, waiting: Indices | None = None) -> _Waits:
    """Which of `after` (of its transfers `waiting`) wait for which of `before`."""
    same = set(before.channels.tolist()) == set(after.channels.tolist())
    at: dict[tuple[int, int], list[int]] = defaultdict(list)
    ends = zip(before.sources.tolist(), before.targets.tolist(), strict=True)
    for number, (pair, channel) in enumerate(zip(ends, before.channels.tolist(), strict=True)):
        for rank in set(pair):
            at[rank, channel if same else 0].append(number)
    ended: list[int] = []
    later: list[int] = []
    chosen = np.arange(len(after.sources)) if waiting is None else waiting
    for number in chosen.tolist():
        channel = int(after.channels[number]) if same else 0
        for one in at.get((int(after.sources[number]), channel), ()):
            ended.append(one)
            later.append(number)
    return _Waits(np.array(ended, np.int64), np.array(later, np.int64), len(before.sources))
