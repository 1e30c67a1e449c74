"""Reductions of rows that wait for who reads them, so that a row crosses from HBM once.

A norm or a softmax of rows that lie in HBM reads each row for its sums and again for its result.
Where rows lie along the partitions and each fits there whole, the reduction waits: who reads what
is repeated of it computes both from one tile. Whoever else asks for it has it computed at once.
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

_FEWEST: Final = 32
"""Rows below which engines work better with something else along the partitions."""
_LONGEST: Final = 4096
"""Elements of a row: its tiles in float32 lie in SBUF together, and those of the next one."""


def should_defer_reduction(emission: Emission, node: Node) -> bool:
    """Whether a reduction is computed with who reads it: of whole rows that lie in HBM."""
    operation: Any = node.operation
    (value,) = node.values
    outer = len(value.shape) - len(operation.dims)
    is_last = tuple(sorted(operation.dims)) == tuple(range(outer, len(value.shape)))
    rows, width = prod(value.shape[:outer]), prod(value.shape[outer:])
    if not is_last or rows < _FEWEST or not 1 < width <= _LONGEST:
        return False
    return _is_repeated(emission, node.result, value.shape, outer) and _is_streamed(emission, value)


def _is_repeated(emission: Emission, value: Value, shape: Shape, outer: int) -> bool:
    """Whether all that is read of a reduction is repeated along the rows again."""
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
    """Whether a tensor is repeated along all but the first dimensions, and differs along those."""
    operation: Any = node.operation
    (value,) = node.values
    long = [(dim, n) for dim, n in zip(operation.dims, value.shape, strict=True) if n > 1]
    fits = all(dim < outer and n == node.result.shape[dim] for dim, n in long)
    return fits and prod(value.shape) == prod(node.result.shape[:outer])


def is_constant(emission: Emission, value: Value) -> bool:
    """Whether a value is one number."""
    return number_of(emission.facts.producers, value) is not None


def _is_streamed(emission: Emission, value: Value) -> bool:
    """Whether what is reduced is computed of tensors that lie in HBM in order, and of rows."""
    waiting, visited, tensors = [value], set[int](), 0
    while waiting:
        source = waiting.pop()
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
            waiting += node.values
    return tensors > 0


def _is_at_hand(emission: Emission, value: Value) -> bool:
    """Whether a value lies somewhere, is a number, or is computed of reductions that wait."""
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
    """The reduction that waits below a value repeated of it."""
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
    """Whether a frame has the first dimensions of a shape along the partitions, in their order."""
    long = [dim for dim, length in enumerate(shape) if length > 1]
    across = [dim for dim in frame.p_dims if shape[dim] > 1]
    down = [dim for dim in frame.f_dims if shape[dim] > 1]
    first = [dim for dim in long if dim < outer]
    return (across, down) == (first, long[len(first) :]) and not frame.is_replicated


def is_inside(emission: Emission, value: Value, inside: set[int]) -> bool:
    """Whether all that read a value are done, or computed here and nowhere else again."""
    for node in emission.facts.readers(value):
        number = node.result.number
        if number in emission.places:
            continue
        if number not in inside:
            return False
        if is_widening(node) and not is_inside(emission, node.result, inside):
            return False
    return not emission.facts.is_output(value)
