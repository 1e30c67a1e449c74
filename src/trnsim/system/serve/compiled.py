"""A replica of a compiled engine: prompts go first, and a step costs its compiled shape."""

from __future__ import annotations

from heapq import heappop, heappush

from trnsim.system.serve.engine import Engine, StepCosts
from trnsim.system.serve.replica import Replica
from trnsim.system.serve.sequence import Sequence


class CompiledReplica(Replica):
    """A replica whose steps have compiled batches and buckets."""

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        super().__init__(engine, costs)
        self._longest_heap: list[tuple[float, int, Sequence]] = []

    def _has_place(self, begun: int) -> bool:
        engine = self.engine
        if len(self._running) + len(self._filling) >= engine.max_num_seqs:
            return False
        return self._decodes_only or (begun < engine.prompts_at_once and self._fits_in_step())

    def _has_blocks_for(self, sequence: Sequence) -> bool:
        del sequence
        return True  # each of `max_num_seqs` has its own

    def _fits_in_step(self) -> bool:
        """True if the next prompt fits in a compiled step with the chosen ones."""
        if not self._filling:
            return True
        filling = [*self._filling, self.waiting[0]]
        longest = self.engine.bucket(max(sequence.prompt - sequence.filled for sequence in filling))
        prompts = self.engine.prompts(len(filling))
        return prompts * longest <= self.engine.max_num_batched_tokens

    def _fill(self) -> float:
        """Seconds of all segments of the chosen prompts, one after another."""
        engine, chosen = self.engine, self._filling
        self._chunks = [(sequence, sequence.prompt - sequence.filled) for sequence in chosen]
        left = max([tokens for _, tokens in self._chunks])
        past = max([sequence.filled for sequence in chosen])
        self._left_tokens = 0
        duration_s = 0.0
        for step in engine.segments(engine.prompts(len(chosen)), left, past):
            self.prefills[step] += 1
            duration_s += self._costs.prefill(*step)
        return duration_s

    def _room_for_cache(self) -> float:
        engine = self.engine
        left = engine.blocks - engine.max_num_seqs * engine.slot_blocks
        return left * engine.block_tokens - self._cache.tokens

    def _join(self, sequence: Sequence) -> None:
        super()._join(sequence)
        heappush(self._longest_heap, (-sequence.base, sequence.place, sequence))

    def _next_decodes(self, *, is_turn: bool) -> tuple[int, tuple[int, int]]:
        longest = self._longest_keys()
        bucket = self.engine.bucket(longest)
        step = self.engine.batch(len(self._running)), bucket
        if is_turn:
            return 1, step
        more = max(int((bucket - longest) / self._growth) + 1, 1)
        return min(self._steps_to_an_end(), more), step

    def _longest_keys(self) -> float:
        """Keys that the longest sequence attends to in the next step."""
        heap = self._longest_heap
        while not heap[0][2].is_running:
            heappop(heap)
        return self._growth * self._steps - heap[0][0] + 1 + self.engine.draft_tokens
