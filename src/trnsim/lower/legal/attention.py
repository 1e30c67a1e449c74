"""Attention under masks that kernels do not know: windows, and queries that stand further on."""

from __future__ import annotations

from typing import Final

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import Attending, Attention, AttentionBackward
from trnsim.lower.rules import legal

_HIDDEN: Final = -3.0e38
"""A score whose exponential is 0 beside any other."""


def _has_plain_mask(node: Node) -> bool:
    """Whether all keys are seen, or those up to the query's own number."""
    op = node.operation
    return isinstance(op, Attending) and (op.first, op.apart, op.window) == (0, 1, 0)


def _mask(b: Build, op: Attending, query: Value, key: Value, bias: tuple[Value, ...]) -> Value:
    """What is added to the scores: [*B, L, S]."""
    shape = query.shape[-2], key.shape[-2]
    stands = b.ew("multiply", b.graph.iota(shape, 0), float(op.apart), dtype="int32")
    after = b.ew("subtract", b.graph.iota(shape, 1), stands, dtype="int32")
    after = b.convert(b.ew("subtract", after, float(op.first), dtype="int32"), "float32")
    limits: list[tuple[str, float]] = [("GT", 0.0)] if op.is_causal else []
    if op.window and op.is_causal:
        limits.append(("LE", float(-op.window)))
    elif op.window:
        limits += [("GE", op.window / 2), ("LE", -op.window / 2)]
    hidden = b.filled(0.0, after.type)
    for direction, limit in limits:
        is_hidden = b.ew("compare", after, limit, dtype="bool", direction=direction)
        hidden = b.ew("select", is_hidden, _HIDDEN, hidden, dtype="float32")
    wide = b.spread(hidden, (*query.shape[:-1], shape[1]))
    return b.ew("add", wide, *bias, dtype="float32") if bias else wide


@legal(Attention, unless=_has_plain_mask, name="mask")
def attention(
    b: Build, op: Attention, query: Value, key: Value, value: Value, *bias: Value
) -> tuple[Value, ...]:
    """Windows, and queries that stand further on, are a bias."""
    mask = _mask(b, op, query, key, bias)
    return b.graph.apply_to_all(Attention(op.scale), (query, key, value, mask))


@legal(AttentionBackward, unless=_has_plain_mask, name="mask_backward")
def attention_backward(b: Build, op: AttentionBackward, *given: Value) -> tuple[Value, ...]:
    """Those of the gradient of attention are a bias."""
    first, bias = given[:6], given[6:]
    mask = _mask(b, op, given[0], given[1], bias)
    return b.graph.apply_to_all(AttentionBackward(op.scale), (*first, mask))
