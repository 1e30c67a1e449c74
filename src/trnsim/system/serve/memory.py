"""Device memory of a serving rank: weights, KV cache, and activations of a step.

    KV blocks = (memory x utilization - weights - draft - activations) / bytes of a block

The rest of the memory, ``1 - utilization``, is left for runtime, code and fragmentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.errors import OutOfMemory
from trnsim.formatting import amount
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

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
        sequence_bytes: keys and values of a sequence of `longest` tokens.
        longest: tokens of the longest sequence.
    """

    total_bytes: float
    utilization: float
    weights_bytes: float
    draft_bytes: float
    activations_bytes: float
    sequence_bytes: float
    longest: int

    @property
    def free_bytes(self) -> float:
        """Bytes left for keys and values."""
        used = self.weights_bytes + self.draft_bytes + self.activations_bytes
        return self.total_bytes * self.utilization - used

    def blocks(self, block_tokens: int) -> int:
        """Number of KV blocks of `block_tokens` tokens that fit."""
        block_bytes = self.sequence_bytes / self.longest * block_tokens
        return max(int(self.free_bytes / block_bytes), 0)

    def check(self, sequences: int, rank: str, model: str) -> None:
        """Refuse a server whose `sequences` sequences of the longest length do not fit.

        Args:
            sequences: number of sequences.
            rank: the machine's word for a rank, for the error.
            model: name of the model, for the error.

        Raises:
            OutOfMemory: lists the bytes of each part.
        """
        kv_bytes = sequences * self.sequence_bytes
        if kv_bytes <= self.free_bytes:
            return
        parts = {
            "weights": self.weights_bytes,
            "draft": self.draft_bytes,
            f"keys and values of {sequences} x {self.longest} tokens": kv_bytes,
            "activations": self.activations_bytes,
        }
        listed = ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size)
        is_weights = self.free_bytes <= 0
        raise OutOfMemory(
            f"{model}: a {rank} needs {_gib(sum(parts.values()))} of HBM: {listed}; it has "
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
    largest = max((product.activation_elements for product in products), default=0.0)
    return largest * model.other_bits / 8
