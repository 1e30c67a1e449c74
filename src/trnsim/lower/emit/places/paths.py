"""Views applied to places: reshapes, transposes, broadcasts and slices give a place new strides."""

from __future__ import annotations

from trnsim.graph import Node
from trnsim.graph.ops.layout import BroadcastInDim, Reshape, Slice, Transpose
from trnsim.graph.ops.leaves import Constant, Iota, Rng
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.emit.places.tensor_place import TensorPlace

Path = tuple[Node, ...]
"""The reshapes and transposes, in order, that lead from a value to the shape of a computation."""


def is_passed(node: Node) -> bool:
    """True for a reshape or a transpose, for which a computation reads the operand instead."""
    return isinstance(node.operation, Reshape | Transpose)


def follow(path: Path, place: TensorPlace) -> TensorPlace | None:
    """The place that a path of views makes of `place`; None if no strides describe it."""
    current: TensorPlace | None = place
    for node in path:
        if current is not None and isinstance(node.operation, Transpose):
            current = current.transposed(node.operation.permutation)
        elif current is not None:
            current = current.reshaped(node.result.shape)
    return current


def invert_view(node: Node, place: TensorPlace) -> TensorPlace | None:
    """The place of a view's operand, from a place of its result; None if no strides describe it."""
    if isinstance(node.operation, Transpose):
        order = node.operation.permutation
        return place.transposed([order.index(dim) for dim in range(len(order))])
    return place.reshaped(node.values[0].shape)


def apply_view(node: Node, source: TensorPlace) -> TensorPlace | None:
    """The place of a view's result, from a place of its operand; None if no strides describe it."""
    operation = node.operation
    if isinstance(operation, Reshape):
        return source.reshaped(operation.shape)
    if isinstance(operation, Transpose):
        return source.transposed(operation.permutation)
    if isinstance(operation, BroadcastInDim):
        return source.repeated(operation.shape, operation.dims)
    if isinstance(operation, Slice):
        return source.sliced(operation.shape, operation.starts, operation.strides)
    return None


def is_view(node: Node) -> bool:
    """True if a node's result has its operand's elements, with other strides."""
    return isinstance(node.operation, Reshape | Transpose | BroadcastInDim | Slice)


def is_widening(node: Node) -> bool:
    """True if a node converts floats to a wider format, so that readers can read its operand."""
    if not isinstance(node.operation, Convert):
        return False
    operand, result = node.values[0].type, node.result.type
    return operand.is_floating and result.is_floating and result.nbytes > operand.nbytes


def is_free(node: Node) -> bool:
    """True if a node issues no instruction until its result is read."""
    return is_view(node) or isinstance(node.operation, Constant | Iota | Rng)
