"""One replica: its queue, its sequences, and its next step.

Equal decode steps are simulated as one event: until a sequence ends, a bucket or a block is full,
or a request comes that could begin. Their number is exact, so results do not depend on it.

What a step holds is the engine's: see `trnsim.system.serve.compiled` and
`trnsim.system.serve.dynamic`. A search makes millions of steps, so what a step asks of the engine
lies in attributes of its replica.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter, deque
from heapq import heappop, heappush

from trnsim.errors import InternalError
from trnsim.system.serve.engine import Engine, ReplicaRole, StepCosts
from trnsim.system.serve.sequence import PrefixCache, Sequence


class Replica(ABC):
    """One replica of a deployment.

    Attributes:
        engine: its rules.
        waiting: sequences that have not begun.
        busy_s: seconds of steps.
        outstanding: tokens of its requests that have not ended, by which a router weighs it.
        decodes: decode steps by (batch, length), as priced: compiled sizes, or a dynamic engine's
            live batch.
        sequence_steps: decode steps times the live sequences of each.
        prefills: prefill steps by (prompts, tokens, past).
        preempted: number of preemptions.
        cached_tokens: tokens of prompts that came from the cache.
    """

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        self.engine = engine
        self._costs = costs
        self._growth = engine.growth
        self._decodes_only = engine.role is ReplicaRole.DECODE
        self._joins = engine.role is ReplicaRole.BOTH
        self._is_mixing = engine.is_mixing
        self._has_prefixes = engine.has_prefix_cache
        self.waiting: deque[Sequence] = deque()
        self._filling: list[Sequence] = []
        self._filling_tokens = 0  # of all prompts that have begun
        self._left_tokens = 0  # of these, tokens that are in no step so far
        self._running: dict[int, Sequence] = {}
        self._ends_heap: list[tuple[int, int, Sequence]] = []
        self._cache = PrefixCache(engine.block_tokens)
        self._shared_tokens = 0
        self._steps = 0
        self._action: tuple[bool, float, float, int] | None = None
        self._chunks: list[tuple[Sequence, int]] = []
        self._joined_sequences: list[Sequence] = []
        self._last_step = (0, 0)
        self._last_step_s = 0.0
        self._has_filled = False
        self.busy_s = 0.0
        self.outstanding = 0
        self.decodes: Counter[tuple[int, int]] = Counter()
        self.prefills: Counter[tuple[int, int, int]] = Counter()
        self.sequence_steps = 0
        self.preempted = 0
        self.cached_tokens = 0

    @property
    def is_idle(self) -> bool:
        """True if no step is under way."""
        return self._action is None

    def add(self, sequence: Sequence) -> None:
        """Add a request to the queue."""
        self.waiting.append(sequence)
        self.outstanding += sequence.request.tokens

    # What happens next.

    def plan(self, now_s: float) -> tuple[float, list[Sequence]] | None:
        """The end of the next step or steps, and the sequences that begin; None without work."""
        is_turn = self.engine.is_alternating and self._has_filled and bool(self._running)
        begun = self._admit() if self.waiting and not is_turn else []
        if self._filling:
            duration_s = self._fill()
            self._action = (True, now_s, duration_s, 1)
            self._has_filled = True
            return now_s + duration_s, begun
        if not self._running:
            return None
        self._has_filled = False
        count, step = self._next_decodes(is_turn=is_turn)
        if step != self._last_step:
            self._last_step = step
            self._last_step_s = self._costs.decode(*step)
        self.decodes[step] += count
        self.sequence_steps += count * len(self._running)
        duration_s = self._last_step_s
        self._action = (False, now_s, duration_s, count)
        return now_s + count * duration_s, begun

    def interrupt(self, now_s: float) -> float | None:
        """The earlier end of the current steps if a waiting request could begin; None otherwise."""
        if self._action is None or not self.waiting or not self._has_place(0):
            return None
        is_fill, start_s, duration_s, count = self._action
        if is_fill or not self._has_blocks_for(self.waiting[0]):
            return None
        steps = max(math.ceil((now_s - start_s) / duration_s), 1)
        if steps >= count:
            return None
        self.decodes[self._last_step] += steps - count
        self.sequence_steps += (steps - count) * len(self._running)
        self._action = (False, start_s, duration_s, steps)
        return start_s + steps * duration_s

    def complete(self, now_s: float) -> tuple[list[tuple[Sequence, float]], list[Sequence]]:
        """End the steps; return first tokens with their times, and the sequences that ended."""
        if self._action is None:
            raise InternalError("a replica ends a step that it did not begin")
        is_fill, start_s, duration_s, count = self._action
        self._action = None
        self.busy_s += count * duration_s
        first: list[tuple[Sequence, float]] = []
        if self._joined_sequences:
            first = [(sequence, start_s + duration_s) for sequence in self._joined_sequences]
            self._joined_sequences = []
        ended: list[Sequence] = []
        if self._running and (self._is_mixing or not is_fill):
            self._steps += count
            if self._ends_heap[0][0] <= self._steps:
                ended = self._ended_sequences()
        if is_fill:
            first += self._finish_prompts(now_s, ended)
        for sequence in ended:
            self.outstanding -= sequence.request.tokens
        return first, ended

    # Prompts.

    def _admit(self) -> list[Sequence]:
        """Begin waiting sequences while there is a place and memory for them."""
        begun: list[Sequence] = []
        while (
            self.waiting and self._has_place(len(begun)) and self._has_blocks_for(self.waiting[0])
        ):
            sequence = self.waiting.popleft()
            begun.append(sequence)
            if self._decodes_only:
                self._join(sequence)
                self._joined_sequences.append(sequence)
                continue
            if self._has_prefixes:
                sequence.filled = self._cache.take(sequence)
                self._shared_tokens += sequence.filled
                self.cached_tokens += sequence.filled
            self._filling.append(sequence)
            self._filling_tokens += sequence.prompt
            self._left_tokens += sequence.prompt - sequence.filled
        return begun

    @abstractmethod
    def _has_place(self, begun: int) -> bool:
        """True if the first that waits may begin, after `begun` others of the same step."""

    @abstractmethod
    def _has_blocks_for(self, sequence: Sequence) -> bool:
        """True if there are blocks for its prompt."""

    @abstractmethod
    def _fill(self) -> float:
        """Seconds of the next step with prompts, whose chunks are recorded."""

    def _finish_prompts(self, now_s: float, ended: list[Sequence]) -> list[tuple[Sequence, float]]:
        """Mark the chunks of a step as computed; return the finished prompts with their time.

        Prompts that need no decode step here are added to `ended`.
        """
        first: list[tuple[Sequence, float]] = []
        for sequence, tokens in self._chunks:
            sequence.filled += tokens
            if sequence.filled < sequence.prompt:
                continue
            self._filling.remove(sequence)
            self._filling_tokens -= sequence.prompt
            if self._has_prefixes:
                before = sequence.shared
                self._cache.keep(sequence, self._room_for_cache())
                self._shared_tokens += sequence.shared - before
            first.append((sequence, now_s))
            if sequence.steps and self._joins:
                self._join(sequence)
            else:
                self._release(sequence)
                ended.append(sequence)
        self._chunks = []
        return first

    def _room_for_cache(self) -> float:
        """Tokens of memory for prefixes."""
        return math.inf

    # Decodes.

    def _join(self, sequence: Sequence) -> None:
        """Add a sequence to those that decode."""
        sequence.base = sequence.prompt - self._growth * self._steps
        sequence.ends = self._steps + sequence.steps
        sequence.is_running = True
        self._running[sequence.place] = sequence
        heappush(self._ends_heap, (sequence.ends, sequence.place, sequence))

    def _leave(self, sequence: Sequence) -> None:
        """Remove a sequence from those that decode."""
        sequence.is_running = False
        del self._running[sequence.place]
        self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        if sequence.shared:
            self._shared_tokens -= sequence.shared
            self._cache.release(sequence)

    def _ended_sequences(self) -> list[Sequence]:
        """Remove and return the sequences whose last step is done."""
        ended: list[Sequence] = []
        heap = self._ends_heap
        while heap and heap[0][0] <= self._steps:
            ends, _, sequence = heappop(heap)
            if sequence.is_running and sequence.ends == ends:
                self._leave(sequence)
                ended.append(sequence)
        return ended

    def _steps_to_an_end(self) -> int:
        """Steps until the next sequence ends."""
        heap = self._ends_heap
        while True:
            ends, _, sequence = heap[0]
            if sequence.is_running and sequence.ends == ends:
                return ends - self._steps
            heappop(heap)

    @abstractmethod
    def _next_decodes(self, *, is_turn: bool) -> tuple[int, tuple[int, int]]:
        """The number of the next decode steps that are all alike, and their batch and length.

        One step if it `is_turn` of the decodes between two prompts.
        """
