"""An engine: the rules by which one replica makes steps of the requests that wait for it.

Two kinds. A compiled one (Neuron) has programs of fixed shapes: prompts and decodes never share a
step, prompts go first, one a step, so that each stalls the tokens of all others, and a step costs
the compiled batch and bucket, not the live one. A dynamic one (vLLM on GPUs) gives each running
sequence its token and fills a budget of tokens with chunks of prompts; without chunks, prompts go
first there, too.

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
"""Least of the automatic buckets, in tokens. Source: feature-guide.rst, Automatic Bucketing."""
GRANULE: Final = 64
"""Tokens by which the mean length of a dynamic batch moves before its step is priced anew."""

_LEADING_BITS: Final = 4


class ReplicaRole(StrEnum):
    """The phases that a replica runs."""

    BOTH = "both"
    PREFILL = "prefill"
    """Prompts alone; keys and values then go to a replica that decodes."""
    DECODE = "decode"
    """All tokens of the answer, the first too. Source: vllm-neuron, disaggregated-inference.md."""


class StepCosts(Protocol):
    """Seconds of a replica's steps."""

    def prefill(self, prompts: int, tokens: int, past: int) -> float:
        """A step of `prompts` prompts of `tokens` tokens, each behind `past` cached ones."""
        ...

    def decode(self, batch: int, length: int) -> float:
        """A step that gives `batch` sequences of `length` tokens their next token."""
        ...

    def mixed(self, prompts: int, tokens: int, past: int, batch: int, length: int) -> float:
        """A step of prompts and decodes together."""
        ...


@dataclass(frozen=True)
class Engine:
    """The rules by which a replica schedules.

    Attributes:
        is_compiled: whether steps have compiled shapes.
        max_num_seqs: sequences that decode together at most.
        max_model_len: tokens of the longest sequence.
        max_num_batched_tokens: tokens of one step at most; longer prompts take several.
        prompts_at_once: prompts of one prefill step at most.
        buckets: compiled lengths, ascending.
        batches: compiled batches of decode steps, ascending.
        block_tokens: tokens of a block of keys and values.
        blocks: blocks of a replica's memory.
        has_prefix_cache: whether keys and values of equal prefixes are kept.
        is_chunked: whether a step of a dynamic engine mixes decodes and chunks of prompts.
        draft_tokens: tokens that are drafted for each step; 0 without speculation.
        acceptance: probability with which a drafted token is accepted.
        role: what the replica does.
        is_alternating: whether running sequences take a step between two prompts of a compiled
            engine, so that each of them waits for every prompt that comes while it runs.
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
    def growth(self) -> float:
        """Mean tokens of a sequence's step: ``(1 - a^(k+1)) / (1 - a)``.

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
        """Blocks that a compiled engine keeps for each sequence."""
        return -(-self.max_model_len // self.block_tokens)

    def bucket(self, tokens: float) -> int:
        """The smallest bucket that holds `tokens`; the largest if none does."""
        place = bisect_left(self.buckets, tokens)
        return self.buckets[min(place, len(self.buckets) - 1)]

    def bucket_around(self, tokens: float) -> tuple[int, int]:
        """The bucket of `tokens`, behind the one below it: all lengths between have that bucket."""
        place = min(bisect_left(self.buckets, tokens), len(self.buckets) - 1)
        return self.buckets[place - 1] if place else 0, self.buckets[place]

    def length(self, tokens: float) -> int:
        """The length for which a decode step of sequences of `tokens` tokens is estimated.

        A compiled engine uses the bucket of the longest sequence, a dynamic one the middle of a
        granule.
        """
        if self.is_compiled:
            return self.bucket(tokens)
        return min(int(tokens // GRANULE) * GRANULE + GRANULE // 2, self.max_model_len)

    def batch(self, sequences: int) -> int:
        """The smallest compiled batch that holds `sequences`."""
        return self.batches[bisect_left(self.batches, sequences)]

    def prompts(self, count: int) -> int:
        """The compiled number of prompts that holds `count`: a power of two, or all at once."""
        return min(1 << (count - 1).bit_length(), self.prompts_at_once)

    def segments(self, prompts: int, tokens: int, past: int) -> Iterator[tuple[int, int, int]]:
        """The compiled steps of prompts of `tokens` tokens behind `past`: (prompts, bucket, past).

        One after another, each of at most `max_num_batched_tokens` tokens.
        """
        while tokens > 0:
            segment = min(tokens, self.max_num_batched_tokens)
            bucket = min(self.bucket(segment), max(self.max_num_batched_tokens, segment))
            yield prompts, bucket, self.bucket(past) if past else 0
            tokens -= segment
            past += segment

    def prompt_steps(self, tokens: int, cached: int = 0) -> list[tuple[int, int, int]]:
        """The steps of a prompt that has a replica to itself: (prompts, tokens, past)."""
        if self.is_compiled:
            return list(self.segments(1, tokens - cached, cached))
        most = self.max_num_batched_tokens
        starts = range(cached, tokens, most)
        return [
            (1, rounded_count(min(most, tokens - past)), rounded_count(past)) for past in starts
        ]

    def steps(self, tokens: int, generator: np.random.Generator | None) -> int:
        """Decode steps until a sequence has `tokens` more tokens; accepted drafts are drawn."""
        if tokens <= 0 or generator is None or self.acceptance == 0:
            return max(tokens, 0)
        if self.acceptance == 1:
            return -(-tokens // (self.draft_tokens + 1))
        run = generator.geometric(1 - self.acceptance, tokens)
        totals = np.cumsum(np.minimum(run, self.draft_tokens + 1))
        return int(np.searchsorted(totals, tokens)) + 1


@cache
def rounded_count(count: int) -> int:
    """`count` rounded to four significant bits: at most a sixteenth off, without bias.

    Steps that mix prompts and decodes have too many shapes to estimate each.
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


def checked_buckets(name: str, sizes: Sequence[int], last: int, held: str) -> tuple[int, ...]:
    """`sizes` as compiled sizes, the largest of which has to hold `last`.

    `name` is the option that errors cite, `held` is the thing of that size, in words.

    Raises:
        BadInput: they do not ascend from 1, or the largest does not hold `last`.
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
            f"{name}: the largest of {','.join(map(str, sizes))} does not hold {held} of {last}",
            fix=f"{name} {','.join(map(str, (*sizes, last)))}",
        )
    return tuple(sizes)
