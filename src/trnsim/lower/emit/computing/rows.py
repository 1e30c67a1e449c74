"""Deferred reductions of rows, so that a row crosses from HBM once.

A norm or a softmax of rows that lie in HBM reads each row for its sums and again for its result.
If each row lies on one partition and fits there whole, the reduction is deferred: the reader of its
broadcast computes both from one tile. Any other reader computes the reduction at once.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.patterns import number_of
from trnsim.graph.types import Shape
from trnsim.lower.emit.places.paths import is_widening
from trnsim.lower.emit.places.tensor_place import in_hbm
from trnsim.lower.emit.places.walk import Frame

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_FEWEST_ROWS: Final = 32
"""Fewest rows; with fewer, another dimension along the partitions uses the engines better."""
_LONGEST_ROW: Final = 4096
"""Elements of the longest row whose float32 tiles fit into SBUF beside those of the next row."""


def should_defer_reduction(emission: Emission, node: Node) -> bool:
    """True if a reduction's reader can compute it, because it reduces whole rows from HBM."""
    operation: Any = node.operation
    (value,) = node.values
    outer = len(value.shape) - len(operation.dims)
    is_last = tuple(sorted(operation.dims)) == tuple(range(outer, len(value.shape)))
    rows, width = prod(value.shape[:outer]), prod(value.shape[outer:])
    if not is_last or rows < _FEWEST_ROWS or not 1 < width <= _LONGEST_ROW:
        return False
    return _is_repeated(emission, node.result, value.shape, outer) and _is_streamed(emission, value)


def _is_repeated(emission: Emission, value: Value, shape: Shape, outer: int) -> bool:
    """True if a reduction has one reader, which broadcasts it, or a function of it, along rows."""
    while True:
        readers = emission.facts.readers(value)
        if len(readers) != 1 or emission.facts.is_output(value):
            return False
        (node,) = readers
        if isinstance(node.operation, BroadcastInDim):
            return is_of_rows(node, outer) and node.result.shape == shape
        others = [operand for operand in node.values if operand is not value]
        is_alone = all(is_constant(emission, operand) for operand in others)
        if not isinstance(node.operation, Reshape) and (
            node.kind is not Kind.ELEMENTWISE or not is_alone or not node.result.type.is_floating
        ):
            return False
        value = node.result


def is_of_rows(node: Node, outer: int) -> bool:
    """True if a broadcast repeats along the dimensions from number `outer` on, and these alone."""
    operation: Any = node.operation
    (value,) = node.values
    long_dims = [(dim, n) for dim, n in zip(operation.dims, value.shape, strict=True) if n > 1]
    is_kept = all(dim < outer and n == node.result.shape[dim] for dim, n in long_dims)
    return is_kept and prod(value.shape) == prod(node.result.shape[:outer])


def is_constant(emission: Emission, value: Value) -> bool:
    """True if all elements of a value are one number that the graph states."""
    return number_of(emission.facts.producers, value) is not None


def _is_streamed(emission: Emission, value: Value) -> bool:
    """True if a value is computed from dense tensors in HBM and from one number for each row."""
    pending, visited, tensors = [value], set[int](), 0
    while pending:
        source = pending.pop()
        if source.number in visited:
            continue
        visited.add(source.number)
        node = emission.facts.producers.get(source.number)
        places = emission.places.get(source.number)
        if source.number in emission.facts.feature_values or not source.type.is_floating:
            return False
        if places is not None:
            if source.shape != value.shape or places[0] != in_hbm(places[0].storage, source.shape):
                return False
            tensors += 1
        elif node is not None and isinstance(node.operation, BroadcastInDim):
            if not _is_at_hand(emission, node.values[0]):
                return False
        elif node is None or node.kind is not Kind.ELEMENTWISE:
            return False
        else:
            pending += node.values
    return tensors > 0


def _is_at_hand(emission: Emission, value: Value) -> bool:
    """True if a value is stored, constant, or computed from deferred reductions."""
    while value.number not in emission.places and value.number not in emission.deferred.reductions:
        node = emission.facts.producers[value.number]
        if isinstance(node.operation, Constant):
            return True
        tensors = [operand for operand in node.values if not is_constant(emission, operand)]
        is_passed = isinstance(node.operation, BroadcastInDim | Reshape)
        if len(tensors) != 1 or (node.kind is not Kind.ELEMENTWISE and not is_passed):
            return False
        value = tensors[0]
    return True


def deferred_reduction(emission: Emission, node: Node) -> Node | None:
    """The deferred reduction from which a broadcast's operand is computed; else None."""
    value = node.values[0]
    while value.number not in emission.deferred.reductions:
        if value.number in emission.places or value.number not in emission.facts.producers:
            return None
        producer = emission.facts.producers[value.number]
        tensors = [operand for operand in producer.values if not is_constant(emission, operand)]
        is_step = producer.kind is Kind.ELEMENTWISE or isinstance(producer.operation, Reshape)
        if len(tensors) != 1 or not is_step:
            return None
        value = tensors[0]
    return emission.deferred.reductions[value.number]


def has_rows_on_partitions(frame: Frame, shape: Shape, outer: int) -> bool:
    """True if a frame has the first `outer` dimensions along partitions, the others along columns.

    Both lists must be in order; dimensions of length 1 may lie anywhere.
    """
    long_dims = [dim for dim, length in enumerate(shape) if length > 1]
    p_dims = [dim for dim in frame.p_dims if shape[dim] > 1]
    f_dims = [dim for dim in frame.f_dims if shape[dim] > 1]
    outer_dims = [dim for dim in long_dims if dim < outer]
    is_in_order = (p_dims, f_dims) == (outer_dims, long_dims[len(outer_dims) :])
    return is_in_order and not frame.is_replicated


def is_inside(emission: Emission, value: Value, inside: set[int]) -> bool:
    """True if each reader of a value is computed already, or its number is one of `inside`.

    A view that widens counts as a reader only if all its own readers do.
    """
    for node in emission.facts.readers(value):
        number = node.result.number
        if number in emission.places:
            continue
        if number not in inside:
            return False
        if is_widening(node) and not is_inside(emission, node.result, inside):
            return False
    return not emission.facts.is_output(value)
