"""Architectures without a formula: the part that none covers, and how to get part of the answer.

Source: modeling_*.py of transformers 5.23.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Gap:
    """An architecture without a formula.

    Attributes:
        reason: what no formula covers.
        fix: what gives a part of the answer; "" for nothing.
    """

    reason: str
    fix: str = ""


_MAMBA: Final = Gap(
    "each channel of Mamba 1 forgets each element of its state by a rate of its own"
)
_INDEXER: Final = "an indexer chooses the tokens to which a query attends"
_ALL_TOKENS: Final = (
    "for attention to all tokens, an upper bound of its time, write deepseek_v3; the indexer's "
    "weights, under 1 %, are then not counted"
)
GAPS: Final[dict[str, Gap]] = {
    **dict.fromkeys(("mamba", "falcon_mamba"), _MAMBA),
    "jamba": Gap(f"its mixers are those of Mamba 1: {_MAMBA.reason}"),
    **dict.fromkeys(("zamba", "zamba2"), Gap("layers share one attention, each with its adapters")),
    "deepseek_v32": Gap(_INDEXER, _ALL_TOKENS),
    "glm_moe_dsa": Gap(_INDEXER),
    "deepseek_v4": Gap("attention reads compressed keys and values"),
    **dict.fromkeys(
        ("gemma3n", "gemma3n_text"),
        Gap("each layer has an embedding table, and layers share keys and values"),
    ),
    **dict.fromkeys(
        ("gemma4", "gemma4_text"), Gap("layers of two head sizes share keys and values")
    ),
    "minimax": Gap("most of its layers have linear attention with a decay of each head"),
    "kimi_linear": Gap("its linear attention has a decay of each channel"),
    **dict.fromkeys(("lfm2", "lfm2_moe"), Gap("most of its layers are gated convolutions")),
    "recurrent_gemma": Gap("most of its layers are gated linear recurrences"),
    **dict.fromkeys(
        ("phi4mm", "phi4_multimodal"),
        Gap(
            "adapters (LoRA) of images and sounds change its layers",
            "for its texts alone write phi3; weights and time of what reads images or sounds are "
            "then not counted",
        ),
    ),
    "longcat_flash": Gap("some of its experts are no matrices, and layers have two attentions"),
    "bitnet": Gap("a norm precedes each output product, and weights have three values"),
}
"""Architectures by ``model_type``."""
