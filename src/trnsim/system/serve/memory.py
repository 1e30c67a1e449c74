"""Device memory of a serving rank: weights, KV cache, and activations of a step.

    KV blocks = (memory x utilization - weights - draft - activations - states) / bytes of a block

A block has the keys and values of the model and of its draft, which vLLM keeps in one pool. States
are the states of mixers, for all sequences that may run at once. The rest of the memory, ``1 -
utilization``, is left for runtime, code and fragmentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.errors import OutOfMemory
from trnsim.formatting import amount
from trnsim.system.serve.options import ServerOptions
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.resident import cache_bytes, state_bytes, weights_bytes

_GIB: Final = 2**30
_ON_CHIP: Final = ("scores", "values")
"""Names of the matrix products of attention whose results a tiled kernel keeps on the chip."""


@dataclass(frozen=True)
class RankMemory:
    """Use of the device memory of one rank.

    Attributes:
        utilization: the fraction of the memory that the server may use.
        draft_bytes: parameters of the draft model.
        activations_bytes: inputs and results of the largest matrix product of a step.
        sequence_bytes: keys and values of a sequence of `longest` tokens, and its states, of the
            model and of its draft.
        longest: tokens of the longest sequence.
        state_bytes: the part of `sequence_bytes` that is the same for all lengths: states.
    """

    total_bytes: float
    utilization: float
    weights_bytes: float
    draft_bytes: float
    activations_bytes: float
    sequence_bytes: float
    longest: int
    state_bytes: float = 0.0

    @property
    def free_bytes(self) -> float:
        """Bytes left for keys, values and states."""
        fixed_bytes = self.weights_bytes + self.draft_bytes + self.activations_bytes
        return self.total_bytes * self.utilization - fixed_bytes

    @property
    def _token_bytes(self) -> float:
        return (self.sequence_bytes - self.state_bytes) / self.longest

    def prompt_bytes(self, tokens: int) -> float:
        """Bytes of keys and values of a sequence of `tokens` tokens, and of its states."""
        return self.state_bytes + self._token_bytes * tokens

    def blocks(self, block_tokens: int, sequences: int) -> int:
        """KV blocks of `block_tokens` tokens that fit beside the states of `sequences` sequences.

        Without keys and values, as many as sequences of the longest length need.
        """
        free_bytes = self.free_bytes - sequences * self.state_bytes
        if not self._token_bytes:
            return sequences * -(-self.longest // block_tokens)
        return max(int(free_bytes / (self._token_bytes * block_tokens)), 0)

    def check(self, sequences: int, rank: str, model: str, running_sequences: int = 0) -> None:
        """Refuse a server whose `sequences` sequences of the longest length do not fit.

        Args:
            sequences: number of sequences.
            rank: the machine's word for a rank, for the error.
            model: name of the model, for the error.
            running_sequences: sequences that may run at once, whose states fit; 0 for `sequences`.

        Raises:
            OutOfMemory: lists the bytes of each part.
        """
        running_sequences = running_sequences or sequences
        state_bytes = running_sequences * self.state_bytes
        kv_bytes = sequences * (self.sequence_bytes - self.state_bytes)
        if kv_bytes + state_bytes <= self.free_bytes:
            return
        parts = {
            "weights": self.weights_bytes,
            "draft": self.draft_bytes,
            f"keys and values of {sequences} x {self.longest} tokens": kv_bytes,
            f"states of {running_sequences} sequences": state_bytes,
            "activations": self.activations_bytes,
        }
        part_list = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size)
        is_weights = self.free_bytes <= 0
        raise OutOfMemory(
            f"{model}: a {rank} needs {_gib(sum(parts.values()))} of HBM: {part_list}; it has "
            f"{_gib(self.total_bytes)}, of which {self.utilization:.0%} may be used",
            fix="use more ranks or fewer bits a weight: --tensor-parallel-size, a larger type, or "
            "one with EFA and --pipeline-parallel-size; --quantization"
            if is_weights
            else "lower --max-num-seqs or --max-model-len, or use --kv-cache-dtype fp8 or more "
            "ranks",
        )


def _gib(size: float) -> str:
    return f"{amount(size / _GIB)} GiB"


def activations_bytes(model: Architecture, split: Split, tokens: int) -> float:
    """Bytes of inputs and results of the largest matrix product of a prefill of `tokens` tokens."""
    step = Pass(Phase.PREFILL, 1, tokens)
    products = (
        product
        for summary in summaries(model, step, split)
        for product in summary.products
        if product.name not in _ON_CHIP
    )
    largest_elements = max((product.activation_elements for product in products), default=0.0)
    return largest_elements * model.other_bits / 8


def rank_memory(
    model: Architecture, total_bytes: float, options: ServerOptions, split: Split, step_tokens: int
) -> RankMemory:
    """Use of a rank's device memory.

    A draft head has the parameters of a mean layer, and the keys and values of the layer that keeps
    most of them.

    Args:
        model: the served model.
        total_bytes: the rank's memory.
        options: the server's options.
        split: the model's split over ranks.
        step_tokens: most tokens of a prefill step.
    """
    longest = options.max_model_len or 1
    weights, draft = weights_bytes(model, split), 0.0
    sequence, states = cache_bytes(model, longest, split), state_bytes(model, split)
    served_draft = options.served_draft
    if served_draft is not None:
        draft = weights_bytes(served_draft, split)
        sequence += cache_bytes(served_draft, longest, split)
        states += state_bytes(served_draft, split)
    elif options.draft_tokens:
        draft = weights / model.depth
        sequence += _head_cache_bytes(model, longest, split)
    return RankMemory(
        total_bytes,
        options.utilization,
        weights / options.stages,
        draft / options.stages,
        activations_bytes(model, split, step_tokens),
        sequence / options.stages,
        longest,
        states / options.stages,
    )


def _head_cache_bytes(model: Architecture, tokens: int, split: Split) -> float:
    """Keys and values of `tokens` tokens in the layer of a model that keeps most."""
    step = Pass(Phase.DECODE, 1, 1, tokens - 1)
    return max(
        part.cache.kept_bytes - part.cache.replaced_bytes for part in summaries(model, step, split)
    )
