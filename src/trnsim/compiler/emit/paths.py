"""Views between a value and the shape in which it is computed."""

from __future__ import annotations

from trnsim.compiler.emit.placed import Placed
from trnsim.graph import Node
from trnsim.graph.ops.layout import Reshape, Transpose

Path = tuple[Node, ...]
"""Reshapes and transposes from a value to the shape that is computed, the first one first."""


def is_passed(node: Node) -> bool:
    """Whether operations below a view are computed in the shape above it."""
    return isinstance(node.operation, Reshape | Transpose)


def along(path: Path, placed: Placed) -> Placed | None:
    """A place in the shape that views lead to, if steps can say it."""
    found: Placed | None = placed
    for node in path:
        if found is not None and isinstance(node.operation, Transpose):
            found = found.transposed(node.operation.permutation)
        elif found is not None:
            found = found.reshaped(node.result.shape)
    return found


def back(node: Node, placed: Placed) -> Placed | None:
    """A place of a view's result as a place of its operand."""
    if isinstance(node.operation, Transpose):
        order = node.operation.permutation
        return placed.transposed([order.index(dim) for dim in range(len(order))])
    return placed.reshaped(node.values[0].shape)
