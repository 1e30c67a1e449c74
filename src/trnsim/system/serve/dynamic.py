"""A replica of a dynamic engine: continuous batching with chunked prefill and paged KV memory."""

from __future__ import annotations

import math

from trnsim.system.serve.engine import GRANULE, Engine, StepCosts, rounded_count
from trnsim.system.serve.replica import Replica
from trnsim.system.serve.sequence import Sequence


class DynamicReplica(Replica):
    """A replica whose steps cost the live batch, and whose sequences share a pool of KV blocks."""

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        super().__init__(engine, costs)
        self._base_tokens = 0.0
        self._most_tokens = engine.max_num_batched_tokens
        self._decode_tokens = 1 + engine.draft_tokens if engine.is_chunked else 0

    # Prompts.

    def _has_slot(self, new_count: int) -> bool:
        del new_count
        live_count = len(self._running_sequences)
        if live_count + len(self._filling_sequences) >= self.engine.max_num_seqs:
            return False
        return self._decodes_only or self._unfilled_tokens < self._prompt_budget(live_count)

    def _prompt_budget(self, live_count: int) -> int:
        """Tokens that a step with `live_count` running sequences leaves for prompts."""
        return self._most_tokens - live_count * self._decode_tokens

    def _fill(self) -> float:
        """Seconds of one step with chunks of prompts.

        With chunked prefill each running sequence decodes in the same step.
        """
        budget = max(self._prompt_budget(len(self._running_sequences)), 1)
        self._chunks = chunks = []
        computed_tokens = past = 0
        for sequence in self._filling_sequences:
            tokens = min(sequence.prompt_tokens - sequence.filled_tokens, budget)
            if tokens <= 0:
                break
            chunks.append((sequence, tokens))
            budget -= tokens
            computed_tokens += tokens
            past += sequence.filled_tokens
        self._unfilled_tokens -= computed_tokens
        count = len(chunks)
        tokens, past = rounded_count(-(-computed_tokens // count)), rounded_count(past // count)
        if not (self._is_mixing and self._running_sequences):
            self.prefills[count, tokens, past] += 1
            return self._costs.prefill(count, tokens, past)
        self._make_room(1)
        batch, length = len(self._running_sequences), self.engine.length(self._mean_tokens())
        self.sequence_steps += batch
        self.decodes[batch, length] += 1
        return self._costs.mixed(count, tokens, past, rounded_count(batch), rounded_count(length))

    # Decodes.

    def _join(self, sequence: Sequence) -> None:
        super()._join(sequence)
        self._base_tokens += sequence.base_tokens

    def _leave(self, sequence: Sequence) -> None:
        self._base_tokens -= sequence.base_tokens
        super()._leave(sequence)
        if not self._running_sequences:
            self._base_tokens = 0.0

    def _next_decodes(self, *, is_turn: bool) -> tuple[int, tuple[int, int]]:
        count = 1 if is_turn else self._make_room(self._steps_to_an_end())
        mean = self._mean_tokens()
        if count > 1:
            tokens_to_granule = (mean // GRANULE + 1) * GRANULE - mean
            count = min(count, max(math.ceil(tokens_to_granule / self._tokens_per_step), 1))
        return count, (len(self._running_sequences), self.engine.length(mean))

    def _mean_tokens(self) -> float:
        return (
            self._base_tokens / len(self._running_sequences) + self._tokens_per_step * self._steps
        )

    # Memory.

    def _tokens_in_blocks(self) -> float:
        """Tokens in KV blocks: running sequences, prompts in prefill and cached prefixes."""
        running_tokens = self._base_tokens + self._tokens_per_step * self._steps * len(
            self._running_sequences
        )
        return running_tokens + self._filling_tokens - self._shared_tokens + self._cache.tokens

    def _used_blocks(self, steps: int) -> int:
        """Exact number of KV blocks in use after `steps` more decode steps."""
        block, generated_tokens = (
            self.engine.block_tokens,
            self._tokens_per_step * (self._steps + steps),
        )
        running_blocks = sum(
            math.ceil((sequence.base_tokens + generated_tokens - sequence.shared_tokens) / block)
            for sequence in self._running_sequences.values()
        )
        prompts = [
            sequence.prompt_tokens - sequence.shared_tokens for sequence in self._filling_sequences
        ]
        prompt_blocks = sum(-(-tokens // block) for tokens in prompts)
        return running_blocks + prompt_blocks + self._cache.tokens // block

    def _has_blocks_for(self, sequence: Sequence) -> bool:
        """True if KV blocks hold the prompt, after unused prefixes are evicted where needed.

        An upper bound of the blocks in use is tried first, the exact number only if it fails.
        """
        engine = self.engine
        block, tokens = engine.block_tokens, sequence.prompt_tokens + 1
        count = len(self._running_sequences) + len(self._filling_sequences) + 1
        if (self._tokens_in_blocks() + tokens) / block + count <= engine.blocks:
            return True
        missing_blocks = self._used_blocks(0) + -(-tokens // block) - engine.blocks
        return missing_blocks <= 0 or self._cache.evict(missing_blocks * block)

    def _make_room(self, count: int) -> int:
        """Number of the next decode steps, up to `count`, that free blocks suffice for.

        Prefixes are evicted, then sequences preempted, until they suffice for at least one step.
        """
        engine = self.engine
        while True:
            live_count = len(self._running_sequences)
            sequences = live_count + len(self._filling_sequences)
            free_tokens = (
                engine.blocks - sequences
            ) * engine.block_tokens - self._tokens_in_blocks()
            safe_steps = int(free_tokens / (live_count * self._tokens_per_step))
            if safe_steps >= 1:
                return min(count, safe_steps)
            missing_blocks = self._used_blocks(1) - engine.blocks
            if (
                missing_blocks <= 0
                or self._cache.evict(missing_blocks * engine.block_tokens)
                or live_count == 1
            ):
                return 1
            self._preempt()

    def _preempt(self) -> None:
        """Requeue the sequence that joined last; its answer so far becomes part of its prompt.

        Source: vLLM's documentation, Optimization and Tuning, Preemption: recomputed in V1.
        """
        sequence = next(reversed(self._running_sequences.values()))
        tokens = sequence.base_tokens + self._tokens_per_step * self._steps
        sequence.decode_steps = (
            sequence.end_step - self._steps - 1
        )  # its second prefill gives a token, too
        self._leave(sequence)
        sequence.prompt_tokens = int(tokens)
        sequence.filled_tokens = 0
        self.waiting_sequences.appendleft(sequence)
        self.preemptions += 1
