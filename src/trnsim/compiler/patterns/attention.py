"""Recognition of attention: products, a softmax and products become one operation.

A model without its framework's fused attention computes all scores, their maxima, exponentials and
sums one after another. As one operation, scores stay on the chip.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

from trnsim.graph import Node, Value
from trnsim.graph.ops.arithmetic import Add, Divide, Multiply, Subtract
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.functions import Exponential
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import Chain, Either, Form, Number, Op, TensorForm, form_of, number_of
from trnsim.graph.rewriting import Match, Pattern


def _keeps_rows(node: Node) -> bool:
    """True for a conversion of floats, or a reshape that keeps their last two dimensions."""
    if not isinstance(node.operation, Convert | Reshape):
        return False
    (operand,) = node.values
    return operand.shape[-2:] == node.result.shape[-2:] and operand.type.is_floating


def _repeats(node: Node) -> bool:
    """True for a reshape, or for a broadcast whose copies of an element are neighbours.

    Such a broadcast repeats only dimensions after the last one that is longer than 1.
    """
    operation = node.operation
    if isinstance(operation, BroadcastInDim):
        shape = node.values[0].shape
        end = max((dim + 1 for dim, length in enumerate(shape) if length > 1), default=0)
        is_first = tuple(operation.dims) == tuple(range(len(shape)))
        return is_first and node.result.shape[:end] == shape[:end]
    return isinstance(operation, Reshape)


def _reduces_rows(op: str, node: Node, read: Value) -> bool:
    """True if a node reduces the last dimension of its operand with `op`.

    `read` is the result after it was repeated along the rows; it must have the operand's shape.
    """
    operation: Any = node.operation
    (rows,) = node.values
    is_last = tuple(operation.dims) == (len(rows.shape) - 1,)
    return operation.op == op and is_last and rows.shape == read.shape


def _is_of_one_format(node: Node, read: Value) -> bool:
    """True if all tensor operands of a node have one element type; `where` also passes `read`."""
    del read
    return len({value.dtype for value in node.values}) == 1


_single_reader_form = partial(form_of, readers=1, skips=_keeps_rows)
"""The form of an operation with one reader; nodes that leave its rows as they are are skipped."""


def _row_reduction(op: str, form: Form) -> Op:
    """The form of a reduction of each row with `op`, repeated to the length of the row."""
    return form_of(Reduce, form, readers=1, skips=_repeats, where=partial(_reduces_rows, op))


_PRODUCTS = _single_reader_form(DotGeneral, TensorForm("query"), TensorForm("key"), name="products")
_SCALED = Chain(
    _single_reader_form((Multiply, Divide), TensorForm(), Number()), _PRODUCTS, "scaled"
)
_SCORES = Either(
    (
        _SCALED,
        _single_reader_form(
            Add,
            TensorForm(form=_SCALED),
            TensorForm("bias"),
            where=_is_of_one_format,
            is_commutative=True,
        ),
    )
)
_POWERS = _single_reader_form(
    Exponential,
    _single_reader_form(
        Subtract,
        TensorForm("scores", _SCORES, readers=2),
        _row_reduction("maximum", TensorForm("scores")),
    ),
    name="powers",
)
_SOFTMAX = _single_reader_form(
    Divide, TensorForm(form=_POWERS, readers=2), _row_reduction("add", TensorForm("powers"))
)


def _scale(match: Match) -> float:
    """The factor of the products of query and key."""
    scale = 1.0
    for value in reversed(match.captured["scaled"]):
        step = match.producers.nodes[value.number]
        number = number_of(match.producers.nodes, step.operands[1]) or 0.0
        scale *= number if isinstance(step.operation, Multiply) or not number else 1 / number
    return scale


def _is_attention(match: Match) -> bool:
    """True if the matched operations are an attention.

    The products contract the width of queries and keys, and the keys of scores and values. Query,
    key and value have the same floating-point type and elements, and each key has a value.
    """
    products = match.operation("products")
    # `contracting` is the contracted dimension of each operand. `_attention` brings keys to
    # [..., keys, width] and values to [..., keys, width of a value].
    last: Any = match.node.operation
    query, key, value = (match[name] for name in ("query", "key", "value"))
    rank, width = len(query.shape), query.shape[-1]
    keys = key.shape[-1 - (products.contracting[1] != rank - 2)]
    return (
        last.contracting == (len(match.node.result.shape) - 1, len(match.node.result.shape) - 2)
        and products.contracting[0] == rank - 1
        and value.shape[-2] == keys
        and all(tensor.type.elements for tensor in (query, key, value))
        and value.type.elements == key.type.elements // width * value.shape[-1]
        and len({query.dtype, key.dtype, value.dtype}) == 1
        and query.type.is_floating
        and 0 < _scale(match) < inf
    )


def _attention(match: Match) -> Value:
    """The attention operation, in the shape and format of the last products."""
    graph, query, key, result = match.graph, match["query"], match["key"], match.node.result
    products = match.operation("products")
    rank = len(key.shape)
    if products.contracting[1] == rank - 2:
        key = graph.transpose(key, (*range(rank - 2), rank - 1, rank - 2))
    value = graph.reshape(match["value"], (*key.shape[:-1], match["value"].shape[-1]))
    bias = []
    if "bias" in match.captured:
        bias = [graph.reshape(match["bias"], (*query.shape[:-1], key.shape[-2]))]
    attention, _ = graph.apply_to_all(Attention(_scale(match)), [query, key, value, *bias])
    attention = graph.reshape(attention, result.shape)
    return graph.elementwise("convert", attention, dtype=result.dtype)


ATTENTION = Pattern(
    "attention",
    "products, a softmax and products are one operation",
    before=form_of(DotGeneral, TensorForm(form=_SOFTMAX), TensorForm("value")),
    when=_is_attention,
    after=_attention,
)
