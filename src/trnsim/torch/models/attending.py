"""Attention of transformers' models as one operator, without a mask where none is needed.

transformers calls registered functions for attention and for its mask. Its own mask for PyTorch's
attention is computed in the graph by comparisons of positions. The mask here is a bias of the
scores: zero where a key is visible, the lowest number where not. Causality is an attribute of
the operator.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from trnsim.torch.models.config import transformers

MASKED_NAME: Final = "trnsim"
"""transformers' name of the attention whose mask `mask_bias` computes."""
UNMASKED_NAME: Final = "trnsim_causal"
"""transformers' name of the attention without a mask function, for which it computes no mask.

With a mask function, transformers looks for several sequences packed in one row of tokens; while it
traces, it cannot see whether there are any, and computes a mask between them.
"""


def register() -> None:
    """Register `attend` and `mask_bias` with transformers."""
    for name in (MASKED_NAME, UNMASKED_NAME):
        transformers().AttentionInterface.register(name, attend)
    transformers().AttentionMaskInterface.register(MASKED_NAME, mask_bias)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of [B, heads, L, E] to [B, KV heads, S, E]: [B, L, heads, E].

    A group of query heads shares one head of keys and values. With a single query the heads of a
    group are the rows of one matrix; with more, keys and values are repeated for each head.
    """
    del options
    has_causal_mask = getattr(module, "is_causal", True) if is_causal is None else is_causal
    has_causal_mask = bool(has_causal_mask) and query.shape[2] > 1 and attention_mask is None
    groups = query.shape[1] // key.shape[1]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if groups > 1 and query.shape[2] == 1 and attention_mask is None:
        packed_query = query.reshape(query.shape[0], key.shape[1], groups, query.shape[-1])
        result = _fused_attention(packed_query, key, value, None, scale, is_causal=False)
        return result.reshape(query.shape[0], 1, query.shape[1], value.shape[-1]), None
    if groups > 1:
        key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
    result = _fused_attention(query, key, value, attention_mask, scale, is_causal=has_causal_mask)
    return result.transpose(1, 2), None


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, *, is_causal: bool
) -> Tensor:
    operator: Any = torch.ops.aten._scaled_dot_product_fused_attention_overrideable  # noqa: SLF001  PyTorch's name
    result: Tensor = operator(query, key, value, bias, 0.0, is_causal, scale=scale)[0]
    return result


class FusedAttention(TorchFunctionMode):
    """A mode that replaces PyTorch's attention by the fused operator of the device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call any other function unchanged."""
        del types
        options = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return _pytorch_attention(*args, **options)
        return func(*args, **options)


def _pytorch_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`functional.scaled_dot_product_attention` without dropout, by the fused operator."""
    del dropout_p
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (tensor.repeat_interleave(groups, -3) for tensor in (key, value))
    shapes = [tensor.shape[:-2] for tensor in (query, key, value)]
    batch: tuple[int, ...] = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    query, key, value = (
        tensor if tensor.shape[:-2] == batch else tensor.expand(*batch, *tensor.shape[-2:])
        for tensor in (query, key, value)
    )
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        lowest = torch.finfo(query.dtype).min
        attn_mask = torch.where(attn_mask, 0.0, lowest).to(query.dtype)
    own_scale = query.shape[-1] ** -0.5 if scale is None else scale
    return _fused_attention(query, key, value, attn_mask, own_scale, is_causal=is_causal)


def mask_bias(
    *,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    mask_function: Any = None,
    **options: Any,
) -> Tensor | None:
    """The bias of the scores, [B, 1, 1, S] or [B, 1, L, S], or None if no key is hidden.

    `attention_mask` [B, S] is 1, and 0 for padding. Masks of other forms, such as a sliding
    window, are computed by transformers.
    """
    masking = transformers().masking_utils
    lowest = torch.finfo(dtype).min
    if mask_function is masking.bidirectional_mask_function and attention_mask is not None:
        return (1.0 - attention_mask.to(dtype)[:, None, None, :]) * lowest
    plain_masks = (masking.causal_mask_function, masking.bidirectional_mask_function)
    if attention_mask is None and mask_function in plain_masks:
        return None
    options |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    visibility: Tensor = masking.sdpa_mask(
        attention_mask=attention_mask, mask_function=mask_function, dtype=dtype, **options
    )
    return torch.where(visibility, 0.0, lowest).to(dtype)
