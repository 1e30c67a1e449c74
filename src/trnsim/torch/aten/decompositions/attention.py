"""Attention as one operation, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from trnsim.dtypes import as_dtype, float_range
from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.graph.types import BOOL
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

_HIDDEN_SCORE: Final = -1e30
"""A score whose exponential is 0 beside any other."""


def _hidden_score(dtype: str) -> float:
    """The bias of a key that a mask hides, in a format.

    It is finite, as NeuronCore-v2 transposes by products, which make NaN of infinities.
    """
    return max(_HIDDEN_SCORE, -float_range(as_dtype(dtype)).largest)


def _options(query: Value, dropout: float, scale: float | None, *, is_causal: bool) -> Any:
    if dropout:
        raise Unlowered("attention with dropout")
    factor = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return {"scale": factor, "is_causal": bool(is_causal)}


def _with_bias(b: Build, values: list[Value], bias: Value | None) -> list[Value]:
    """Operands, followed by the bias of each head if there is any."""
    if bias is None:
        return values
    query, key = values[:2]
    return [*values, b.broadcast(bias, (*query.shape[:-1], key.shape[-2]))]


def attention(
    b: Build,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    debug: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Value, ...]:
    """``softmax(scale * Q @ K.T + bias) @ V``, and the log-sum-exp of each query's scores."""
    del debug
    options = _options(query, dropout, scale, is_causal=is_causal)
    operands = _with_bias(b, [query, key, value], bias)
    return b.graph.apply_to_all(Attention(**options), operands)


def scaled_dot_product_attention(
    b: Build,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Attention of an exported program: a mask may be boolean, heads may share keys.

    PyTorch leaves the result of a query that sees no key undefined.
    """
    if attn_mask is not None and attn_mask.dtype == BOOL:
        attn_mask = b.ew("select", attn_mask, 0.0, _hidden_score(query.dtype), dtype=query.dtype)
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        query, key, value, attn_mask = _grouped(b, query, key, value, attn_mask)
    batch = np.broadcast_shapes(*(operand.shape[:-2] for operand in (query, key, value)))
    query, key, value = (
        b.broadcast(operand, (*batch, *operand.shape[-2:])) for operand in (query, key, value)
    )
    output = attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
    return b.graph.reshape(output, (*b.result_types[0].shape[:-1], value.shape[-1]))


def _grouped(
    b: Build, query: Value, key: Value, value: Value, mask: Value | None
) -> tuple[Value, Value, Value, Value | None]:
    """Heads as [KV heads, query heads per KV head], so that keys and values are not copied."""
    *batch, heads, length, width = query.shape
    kv_heads = key.shape[-3]
    group = heads // kv_heads
    query = b.graph.reshape(query, (*batch, kv_heads, group, length, width))
    key, value = (
        b.graph.reshape(operand, (*operand.shape[:-2], 1, *operand.shape[-2:]))
        for operand in (key, value)
    )
    if mask is not None:
        mask = b.broadcast(mask, (*batch, heads, *mask.shape[-2:]))
        mask = b.graph.reshape(mask, (*batch, kv_heads, group, *mask.shape[-2:]))
    return query, key, value, mask


def attention_backward(
    b: Build,
    grad: Value,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None,
    mask: Sequence[bool],
    out: Value,
    logarithms: Value,
    *lengths_and_options: Any,
    scale: float | None = None,
) -> tuple[Value, ...]:
    """Gradients of queries, keys and values; the scores are recomputed."""
    if bias is not None and mask[3]:
        raise Unlowered("the gradient of attention's bias")
    dropout, is_causal = lengths_and_options[4:6]  # after two lengths and their maxima
    options = _options(query, dropout, scale, is_causal=is_causal)
    operands = [query, key, value, grad, out, logarithms]
    return b.graph.apply_to_all(AttentionBackward(**options), _with_bias(b, operands, bias))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "_scaled_dot_product_fused_attention_overrideable": attention,
    "_scaled_dot_product_fused_attention_overrideable_backward": attention_backward,
}
