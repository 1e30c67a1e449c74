"""The operators that PyTorch's attention and encoder modules call outside training, composed.

`nn.MultiheadAttention` and `nn.TransformerEncoderLayer` in evaluation mode, without gradients, are
one operator each, on the device as on the CPU. Here they are linear layers, norms and attention.
The values are PyTorch's: pytorch aten/src/ATen/native/transformers/attention.cpp
(native_multi_head_attention_cpu) and transformer.cpp (transformer_encoder_layer_forward).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional

from trnsim.torch import pytorch
from trnsim.torch.pytorch import Library

if TYPE_CHECKING:
    from torch import Tensor

_KEY_MASK: Final = 1  # nn.MultiheadAttention.merge_masks: 0 has all pairs [T, S], 2 each head's


def register(library: Library) -> None:
    """Register the kernels of this file, for eager calls and for graphs."""
    for name, function in _COMPOSITE_KERNELS.items():
        library.impl(name, function, "PrivateUse1")
        pytorch.composite_kernels[pytorch.overload(f"aten::{name}")] = function


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """aten::_native_multi_head_attention: the results [B, T, D], and the weights if needed."""

    def heads(tensor: Tensor, part: int) -> Tensor:
        rows = slice(part * embed_dim, (part + 1) * embed_dim)
        return split(functional.linear(tensor, qkv_weight[rows], qkv_bias[rows]))

    def split(tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:-1], num_head, -1).transpose(1, 2)

    if query is key and key is value:
        projections = functional.linear(query, qkv_weight, qkv_bias)
        q, k, v = (split(part) for part in projections.chunk(3, -1))
    else:
        q, k, v = heads(query, 0), heads(key, 1), heads(value, 2)
    if mask is None and not need_weights:
        context, weights = functional.scaled_dot_product_attention(q, k, v), None
    else:
        scores = torch.matmul(q / math.sqrt(q.shape[-1]), k.transpose(-2, -1))
        if mask is not None:
            scores = scores.masked_fill(_broadcast(mask.bool(), mask_type), -math.inf)
        probabilities = scores.softmax(-1)
        context = torch.matmul(probabilities, v)
        if need_weights and average_attn_weights:
            probabilities = probabilities.sum(1) / num_head
        weights = probabilities if need_weights else None
    joined_heads = context.transpose(1, 2).flatten(2)
    return functional.linear(joined_heads, proj_weight, proj_bias), weights


def _broadcast(mask: Tensor, mask_type: int | None) -> Tensor:
    """A mask of hidden pairs, hidden keys [B, S], or each head, beside scores [B, H, T, S]."""
    return mask[:, None, None, :] if mask_type == _KEY_MASK else mask


def encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """aten::_transformer_encoder_layer_fwd: [B, T, D]."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    x = norm(src, norm_weight_1, norm_bias_1) if norm_first else src
    projections = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    attention_output, _ = multi_head_attention(
        x, x, x, embed_dim, num_heads, *projections, mask, need_weights=False, mask_type=mask_type
    )
    x = attention_output + src
    if not norm_first:
        x = norm(x, norm_weight_1, norm_bias_1)
    hidden_states = norm(x, norm_weight_2, norm_bias_2) if norm_first else x
    hidden_states = functional.linear(hidden_states, ffn_weight_1, ffn_bias_1)
    hidden_states = functional.gelu(hidden_states) if use_gelu else functional.relu(hidden_states)
    x = functional.linear(hidden_states, ffn_weight_2, ffn_bias_2) + x
    return x if norm_first else norm(x, norm_weight_2, norm_bias_2)


_COMPOSITE_KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
}
