"""Operations with operands or results of no elements."""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import AttentionBackward, Convolution, DotGeneral
from trnsim.graph.ops.layout import Concatenate, DynamicUpdateSlice, Pad
from trnsim.graph.ops.lookup import Scatter
from trnsim.graph.ops.reductions import Reduce, SelectAndScatter, neutral
from trnsim.graph.patterns import form_of
from trnsim.graph.rewriting import ANY, Pattern
from trnsim.lower.rules import legal_pattern

_MAY_GIVE_ELEMENTS: Final = (
    Concatenate,
    Convolution,
    DotGeneral,
    DynamicUpdateSlice,
    Pad,
    Reduce,
    Scatter,
    SelectAndScatter,
)
"""Operations that may have elements in their results though an operand has none."""


def gives_nothing(node: Node) -> bool:
    """True if a node has results, and none has elements."""
    return bool(node.results) and not any(value.type.elements for value in node.results)


def _zeros(b: Build, op: Any, *operands: Any) -> tuple[Value, ...]:
    """Zeros as results, which have no elements or are gradients of nothing."""
    del op, operands
    return tuple(b.filled(0.0, result) for result in b.result_types)


def _reads_nothing(node: Node) -> bool:
    # A scatter whose index vectors are empty still writes its update.
    read = node.values[:1] if isinstance(node.operation, Scatter) else node.values
    return any(not value.type.elements for value in read)


def _result_without_empty_operands(b: Build, op: Any, *operands: Value) -> Value:
    """The result of an operation that reads an empty operand: its other operands, or a constant."""
    if isinstance(op, Concatenate):
        return b.graph.concatenate(
            [operand for operand in operands if operand.type.elements], op.dim
        )
    if isinstance(op, Scatter) and len(operands) == len(Scatter.operands):
        return operands[-1]
    if isinstance(op, DynamicUpdateSlice):
        return operands[0]
    (result_type,) = b.result_types
    number = op.number if isinstance(op, Pad) else 0.0
    if isinstance(op, Reduce):
        number = neutral(op.op, result_type.numpy_dtype())
    return b.filled(number, result_type)


EMPTINESS: Final[tuple[Pattern, ...]] = (
    legal_pattern("gives nothing", ANY, _zeros, lambda match: gives_nothing(match.node)),
    legal_pattern(
        "reads nothing",
        form_of(_MAY_GIVE_ELEMENTS),
        _result_without_empty_operands,
        lambda match: _reads_nothing(match.node),
    ),
    legal_pattern(  # without values or gradients of results
        "gradients of nothing",
        form_of(AttentionBackward),
        _zeros,
        lambda match: not all(value.type.elements for value in match.node.values[2:4]),
    ),
)
"""Patterns for tensors without elements, which are tried before all others."""
