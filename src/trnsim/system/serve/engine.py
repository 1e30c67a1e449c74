"""Engine: the scheduling rules by which one replica forms steps from its requests.

There are two kinds of engine. A compiled engine (Neuron) has programs of fixed shapes: prompts and
decodes never share a step; prompts run first, by default one per step, while running sequences
wait; a step costs its compiled batch and bucket, not the live batch. A dynamic engine (vLLM on
GPUs) gives each running sequence a token and fills the rest of the step's token budget with chunks
of prompts; with chunked prefill off, prompts run first there, too.

Source: aws-neuron-sdk, libraries/nxd-inference/developer_guides/feature-guide.rst, Bucketing;
vllm-neuron/docs/design/vllm/neuron-scheduler.md; vLLM's documentation, Optimization and Tuning.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from trnsim.errors import BadInput

FIRST_BUCKET: Final = 128
"""Smallest automatic bucket, in tokens. Source: feature-guide.rst, Automatic Bucketing."""
GRANULE: Final = 64
"""Width, in tokens, of the ranges of mean length whose decode steps have one estimate."""

_LEADING_BITS: Final = 4
"""Significant bits to which sizes of mixed steps are rounded."""


class ReplicaRole(StrEnum):
    """The phases that a replica runs."""

    BOTH = "both"
    PREFILL = "prefill"
    """Prefill only; keys and values then go to a decode replica."""
    DECODE = "decode"
    """Decode only, the first token of the answer included. Source: vllm-neuron,
    disaggregated-inference.md."""


class StepCosts(Protocol):
    """Seconds of a replica's steps, by their shapes."""

    def prefill(self, prompts: int, tokens: int, past: int) -> float:
        """A step that computes `tokens` tokens of each of `prompts` prompts after `past` cached."""
        ...

    def decode(self, batch: int, length: int) -> float:
        """A step that gives `batch` sequences of `length` tokens their next token."""
        ...

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> float:
        """A step of both: prompts as in `prefill`, sequences as in `decode`."""
        ...


@dataclass(frozen=True)
class Engine:
    """The scheduling rules of a replica.

    Attributes:
        is_compiled: whether steps have compiled shapes (Neuron).
        max_num_seqs: sequences that decode together at most.
        max_model_len: tokens of the longest sequence.
        max_num_batched_tokens: tokens of one step at most; longer prompts take several.
        prompts_at_once: prompts of one prefill step at most.
        buckets: compiled lengths, ascending.
        batches: compiled batches of decode steps, ascending.
        block_tokens: tokens of a block of keys and values.
        blocks: blocks of keys and values that fit in a replica's memory.
        has_prefix_cache: whether keys and values of equal prefixes are kept.
        is_chunked: whether a step of a dynamic engine mixes decodes and chunks of prompts.
        draft_tokens: tokens drafted for each decode step of a sequence; 0 without speculation.
        acceptance: probability with which a drafted token is accepted.
        role: the phases that the replica runs.
        is_alternating: whether a compiled engine takes one decode step between two prefill steps,
            instead of all prefill steps first.
    """

    is_compiled: bool
    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int
    prompts_at_once: int
    buckets: tuple[int, ...]
    batches: tuple[int, ...]
    block_tokens: int
    blocks: int
    has_prefix_cache: bool = False
    is_chunked: bool = True
    draft_tokens: int = 0
    acceptance: float = 0.0
    role: ReplicaRole = ReplicaRole.BOTH
    is_alternating: bool = False

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens that a sequence gains in a decode step: ``(1 - a^(k+1)) / (1 - a)``.

        a: `acceptance`; k: `draft_tokens`. It is 1 without speculation.

        Source: Leviathan et al., arXiv:2211.17192, equation 1.
        """
        if not self.draft_tokens:
            return 1.0
        if self.acceptance == 1:
            return float(self.draft_tokens + 1)
        return (1 - self.acceptance ** (self.draft_tokens + 1)) / (1 - self.acceptance)

    @property
    def is_mixing(self) -> bool:
        """True if prompts and decodes share a step."""
        return self.is_chunked and not self.is_compiled

    @property
    def slot_blocks(self) -> int:
        """Blocks that a compiled engine reserves for each sequence."""
        return -(-self.max_model_len // self.block_tokens)

    def bucket(self, tokens: float) -> int:
        """The smallest bucket that holds `tokens`; the largest if none does."""
        index = bisect_left(self.buckets, tokens)
        return self.buckets[min(index, len(self.buckets) - 1)]

    def bucket_around(self, tokens: float) -> tuple[int, int]:
        """The next smaller bucket (or 0) and the bucket of `tokens`.

        Lengths above the first and up to the second have the same bucket.
        """
        index = min(bisect_left(self.buckets, tokens), len(self.buckets) - 1)
        return self.buckets[index - 1] if index else 0, self.buckets[index]

    def length(self, tokens: float) -> int:
        """The length for which a decode step is estimated.

        For a compiled engine it is the bucket of `tokens`, the longest sequence; for a dynamic
        engine the middle of the granule of `tokens`, the mean sequence.
        """
        if self.is_compiled:
            return self.bucket(tokens)
        return min(int(tokens // GRANULE) * GRANULE + GRANULE // 2, self.max_model_len)

    def batch(self, sequences: int) -> int:
        """The smallest compiled batch that holds `sequences`."""
        return self.batches[bisect_left(self.batches, sequences)]

    def prompts(self, count: int) -> int:
        """The compiled batch for `count` prompts: a power of two, at most `prompts_at_once`."""
        return min(1 << (count - 1).bit_length(), self.prompts_at_once)

    def segments(self, prompts: int, tokens: int, past: int) -> Iterator[tuple[int, int, int]]:
        """The prefill steps of a compiled engine, in order, as (prompts, bucket, past).

        Each of `prompts` prompts has `tokens` tokens to compute after `past` cached ones, in
        segments of at most `max_num_batched_tokens` tokens.
        """
        while tokens > 0:
            segment = min(tokens, self.max_num_batched_tokens)
            bucket = min(self.bucket(segment), max(self.max_num_batched_tokens, segment))
            yield prompts, bucket, self.bucket(past) if past else 0
            tokens -= segment
            past += segment

    def prompt_steps(self, tokens: int, cached: int = 0) -> list[tuple[int, int, int]]:
        """The prefill steps, as (prompts, tokens, past), of a prompt that is alone on a replica.

        `tokens` counts the prompt, its `cached` tokens included.
        """
        if self.is_compiled:
            return list(self.segments(1, tokens - cached, cached))
        most_tokens = self.max_num_batched_tokens
        starts = range(cached, tokens, most_tokens)
        return [
            (1, rounded_count(min(most_tokens, tokens - past)), rounded_count(past))
            for past in starts
        ]

    def steps(self, tokens: int, generator: np.random.Generator | None) -> int:
        """Number of decode steps until a sequence has `tokens` more tokens.

        With speculation the number of accepted drafts of each step is random, from `generator`.
        """
        if tokens <= 0 or generator is None or self.acceptance == 0:
            return max(tokens, 0)
        if self.acceptance == 1:
            return -(-tokens // (self.draft_tokens + 1))
        run = generator.geometric(1 - self.acceptance, tokens)
        totals = np.cumsum(np.minimum(run, self.draft_tokens + 1))
        return int(np.searchsorted(totals, tokens)) + 1


@cache
def rounded_count(count: int) -> int:
    """`count` rounded to the nearest number of four significant bits, at most a sixteenth off.

    It limits the number of shapes of mixed steps that are estimated.
    """
    step = 1 << max(count.bit_length() - _LEADING_BITS, 0)
    return (count + step // 2) // step * step


def powers_of_two(first: int, last: int) -> tuple[int, ...]:
    """Powers of two from `first` below `last`, and `last`."""
    powers = []
    power = first
    while power < last:
        powers.append(power)
        power *= 2
    return (*powers, last)


def checked_buckets(name: str, sizes: Sequence[int], last: int, subject: str) -> tuple[int, ...]:
    """`sizes` as compiled sizes, after a check that they ascend and hold `last`.

    Args:
        name: the option that errors cite.
        sizes: the user's sizes.
        last: the size that the largest has to hold.
        subject: words for what has the size `last`: "a batch".

    Raises:
        BadInput: `sizes` do not ascend from 1 or more, or the largest is below `last`.
    """
    is_ascending = all(low < high for low, high in pairwise(sizes))
    if not sizes or sizes[0] < 1 or not is_ascending:
        legal = ",".join(map(str, powers_of_two(min(FIRST_BUCKET, last), last)))
        raise BadInput(
            f"{name} is {','.join(map(str, sizes)) or 'empty'}; legal: ascending whole numbers",
            fix=f"{name} {legal}",
        )
    if sizes[-1] < last:
        raise BadInput(
            f"{name}: the largest of {','.join(map(str, sizes))} does not hold {subject} of {last}",
            fix=f"{name} {','.join(map(str, (*sizes, last)))}",
        )
    return tuple(sizes)
