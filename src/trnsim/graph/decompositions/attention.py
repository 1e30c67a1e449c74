"""Attention as one operation, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.decompositions.build import Build, Decomposition, Unlowered
from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.graph.types import BOOL


def _options(query: Value, dropout: float, scale: float | None, *, is_causal: bool) -> Any:
    if dropout:
        raise Unlowered("attention with dropout")
    found = query.shape[-1] ** -0.5 if scale is None else float(scale)
    return {"scale": found, "is_causal": bool(is_causal)}


def _with_bias(b: Build, values: list[Value], bias: Value | None) -> list[Value]:
    """Operands, with the bias of each head last where there is one."""
    if bias is None:
        return values
    query, key = values[:2]
    return [*values, b.spread(bias, (*query.shape[:-1], key.shape[-2]))]


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
    """``softmax(scale * Q @ K.T + bias) @ V``, and the logarithm of each query's sum."""
    del debug
    options = _options(query, dropout, scale, is_causal=is_causal)
    operands = _with_bias(b, [query, key, value], bias)
    return b.graph.apply_to_all(Attention(**options), operands)


def scaled_dot_product_attention(
    b: Build,
    query: Value,
    key: Value,
    value: Value,
    bias: Value | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """``softmax(scale * Q @ K.T + bias) @ V``; of fewer keys' heads each serves its neighbours."""
    heads, shared = query.shape[-3] if len(query.shape) > 2 else 1, key.shape[-3:-2]  # noqa: PLR2004  a head dimension
    if bias is not None and bias.dtype == BOOL:
        seen = b.spread(bias, (*query.shape[:-1], key.shape[-2]))
        bias = b.graph.elementwise("select", seen, 0.0, float("-inf"), dtype="float32")
    options = _options(query, dropout, scale, is_causal=is_causal)
    if not enable_gqa or shared == (heads,):
        operands = _with_bias(b, [query, key, value], bias)
        return b.graph.apply_to_all(Attention(**options), operands)[0]
    group = heads // shared[0]
    outer = query.shape[:-3]
    if bias is not None:
        bias = b.spread(bias, (*query.shape[:-1], key.shape[-2]))
        bias = b.graph.reshape(bias, (*outer, *shared, group, *bias.shape[-2:]))
    rank = len(outer) + 4
    dims = [dim for dim in range(rank) if dim != rank - 3]
    grouped = b.graph.reshape(query, (*outer, *shared, group, *query.shape[-2:]))
    repeated = [
        b.graph.broadcast_in_dim(one, (*outer, *shared, group, *one.shape[-2:]), dims)
        for one in (key, value)
    ]
    operands = _with_bias(b, [grouped, *repeated], bias)
    result = b.graph.apply_to_all(Attention(**options), operands)[0]
    return b.graph.reshape(result, (*query.shape[:-1], value.shape[-1]))


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
    *others: Any,
    scale: float | None = None,
) -> tuple[Value, ...]:
    """The gradients of queries, keys and values; the scores are computed again."""
    if bias is not None and mask[3]:
        raise Unlowered("the gradient of attention's bias")
    dropout, is_causal = others[4], others[5]  # after two lengths and their maxima
    options = _options(query, dropout, scale, is_causal=is_causal)
    operands = [query, key, value, grad, out, logarithms]
    return b.graph.apply_to_all(AttentionBackward(**options), _with_bias(b, operands, bias))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "_scaled_dot_product_fused_attention_overrideable": attention,
    "_scaled_dot_product_fused_attention_overrideable_backward": attention_backward,
}
