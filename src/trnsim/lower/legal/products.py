"""Products of operands whose formats the Tensor Engine does not multiply with each other.

It takes two operands in float32, or two in narrower formats.
"""

from __future__ import annotations

from typing import Final

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.lower.rules import legal

_PRECISE: Final = "float32"


def _have_one_precision(node: Node) -> bool:
    """True if both operands are float32, or neither is."""
    lhs, rhs = node.values
    return (lhs.dtype == _PRECISE) == (rhs.dtype == _PRECISE)


@legal(DotGeneral, unless=_have_one_precision, name="product_in_float32")
def dot_general(b: Build, op: DotGeneral, lhs: Value, rhs: Value) -> Value:
    """The narrower operand is converted to float32, which changes no element."""
    return b.graph.apply(op, *in_multiplied_formats(b, lhs, rhs), dtype=b.result_types[0].dtype)


def in_multiplied_formats(b: Build, lhs: Value, rhs: Value) -> tuple[Value, Value]:
    """Both operands converted to float32 if one of them is float32; else unchanged."""
    if (lhs.dtype == _PRECISE) == (rhs.dtype == _PRECISE):
        return lhs, rhs
    return b.convert(lhs, _PRECISE), b.convert(rhs, _PRECISE)
