"""Rules of experts: their choice for a token, and gates of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Routing:
    """The choice of experts from a router's scores, and the weights of their outputs.

    Attributes:
        function: "softmax" or "logistic" over all scores, or "chosen", a softmax over the chosen
            ones.
        is_normed: whether the weights of the chosen experts are divided by their sum.
        factor: factor of the weights.
        is_corrected: whether a correction for each expert is added to the scores for the choice
            alone; else a bias of the router is part of its scores.
        groups: groups of experts, of which each token uses some.
        scores_per_group: number of a group's best scores whose sum ranks it.

    Source: of groups, DeepSeek-V3 (arXiv:2412.19437), section 2.1.2.
    """

    function: str = "softmax"
    is_normed: bool = True
    factor: float = 1.0
    is_corrected: bool = False
    groups: int = 1
    groups_per_token: int = 1
    scores_per_group: int = 2


PLAIN_ROUTING: Final = Routing()


@dataclass(frozen=True)
class ClampedGate:
    """``(up + 1) gate logistic(alpha gate)``, with the gate bounded above and up on both sides.

    Attributes:
        limit: the bound.

    Source: gpt-oss model card (arXiv:2508.10925), section 2.2; transformers 5.23,
    modeling_gpt_oss.py, GptOssExperts._apply_gate.
    """

    alpha: float
    limit: float
