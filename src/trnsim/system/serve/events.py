"""Iteration events: requests come, a router places them, replicas make steps, requests end.

Of simultaneous events, ends of steps come first, then arrivals, then begins of steps. So a run
depends on the load and the seed alone, and a trace of a run gives the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final

import numpy as np

from trnsim.system.serve.breaches import Breaches
from trnsim.system.serve.engine import Engine, ReplicaRole
from trnsim.system.serve.load import Load, Request
from trnsim.system.serve.replica import Replica
from trnsim.system.serve.sequence import Sequence as Running

_STEP_ENDS: Final = 0
_REQUEST_ARRIVES: Final = 1
_STEP_IS_PLANNED: Final = 2
_DRAFT_SEED: Final = 7  # the stream of draws of accepted drafts


_Event = tuple[float, int, int, int, int]
"""Time, kind, serial number (the order of simultaneous events), place, detail."""


class Router(StrEnum):
    """The rule by which a request is placed on a replica."""

    ROUND_ROBIN = "round-robin"
    LEAST_WORK = "least-work"
    """The replica with the fewest tokens of requests that have not ended."""


@dataclass(frozen=True)
class RunOutcome:
    """Times of each request, by its place in the load.

    Attributes:
        arrival_s: when it arrived.
        start_s: when its first step began.
        first_s: when its first token was produced.
        end_s: when its last token was.
        cached: tokens of its prompt that lay in the cache when its first step began.
        replicas: the replicas with their counters.
    """

    arrival_s: list[float]
    start_s: list[float]
    first_s: list[float]
    end_s: list[float]
    cached: list[int]
    replicas: list[Replica]


def run(
    load: Load,
    replicas: Sequence[Replica],
    *,
    router: Router = Router.ROUND_ROBIN,
    transfer: Callable[[Request], float] | None = None,
    seed: int = 0,
    breaches: Breaches | None = None,
) -> RunOutcome:
    """Serve `load` on `replicas`.

    Args:
        load: the requests.
        replicas: fresh replicas; where some have `ReplicaRole.PREFILL`, others have
            `ReplicaRole.DECODE`.
        router: how requests are placed.
        transfer: seconds from the end of a prefill until a replica that decodes has its keys.
        seed: seed of the draws of accepted drafts.
        breaches: limits; the run stops where one is broken for certain.
    """
    return _Run(load, replicas, router, transfer, seed, breaches).outcome()


class _Run:
    """The state of a run."""

    def __init__(
        self,
        load: Load,
        replicas: Sequence[Replica],
        router: Router,
        transfer: Callable[[Request], float] | None,
        seed: int,
        breaches: Breaches | None,
    ) -> None:
        self.load = load
        self.breaches = breaches
        self.is_over = False
        self.replicas = list(replicas)
        self.router = router
        self.transfer = transfer
        decoding = [replica for replica in replicas if replica.engine.role is ReplicaRole.DECODE]
        others = [replica for replica in replicas if replica.engine.role is not ReplicaRole.DECODE]
        self.stages = [others, decoding]
        self.turns = [0, 0]
        self.steps = _decode_steps(load, (decoding or self.replicas)[0].engine, seed)
        none = math.nan
        self.arrival_s = [none] * len(load)
        self.start_s = [none] * len(load)
        self.first_s = [none] * len(load)
        self.end_s = [none] * len(load)
        self.cached = [0] * len(load)
        self.followers: dict[int, list[int]] = {}
        self.serial = 0
        self.arrivals: list[_Event] = []  # the last of an open load first
        self.heap: list[_Event] = []
        self.version = [0] * len(self.replicas)
        self.is_planned = [False] * len(self.replicas)
        self.index_of_replica = {id(replica): place for place, replica in enumerate(self.replicas)}

    def outcome(self) -> RunOutcome:
        """Run until no event is left, or a limit is broken."""
        for place, request in enumerate(self.load):
            if request.after is None:
                self.arrivals.append((request.arrival_s, _REQUEST_ARRIVES, place, place, 0))
            else:
                self.followers.setdefault(request.after, []).append(place)
        self.serial = len(self.load)
        self.arrivals.sort(reverse=True)
        if len(self.replicas) == 1 and not self.followers:
            self.run_single()
        else:
            self.run_heap()
        return RunOutcome(
            self.arrival_s, self.start_s, self.first_s, self.end_s, self.cached, self.replicas
        )

    def run_single(self) -> None:
        """All events of one replica under an open load.

        The next is the end of its steps or a request, so that no heap has to order them. A search
        of capacity makes millions of them.
        """
        arrivals, replica = self.arrivals, self.replicas[0]
        end_s = math.inf  # of the steps under way
        while (arrivals or end_s < math.inf) and not self.is_over:
            now_s = arrivals[-1][0] if arrivals else math.inf
            if end_s <= now_s:
                now_s = end_s
                self.complete(now_s, replica)
            elif end_s < math.inf:
                self.add(now_s, arrivals.pop()[2], replica)
                earlier_s = replica.interrupt(now_s)
                end_s = end_s if earlier_s is None else earlier_s
                continue
            while arrivals and arrivals[-1][0] <= now_s:
                self.add(now_s, arrivals.pop()[2], replica)
            steps_end_s = self.begin(now_s, replica)
            end_s = math.inf if steps_end_s is None else steps_end_s

    def run_heap(self) -> None:
        """All events of several replicas, or of clients that wait for answers."""
        arrivals, heap = self.arrivals, self.heap
        while (arrivals or heap) and not self.is_over:
            is_next = bool(arrivals) and (not heap or arrivals[-1] < heap[0])
            now_s, event, _, place, detail = arrivals.pop() if is_next else heappop(heap)
            if event == _REQUEST_ARRIVES:
                self.arrive(now_s, place, detail)
            elif event == _STEP_IS_PLANNED:
                self.is_planned[place] = False
                self.plan(now_s, place)
            elif detail == self.version[place]:
                self.end(now_s, place)

    def push(self, time_s: float, event: int, place: int, detail: int = 0) -> None:
        """Add a future event; of simultaneous ones the first that was pushed comes first."""
        self.serial += 1
        heappush(self.heap, (time_s, event, self.serial, place, detail))

    def arrive(self, now_s: float, place: int, stage: int) -> None:
        """Place a request that comes to a stage: 0 with its prompt, 1 with its keys."""
        if stage == 0:
            self.arrival_s[place] = now_s
        replica = self.choose(stage)
        replica_index = self.index_of_replica[id(replica)]
        replica.add(Running(place, self.load[place], self.steps[place]))
        if replica.is_idle:
            self.wake(now_s, replica_index)
            return
        end_s = replica.interrupt(now_s)
        if end_s is not None:
            self.version[replica_index] += 1
            self.push(end_s, _STEP_ENDS, replica_index, self.version[replica_index])

    def add(self, now_s: float, place: int, replica: Replica) -> None:
        """Add a request that arrives to the queue of a replica."""
        self.arrival_s[place] = now_s
        replica.add(Running(place, self.load[place], self.steps[place]))

    def choose(self, stage: int) -> Replica:
        """The replica of a stage that takes the next request."""
        among = self.stages[stage]
        if self.router is Router.LEAST_WORK:
            return min(among, key=lambda replica: replica.outstanding)
        self.turns[stage] += 1
        return among[(self.turns[stage] - 1) % len(among)]

    def wake(self, now_s: float, replica_index: int) -> None:
        """Let a replica plan once all events of this moment have happened."""
        heap, arrivals = self.heap, self.arrivals
        if not (heap and heap[0][0] <= now_s) and not (arrivals and arrivals[-1][0] <= now_s):
            self.plan(now_s, replica_index)
        elif not self.is_planned[replica_index]:
            self.is_planned[replica_index] = True
            self.push(now_s, _STEP_IS_PLANNED, replica_index)

    def plan(self, now_s: float, replica_index: int) -> None:
        """Begin the next steps of a replica."""
        replica = self.replicas[replica_index]
        end_s = self.begin(now_s, replica) if replica.is_idle else None
        if end_s is None:
            return
        self.version[replica_index] += 1
        self.push(end_s, _STEP_ENDS, replica_index, self.version[replica_index])

    def begin(self, now_s: float, replica: Replica) -> float | None:
        """Begin the next steps of a replica that has none; their end, None without work."""
        steps = replica.plan(now_s)
        if steps is None:
            return None
        end_s, begun = steps
        for sequence in begun:
            if math.isnan(self.start_s[sequence.place]):
                self.start_s[sequence.place] = now_s
                self.cached[sequence.place] = sequence.shared
        return end_s

    def end(self, now_s: float, replica_index: int) -> None:
        """End a replica's steps."""
        replica = self.replicas[replica_index]
        if replica.engine.role is ReplicaRole.PREFILL:
            for sequence in replica.complete(now_s)[1]:
                self.hand_over(now_s, sequence.place)
        else:
            self.complete(now_s, replica)
        self.wake(now_s, replica_index)

    def complete(self, now_s: float, replica: Replica) -> None:
        """End the steps of a replica that decodes: first tokens, and the ends of requests."""
        first, ended = replica.complete(now_s)
        for sequence, time_s in first:
            if math.isnan(self.first_s[sequence.place]):
                self.start(time_s, sequence.place)
        for sequence in ended:
            self.finish(now_s, sequence.place)

    def hand_over(self, now_s: float, place: int) -> None:
        """Send keys and values to a replica that decodes."""
        delay_s = self.transfer(self.load[place]) if self.transfer else 0.0
        self.push(now_s + delay_s, _REQUEST_ARRIVES, place, 1)

    def start(self, time_s: float, place: int) -> None:
        """Give a request its first token."""
        self.first_s[place] = time_s
        if self.breaches is not None:
            self.breaches.start(place, time_s - self.arrival_s[place])
            self.is_over = self.breaches.is_broken

    def finish(self, now_s: float, place: int) -> None:
        """End a request; those that wait for its end arrive."""
        self.end_s[place] = now_s
        if self.breaches is not None:
            took_s, decoding_s = now_s - self.arrival_s[place], now_s - self.first_s[place]
            self.breaches.end(place, took_s, decoding_s)
            self.is_over = self.breaches.is_broken
        for follower in self.followers.get(place, ()):
            self.push(now_s, _REQUEST_ARRIVES, follower)


def _decode_steps(load: Load, engine: Engine, seed: int) -> list[int]:
    """Decode steps of each request; a prefill gives the first token, unless others decode."""
    prefilled = 0 if engine.role is ReplicaRole.DECODE else 1
    generator = np.random.default_rng([seed, _DRAFT_SEED]) if engine.draft_tokens else None
    return [engine.steps(request.output_tokens - prefilled, generator) for request in load]
