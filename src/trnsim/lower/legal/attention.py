"""Attention in the form for which there are instructions.

Instructions (`trnsim.lower.emit.attending`) take operands of one format, subtract the maximum
before they scale, and mask the keys after a query's own position, and before a window that ends
there. Other windows and query offsets become a bias; queries are scaled first if the scale is not
positive; attention with capped scores becomes products and elementwise operations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from trnsim.errors import InternalError
from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import Attention, AttentionBackward, AttentionBase
from trnsim.lower.rules import legal

_Attending = TypeVar("_Attending", bound=AttentionBase)
_MASKED_SCORE: Final = -3.0e38
"""A score whose exponential is 0 beside any other."""


def _is_usual(node: Node) -> bool:
    """True for a plain mask, operands of one type, a positive scale, and scores without a cap."""
    operation = node.operation
    if not isinstance(operation, AttentionBase):
        raise InternalError(f"{node.name} is no attention")
    is_of_one_type = len({value.dtype for value in node.values[: _matrix_count(operation)]}) == 1
    has_cap = isinstance(operation, Attention) and operation.cap
    has_plain_mask = _has_plain_mask(operation, *node.values[:2])
    return has_plain_mask and operation.scale > 0 and is_of_one_type and not has_cap


def _has_plain_mask(operation: AttentionBase, query: Value, key: Value) -> bool:
    """True if the mask hides no key, or those after the query's own position or before its window.

    Each query must see its own key. A larger scale would make masked scores, of which a stretch of
    keys may have no others, infinite.
    """
    is_at_key = (operation.first, operation.apart) == (0, 1)
    has_own_key = query.shape[-2] <= key.shape[-2]
    can_end_before = isinstance(operation, Attention) and operation.is_causal and has_own_key
    return is_at_key and (not operation.window or (can_end_before and operation.scale <= 1.0))


def _matrix_count(operation: AttentionBase) -> int:
    """The number of operands that are matrices of heads: Q, K, V, and gradient and result."""
    return 5 if isinstance(operation, AttentionBackward) else 3


@legal(Attention, unless=_is_usual, name="usual_attention")
def attention(b: Build, op: Attention, *operands: Value) -> tuple[Value, ...]:
    """Masks of windows are a bias, queries are scaled before, capped scores are spelled out."""
    usual, sides = _usual_form(b, op, operands)
    return _spell_out(b, usual, *sides) if op.cap else b.graph.apply_to_all(usual, sides)


@legal(AttentionBackward, unless=_is_usual, name="usual_attention_backward")
def attention_backward(b: Build, op: AttentionBackward, *operands: Value) -> tuple[Value, ...]:
    """Masks of windows are a bias, the gradient of queries that are scaled before is scaled."""
    usual, sides = _usual_form(b, op, operands)
    to_query, *others = b.graph.apply_to_all(usual, sides)
    if usual.scale != op.scale:
        to_query = b.ew("multiply", to_query, op.scale)
    pairs = zip((to_query, *others), operands[:3], strict=True)
    return tuple(b.convert(value, like.dtype) for value, like in pairs)


def _usual_form(
    b: Build, op: _Attending, operands: tuple[Value, ...]
) -> tuple[_Attending, tuple[Value, ...]]:
    """The operation with a plain mask and a positive scale, and its operands."""
    number = _matrix_count(op)
    query, *sides = (b.convert(value, operands[0].dtype) for value in operands[:number])
    has_logs = isinstance(op, AttentionBackward)
    logs, bias = operands[number : number + has_logs], operands[number + has_logs :]
    is_capped_and_causal = isinstance(op, Attention) and op.cap and op.is_causal
    if is_capped_and_causal or not _has_plain_mask(op, *operands[:2]):
        bias = (_mask(b, op, query, sides[0], bias),)
        op = replace(op, is_causal=False, first=0, apart=1, window=0)
    if op.scale <= 0:
        query, op = b.ew("multiply", query, op.scale), replace(op, scale=1.0)
    return op, (query, *sides, *logs, *bias)


def _mask(b: Build, op: AttentionBase, query: Value, key: Value, bias: tuple[Value, ...]) -> Value:
    """The bias that masks keys, added to the given bias: [*B, L, S]."""
    shape = query.shape[-2], key.shape[-2]
    query_positions = b.ew("multiply", b.graph.iota(shape, 0), float(op.apart), dtype="int32")
    after = b.ew("subtract", b.graph.iota(shape, 1), query_positions, dtype="int32")
    after = b.convert(b.ew("subtract", after, float(op.first), dtype="int32"), "float32")
    limits: list[tuple[str, float]] = [("GT", 0.0)] if op.is_causal else []
    if op.window and op.is_causal:
        limits.append(("LE", float(-op.window)))
    elif op.window:
        limits += [("GE", op.window / 2), ("LE", -op.window / 2)]
    mask = b.filled(0.0, after.type)
    for direction, limit in limits:
        is_hidden = b.ew("compare", after, limit, dtype="bool", direction=direction)
        mask = b.ew("select", is_hidden, _MASKED_SCORE, mask, dtype="float32")
    mask_of_heads = b.broadcast(mask, (*query.shape[:-1], shape[1]))
    return b.ew("add", mask_of_heads, *bias, dtype="float32") if bias else mask_of_heads


def _spell_out(
    b: Build, op: Attention, query: Value, key: Value, value: Value, *bias: Value
) -> tuple[Value, Value]:
    """Attention as products, capped scores, a softmax and products."""
    last = len(query.shape) - 1
    scores = b.graph.dot_general(query, key, (last, last), "float32")
    capped = b.ew("tanh", b.ew("multiply", scores, op.scale / op.cap))
    scores = b.total((b.ew("multiply", capped, op.cap), *bias), "float32")
    largest = b.reduce("maximum", scores, (last,), keeps_dims=True)
    powers = b.ew("exponential", b.ew("subtract", scores, largest))
    total = b.reduce("add", powers, (last,), keeps_dims=True)
    weights = b.convert(b.ew("divide", powers, total), query.dtype)
    logs = b.ew("add", b.ew("log", total), largest)
    result = b.graph.dot_general(weights, value, (last, last - 1), query.dtype)
    return result, b.graph.reshape(logs, query.shape[:-1])
