"""A replica: its queue, its running sequences, and its steps.

Consecutive equal decode steps are one event: until a sequence ends, a bucket or block is full, or a
request arrives that could begin. Results are the same as with an event for each step.

The subclasses in `trnsim.system.serve.compiled` and `trnsim.system.serve.dynamic` decide what a
step holds. A search makes millions of steps, so properties of the engine are copied to attributes.
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
        engine: its scheduling rules.
        waiting_sequences: sequences that have not begun, in order.
        busy_s: seconds in steps so far.
        outstanding_tokens: tokens of its unfinished requests, by which a router compares replicas.
        decodes: count of decode steps by (batch, length): compiled sizes, or the live batch and
            granule of a dynamic engine.
        sequence_steps: sum of the live sequences of all decode steps.
        prefills: count of prefill steps by (prompts, tokens, past tokens).
        preemptions: count of sequences that had to give up their memory.
        cached_tokens: prompt tokens that came from the prefix cache.
    """

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        self.engine = engine
        self._costs = costs
        self._tokens_per_step = engine.tokens_per_step
        self._decodes_only = engine.role is ReplicaRole.DECODE
        self._joins = engine.role is ReplicaRole.BOTH
        self._is_mixing = engine.is_mixing
        self._has_prefixes = engine.has_prefix_cache
        self.waiting_sequences: deque[Sequence] = deque()
        self._filling_sequences: list[Sequence] = []
        self._filling_tokens = 0  # prompt tokens of `_filling`
        self._unfilled_tokens = 0  # those in no step so far, without tokens of the prefix cache
        self._running_sequences: dict[int, Sequence] = {}
        self._ends_heap: list[tuple[int, int, Sequence]] = []
        self._cache = PrefixCache(engine.block_tokens)
        self._shared_tokens = 0
        self._steps = 0
        # Steps under way: whether they hold prompts, start and duration of each in s, their number.
        self._action: tuple[bool, float, float, int] | None = None
        self._chunks: list[tuple[Sequence, int]] = []
        self._joined_sequences: list[Sequence] = []
        self._last_step = (0, 0)
        self._last_step_s = 0.0
        self._has_filled = False
        self.busy_s = 0.0
        self.outstanding_tokens = 0
        self.decodes: Counter[tuple[int, int]] = Counter()
        self.prefills: Counter[tuple[int, int, int]] = Counter()
        self.sequence_steps = 0
        self.preemptions = 0
        self.cached_tokens = 0

    @property
    def is_idle(self) -> bool:
        """True if no step is under way."""
        return self._action is None

    def add(self, sequence: Sequence) -> None:
        """Add a request to the queue."""
        self.waiting_sequences.append(sequence)
        self.outstanding_tokens += sequence.request.tokens

    # What happens next.

    def plan(self, now_s: float) -> tuple[float, list[Sequence]] | None:
        """Begin the next steps; return the time of their end and the sequences that begin.

        None without work.
        """
        is_turn = self.engine.is_alternating and self._has_filled and bool(self._running_sequences)
        new_sequences = self._admit() if self.waiting_sequences and not is_turn else []
        if self._filling_sequences:
            duration_s = self._fill()
            self._action = (True, now_s, duration_s, 1)
            self._has_filled = True
            return now_s + duration_s, new_sequences
        if not self._running_sequences:
            return None
        self._has_filled = False
        count, step = self._next_decodes(is_turn=is_turn)
        if step != self._last_step:
            self._last_step = step
            self._last_step_s = self._costs.decode(*step)
        self.decodes[step] += count
        self.sequence_steps += count * len(self._running_sequences)
        duration_s = self._last_step_s
        self._action = (False, now_s, duration_s, count)
        return now_s + count * duration_s, new_sequences

    def interrupt(self, now_s: float) -> float | None:
        """Cut the current decode steps short if a waiting request could begin; return the new end.

        None if they go on unchanged.
        """
        if self._action is None or not self.waiting_sequences or not self._has_slot(0):
            return None
        is_fill, start_s, duration_s, count = self._action
        if is_fill or not self._has_blocks_for(self.waiting_sequences[0]):
            return None
        steps = max(math.ceil((now_s - start_s) / duration_s), 1)
        if steps >= count:
            return None
        self.decodes[self._last_step] += steps - count
        self.sequence_steps += (steps - count) * len(self._running_sequences)
        self._action = (False, start_s, duration_s, steps)
        return start_s + steps * duration_s

    def complete(self, now_s: float) -> tuple[list[tuple[Sequence, float]], list[Sequence]]:
        """End the current steps.

        Returns:
            The sequences that got their first token, with its time in seconds, and the sequences
            that ended.
        """
        if self._action is None:
            raise InternalError("a replica ends a step that it did not begin")
        is_fill, start_s, duration_s, count = self._action
        self._action = None
        self.busy_s += count * duration_s
        first_tokens: list[tuple[Sequence, float]] = []
        if self._joined_sequences:
            first_tokens = [(sequence, start_s + duration_s) for sequence in self._joined_sequences]
            self._joined_sequences = []
        ended_sequences: list[Sequence] = []
        if self._running_sequences and (self._is_mixing or not is_fill):
            self._steps += count
            if self._ends_heap[0][0] <= self._steps:
                ended_sequences = self._ended_sequences()
        if is_fill:
            first_tokens += self._finish_prompts(now_s, ended_sequences)
        for sequence in ended_sequences:
            self.outstanding_tokens -= sequence.request.tokens
        return first_tokens, ended_sequences

    # Prompts.

    def _admit(self) -> list[Sequence]:
        """Begin waiting sequences while there is a slot and memory for them."""
        new_sequences: list[Sequence] = []
        while (
            self.waiting_sequences
            and self._has_slot(len(new_sequences))
            and self._has_blocks_for(self.waiting_sequences[0])
        ):
            sequence = self.waiting_sequences.popleft()
            new_sequences.append(sequence)
            if self._decodes_only:
                self._join(sequence)
                self._joined_sequences.append(sequence)
                continue
            if self._has_prefixes:
                sequence.filled_tokens = self._cache.take(sequence)
                self._shared_tokens += sequence.filled_tokens
                self.cached_tokens += sequence.filled_tokens
            self._filling_sequences.append(sequence)
            self._filling_tokens += sequence.prompt_tokens
            self._unfilled_tokens += sequence.prompt_tokens - sequence.filled_tokens
        return new_sequences

    @abstractmethod
    def _has_slot(self, new_count: int) -> bool:
        """True if the first waiting sequence may begin after `new_count` new ones in the step."""

    @abstractmethod
    def _has_blocks_for(self, sequence: Sequence) -> bool:
        """True if there are KV blocks for the prompt of a sequence."""

    @abstractmethod
    def _fill(self) -> float:
        """Compose the next step with prompts, as `_chunks`; return its seconds."""

    def _finish_prompts(
        self, now_s: float, ended_sequences: list[Sequence]
    ) -> list[tuple[Sequence, float]]:
        """Mark the chunks of a step as computed; return the finished prompts with `now_s`.

        Sequences that need no decode step on this replica are added to `ended_sequences`.
        """
        first_tokens: list[tuple[Sequence, float]] = []
        for sequence, tokens in self._chunks:
            sequence.filled_tokens += tokens
            if sequence.filled_tokens < sequence.prompt_tokens:
                continue
            self._filling_sequences.remove(sequence)
            self._filling_tokens -= sequence.prompt_tokens
            if self._has_prefixes:
                shared_before = sequence.shared_tokens
                self._cache.keep(sequence, self._room_for_cache())
                self._shared_tokens += sequence.shared_tokens - shared_before
            first_tokens.append((sequence, now_s))
            if sequence.decode_steps and self._joins:
                self._join(sequence)
            else:
                self._release(sequence)
                ended_sequences.append(sequence)
        self._chunks = []
        return first_tokens

    def _room_for_cache(self) -> float:
        """Tokens that the prefix cache may take."""
        return math.inf

    # Decodes.

    def _join(self, sequence: Sequence) -> None:
        """Add a sequence to the running ones."""
        sequence.base_tokens = sequence.prompt_tokens - self._tokens_per_step * self._steps
        sequence.end_step = self._steps + sequence.decode_steps
        sequence.is_running = True
        self._running_sequences[sequence.index] = sequence
        heappush(self._ends_heap, (sequence.end_step, sequence.index, sequence))

    def _leave(self, sequence: Sequence) -> None:
        """Remove a sequence from the running ones."""
        sequence.is_running = False
        del self._running_sequences[sequence.index]
        self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        if sequence.shared_tokens:
            self._shared_tokens -= sequence.shared_tokens
            self._cache.release(sequence)

    def _ended_sequences(self) -> list[Sequence]:
        """Remove and return the running sequences whose last step is done."""
        sequences: list[Sequence] = []
        heap = self._ends_heap
        while heap and heap[0][0] <= self._steps:
            end_step, _, sequence = heappop(heap)
            if sequence.is_running and sequence.end_step == end_step:
                self._leave(sequence)
                sequences.append(sequence)
        return sequences

    def _steps_to_an_end(self) -> int:
        """Number of steps until the next running sequence ends."""
        heap = self._ends_heap
        while True:
            end_step, _, sequence = heap[0]
            if sequence.is_running and sequence.end_step == end_step:
                return end_step - self._steps
            heappop(heap)

    @abstractmethod
    def _next_decodes(self, *, is_turn: bool) -> tuple[int, tuple[int, int]]:
        """The number of equal decode steps that come next, and their (batch, length).

        `is_turn` asks for one step only, between two prefills of an alternating engine.
        """
