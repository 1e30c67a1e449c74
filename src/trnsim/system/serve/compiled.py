"""A replica of a compiled engine: prompts run before decodes, and a step costs its padded shape."""

from __future__ import annotations

from heapq import heappop, heappush

from trnsim.system.serve.engine import Engine, StepCosts
from trnsim.system.serve.replica import Replica
from trnsim.system.serve.sequence import Sequence


class CompiledReplica(Replica):
    """A replica whose steps are padded to compiled batches and buckets.

    Every sequence has blocks for the longest length, reserved when the server starts.
    """

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        super().__init__(engine, costs)
        self._most_sequences = engine.max_num_seqs
        self._prompts_at_once = engine.prompts_at_once
        self._longest_heap: list[tuple[float, int, Sequence]] = []
        self._segments: dict[tuple[int, int, int], tuple[list[tuple[int, int, int]], float]] = {}
        self._batches: dict[int, int] = {}
        self._draft_tokens = engine.draft_tokens
        self._shorter_bucket, self._bucket = -1, -1

    def _has_slot(self, new_count: int) -> bool:
        if len(self._running_sequences) + len(self._filling_sequences) >= self._most_sequences:
            return False
        return self._decodes_only or (new_count < self._prompts_at_once and self._fits_in_step())

    def _has_blocks_for(self, sequence: Sequence) -> bool:
        del sequence
        return True  # each of `max_num_seqs` sequences has reserved blocks

    def _fits_in_step(self) -> bool:
        """True if the next prompt fits in a compiled step with the prompts already admitted."""
        if not self._filling_sequences:
            return True
        sequences = [*self._filling_sequences, self.waiting_sequences[0]]
        longest = self.engine.bucket(
            max(sequence.prompt_tokens - sequence.filled_tokens for sequence in sequences)
        )
        prompts = self.engine.prompts(len(sequences))
        return prompts * longest <= self.engine.max_num_batched_tokens

    def _fill(self) -> float:
        """Seconds of the prefill of all admitted prompts: their segments, one after another."""
        sequences = self._filling_sequences
        self._chunks = chunks = [
            (sequence, sequence.prompt_tokens - sequence.filled_tokens) for sequence in sequences
        ]
        self._unfilled_tokens = 0
        if len(sequences) == 1:
            key = 1, chunks[0][1], sequences[0].filled_tokens
        else:
            longest = max([tokens for _, tokens in chunks])
            key = len(sequences), longest, max([sequence.filled_tokens for sequence in sequences])
        segments = self._segments.get(key)
        if segments is None:
            segments = self._segments[key] = self._priced_segments(*key)
        steps, duration_s = segments
        for step in steps:
            self.prefills[step] += 1
        return duration_s

    def _priced_segments(
        self, count: int, longest: int, past: int
    ) -> tuple[list[tuple[int, int, int]], float]:
        """The prefill steps of a batch of prompts as (prompts, bucket, past), and their seconds.

        Args:
            count: prompts.
            longest: tokens to compute of the prompt that has the most.
            past: maximum tokens of a prompt that are already cached.
        """
        engine = self.engine
        steps = list(engine.segments(engine.prompts(count), longest, past))
        return steps, sum([self._costs.prefill(*step) for step in steps])

    def _room_for_cache(self) -> float:
        engine = self.engine
        free_blocks = engine.blocks - engine.max_num_seqs * engine.slot_blocks
        return free_blocks * engine.block_tokens - self._cache.tokens

    def _join(self, sequence: Sequence) -> None:
        super()._join(sequence)
        heappush(self._longest_heap, (-sequence.base_tokens, sequence.index, sequence))

    def _next_decodes(self, *, is_turn: bool) -> tuple[int, tuple[int, int]]:
        longest, live_count = self._longest_keys(), len(self._running_sequences)
        if not self._shorter_bucket < longest <= self._bucket:
            self._shorter_bucket, self._bucket = self.engine.bucket_around(longest)
        batch = self._batches.get(live_count)
        if batch is None:
            batch = self._batches[live_count] = self.engine.batch(live_count)
        step = batch, self._bucket
        if is_turn:
            return 1, step
        to_next_bucket = int((self._bucket - longest) / self._tokens_per_step) + 1
        return min(self._steps_to_an_end(), max(to_next_bucket, 1)), step

    def _longest_keys(self) -> float:
        """Keys that the longest running sequence attends to in the next step."""
        heap = self._longest_heap
        while not heap[0][2].is_running:
            heappop(heap)
        return self._tokens_per_step * self._steps - heap[0][0] + 1 + self._draft_tokens
