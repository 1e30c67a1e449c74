"""Discrete events of serving: arrivals of requests, routing, begins and ends of replicas' steps.

Of simultaneous events, ends of steps come first, then arrivals, then begins of steps. So a run
depends only on the load and the seed, and a run of its own trace gives the same times.
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
from trnsim.system.serve.sequence import Sequence as ReplicaSequence

_STEP_ENDS: Final = 0
_REQUEST_ARRIVES: Final = 1
_STEP_IS_PLANNED: Final = 2
_DRAFT_SEED: Final = 7  # random stream of the numbers of accepted drafts


_Event = tuple[float, int, int, int, int]
"""Time in seconds, kind, serial number (orders simultaneous events), index, detail.

The index is the request's for an arrival, and the replica's for other kinds. The detail is the
stage of an arrival, or the version of the steps that end; events of older versions are void."""


class Router(StrEnum):
    """The rule by which a request is placed on a replica."""

    ROUND_ROBIN = "round-robin"
    LEAST_WORK = "least-work"
    """The replica whose unfinished requests have the fewest tokens, prompts and answers."""


@dataclass(frozen=True)
class RunOutcome:
    """Times of each request, by its index in the load, in seconds from the start of the run.

    Attributes:
        arrival_s: when the request arrived.
        start_s: when its first step began.
        first_s: when its first token was produced.
        end_s: when its last token was produced.
        cached_tokens: tokens of its prompt that lay in the cache when its first step began.
        replicas: the replicas after the run.
    """

    arrival_s: list[float]
    start_s: list[float]
    first_s: list[float]
    end_s: list[float]
    cached_tokens: list[int]
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
        transfer: function from a request to the seconds between the end of its prefill and the
            time when a decode replica has its keys and values; None for no time.
        seed: seed of the random numbers of accepted drafts.
        breaches: latency limits; the run stops once a limit is certainly broken.
    """
    return _Run(load, replicas, router, transfer, seed, breaches).outcome()


class _Run:
    """The state of a run.

    Attributes:
        load: the requests, by index.
        replicas: the replicas, by index.
        stage_replicas: replicas of stage 0 (prefill, or prefill and decode) and stage 1 (decode).
        next_turn: requests that round robin has placed so far, by stage.
        steps: decode steps of each request.
        arrival_s, start_s, first_s, end_s: as in `RunOutcome`; NaN before the event.
        cached_tokens: as in `RunOutcome`.
        followers: index of a request -> requests of a closed load that arrive at its end.
        serial: serial number of the last event.
        arrivals: arrivals at fixed times, the latest first.
        heap: all other future events.
        version: version of the current steps of each replica; an interruption or begin raises it.
        is_planned: whether the heap holds a begin of steps for each replica.
        is_over: whether the run stops early.
    """

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
        decode_replicas = [
            replica for replica in replicas if replica.engine.role is ReplicaRole.DECODE
        ]
        prefill_replicas = [
            replica for replica in replicas if replica.engine.role is not ReplicaRole.DECODE
        ]
        self.stage_replicas = [prefill_replicas, decode_replicas]
        self.next_turn = [0, 0]
        self.steps = _decode_steps(load, (decode_replicas or self.replicas)[0].engine, seed)
        no_time_s = math.nan
        self.arrival_s = [no_time_s] * len(load)
        self.start_s = [no_time_s] * len(load)
        self.first_s = [no_time_s] * len(load)
        self.end_s = [no_time_s] * len(load)
        self.cached_tokens = [0] * len(load)
        self.followers: dict[int, list[int]] = {}
        self.serial = 0
        self.arrivals: list[_Event] = []
        self.heap: list[_Event] = []
        self.version = [0] * len(self.replicas)
        self.is_planned = [False] * len(self.replicas)
        self.index_of_replica = {id(replica): index for index, replica in enumerate(self.replicas)}

    def outcome(self) -> RunOutcome:
        """Run until no event is left, or a limit is broken."""
        for index, request in enumerate(self.load):
            if request.after is None:
                self.arrivals.append((request.arrival_s, _REQUEST_ARRIVES, index, index, 0))
            else:
                self.followers.setdefault(request.after, []).append(index)
        self.serial = len(self.load)
        self.arrivals.sort(reverse=True)
        if len(self.replicas) == 1 and not self.followers:
            self.run_single()
        else:
            self.run_heap()
        return RunOutcome(
            self.arrival_s,
            self.start_s,
            self.first_s,
            self.end_s,
            self.cached_tokens,
            self.replicas,
        )

    def run_single(self) -> None:
        """All events of one replica under an open load, without a heap.

        The next event is the end of its steps or the next arrival. A search of capacity makes
        millions of events, so this saves much of its time.
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
        """All events of several replicas, or of a closed load."""
        arrivals, heap = self.arrivals, self.heap
        while (arrivals or heap) and not self.is_over:
            is_next = bool(arrivals) and (not heap or arrivals[-1] < heap[0])
            now_s, event, _, index, detail = arrivals.pop() if is_next else heappop(heap)
            if event == _REQUEST_ARRIVES:
                self.arrive(now_s, index, detail)
            elif event == _STEP_IS_PLANNED:
                self.is_planned[index] = False
                self.plan(now_s, index)
            elif detail == self.version[index]:
                self.end(now_s, index)

    def push(self, time_s: float, event: int, index: int, detail: int = 0) -> None:
        """Add a future event; simultaneous events of one kind keep the order of their pushes."""
        self.serial += 1
        heappush(self.heap, (time_s, event, self.serial, index, detail))

    def arrive(self, now_s: float, index: int, stage: int) -> None:
        """Place a request on a replica of a stage: 0 for its prompt, 1 for its decodes."""
        if stage == 0:
            self.arrival_s[index] = now_s
        replica = self.choose(stage)
        replica_index = self.index_of_replica[id(replica)]
        replica.add(ReplicaSequence(index, self.load[index], self.steps[index]))
        if replica.is_idle:
            self.wake(now_s, replica_index)
            return
        end_s = replica.interrupt(now_s)
        if end_s is not None:
            self.version[replica_index] += 1
            self.push(end_s, _STEP_ENDS, replica_index, self.version[replica_index])

    def add(self, now_s: float, index: int, replica: Replica) -> None:
        """Note the arrival of a request and add it to the queue of a replica."""
        self.arrival_s[index] = now_s
        replica.add(ReplicaSequence(index, self.load[index], self.steps[index]))

    def choose(self, stage: int) -> Replica:
        """The replica of a stage that takes the next request."""
        candidates = self.stage_replicas[stage]
        if self.router is Router.LEAST_WORK:
            return min(candidates, key=lambda replica: replica.outstanding_tokens)
        self.next_turn[stage] += 1
        return candidates[(self.next_turn[stage] - 1) % len(candidates)]

    def wake(self, now_s: float, replica_index: int) -> None:
        """Let a replica begin steps once all other events at `now_s` have happened."""
        heap, arrivals = self.heap, self.arrivals
        if not (heap and heap[0][0] <= now_s) and not (arrivals and arrivals[-1][0] <= now_s):
            self.plan(now_s, replica_index)
        elif not self.is_planned[replica_index]:
            self.is_planned[replica_index] = True
            self.push(now_s, _STEP_IS_PLANNED, replica_index)

    def plan(self, now_s: float, replica_index: int) -> None:
        """Begin the next steps of a replica, if it is idle, and schedule their end."""
        replica = self.replicas[replica_index]
        end_s = self.begin(now_s, replica) if replica.is_idle else None
        if end_s is None:
            return
        self.version[replica_index] += 1
        self.push(end_s, _STEP_ENDS, replica_index, self.version[replica_index])

    def begin(self, now_s: float, replica: Replica) -> float | None:
        """Begin the next steps of an idle replica; return when they end, None without work."""
        steps = replica.plan(now_s)
        if steps is None:
            return None
        end_s, sequences = steps
        for sequence in sequences:
            if math.isnan(self.start_s[sequence.index]):
                self.start_s[sequence.index] = now_s
                self.cached_tokens[sequence.index] = sequence.shared_tokens
        return end_s

    def end(self, now_s: float, replica_index: int) -> None:
        """End a replica's steps."""
        replica = self.replicas[replica_index]
        if replica.engine.role is ReplicaRole.PREFILL:
            for sequence in replica.complete(now_s)[1]:
                self.hand_over(now_s, sequence.index)
        else:
            self.complete(now_s, replica)
        self.wake(now_s, replica_index)

    def complete(self, now_s: float, replica: Replica) -> None:
        """End the steps of a replica that decodes; note first tokens and ends of requests."""
        first_tokens, ended_sequences = replica.complete(now_s)
        for sequence, time_s in first_tokens:
            if math.isnan(self.first_s[sequence.index]):
                self.start(time_s, sequence.index)
        for sequence in ended_sequences:
            self.finish(now_s, sequence.index)

    def hand_over(self, now_s: float, index: int) -> None:
        """Send keys and values of a request to a decode replica."""
        delay_s = self.transfer(self.load[index]) if self.transfer else 0.0
        self.push(now_s + delay_s, _REQUEST_ARRIVES, index, 1)

    def start(self, time_s: float, index: int) -> None:
        """Note the first token of a request."""
        self.first_s[index] = time_s
        if self.breaches is not None:
            self.breaches.start(index, time_s - self.arrival_s[index])
            self.is_over = self.breaches.is_broken

    def finish(self, now_s: float, index: int) -> None:
        """End a request; requests that wait for its end arrive now."""
        self.end_s[index] = now_s
        if self.breaches is not None:
            request_s, decoding_s = now_s - self.arrival_s[index], now_s - self.first_s[index]
            self.breaches.end(index, request_s, decoding_s)
            self.is_over = self.breaches.is_broken
        for follower in self.followers.get(index, ()):
            self.push(now_s, _REQUEST_ARRIVES, follower)


def _decode_steps(load: Load, engine: Engine, seed: int) -> list[int]:
    """Number of decode steps of each request.

    The prefill gives the first token, unless decode replicas do.
    """
    prefill_tokens = 0 if engine.role is ReplicaRole.DECODE else 1
    generator = np.random.default_rng([seed, _DRAFT_SEED]) if engine.draft_tokens else None
    return [engine.steps(request.output_tokens - prefill_tokens, generator) for request in load]
