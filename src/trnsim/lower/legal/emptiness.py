"""Operations that read what has no elements, as what is left of them."""

from __future__ import annotations

from typing import Final

from trnsim.graph import Node, Operation, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import Convolution, DotGeneral
from trnsim.graph.ops.layout import Concatenate, DynamicUpdateSlice, Pad
from trnsim.graph.ops.lookup import Scatter
from trnsim.graph.ops.reductions import Reduce, neutral

_LEFT: Final = (Concatenate, Convolution, DotGeneral, DynamicUpdateSlice, Pad, Reduce, Scatter)


def is_partly_empty(node: Node) -> bool:
    """Whether it reads or gives what has no elements, and is known without."""
    if gives_nothing(node):
        return True
    # A scatter by indices of no dimensions puts something all the same.
    read = node.values[:1] if isinstance(node.operation, Scatter) else node.values
    is_empty = any(not value.type.elements for value in read)
    return is_empty and isinstance(node.operation, _LEFT)


def gives_nothing(node: Node) -> bool:
    """Whether it has results, none of which has elements."""
    return bool(node.results) and not any(value.type.elements for value in node.results)


def what_is_left(b: Build, node: Node, given: list[Value]) -> Value:
    """The result of an operation on tensors, one of which has no elements.

    Where nothing is put, the operand stays; over nothing, a sum is 0.
    """
    op: Operation = node.operation
    if isinstance(op, Concatenate):
        return b.graph.concatenate([one for one in given if one.type.elements], op.dim)
    if isinstance(op, Scatter) and len(given) == len(Scatter.operands):
        return given[-1]
    if isinstance(op, DynamicUpdateSlice):
        return given[0]
    wanted, number = node.result.type, 0.0
    if isinstance(op, Reduce):
        number = neutral(op.op, wanted.numpy_dtype())
    elif isinstance(op, Pad):
        number = op.number
    return b.filled(number, wanted)
