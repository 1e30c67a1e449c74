"""Sizes of a mixer: a layer whose tokens read one state of fixed size instead of earlier tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Mixer:
    """A recurrence of heads, each with a state S [state, head_dim], which queries read: ``S^T q``.

    At each token ``S = a S + k v^T``, or by the delta rule ``S = a S + b k (v - a S^T k)^T``.
    Source: Mamba 2 (arXiv:2405.21060), section 6; gated delta networks (arXiv:2412.06464), section
    3.

    Attributes:
        heads: heads of values, each with a state.
        groups: heads of keys and queries, each of which serves ``heads / groups`` heads.
        state: elements of a key and of a query.
        head_dim: elements of a value.
        taps: tokens of the causal convolution of keys, queries and values, the own one included.
        chunk: tokens that are multiplied at once in prompts and training.
        is_delta: whether a token replaces the value that its key recalls, by the delta rule.
        has_taps_bias: whether the convolution has a bias.
        has_biases: whether the projections have biases.
        output_biases: elements of the output's bias.
        norm: place of the norm before the output: "gated" after the gate, "plain" before the gate,
            "" for none; with the delta rule always of each head, before the gate.
        epsilon: epsilon of the norm.
        activation: name of the convolution's activation in transformers.
        least_step: lower bound of a step's length.
        most_step: upper bound of a step's length.
        state_bits: bits of an element of a kept state.
    """

    heads: int
    groups: int
    state: int
    head_dim: int
    taps: int
    chunk: int
    is_delta: bool = False
    has_taps_bias: bool = False
    has_biases: bool = False
    output_biases: int = 0
    norm: str = "gated"
    epsilon: float = 1e-6
    activation: str = "silu"
    least_step: float = 0.0
    most_step: float = math.inf
    state_bits: float = 32

    is_causal: Final = True
    is_cross: Final = False
    window: Final = 0
    has_slopes: Final = False

    @property
    def width(self) -> int:
        """Elements of a token's values."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolution: values, keys and queries of a token."""
        return self.width + 2 * self.groups * self.state

    @property
    def state_elements(self) -> int:
        """Elements of a sequence's state."""
        return self.heads * self.state * self.head_dim

    def divides(self, ranks: int) -> bool:
        """True if tensor ranks have equal parts of the heads, and of the groups or one group."""
        whole = self.groups % ranks == 0 or ranks % self.groups == 0
        return self.heads % ranks == 0 and whole
