"""Elements that indices choose: of a computed tensor, only those that are chosen are computed.

A loss reads one logarithm of each row of many classes, and its gradient has one element other than
zero in each. A gather of elementwise results becomes their computation from gathered operands, and
the sum of a row with one such element becomes that element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.arithmetic import Multiply
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.layout import BroadcastInDim
from trnsim.graph.ops.leaves import Iota
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.patterns import Either, TensorForm, form_of
from trnsim.graph.rewriting import Match, Pattern
from trnsim.graph.types import INTEGERS

_FEWER: Final = 8
"""Elements of a row for each that is gathered, from which fewer are computed after the gather."""
_LEAST_SUM: Final = 128
"""Elements of a row up to which a sum takes as little time as the choice of its element."""
_MOST_EXACT: Final = 2**24
"""Places of a row whose indices float32 represents exactly."""


def _repeats(node: Node, dim: int) -> bool:
    """True if a node repeats a tensor along a dimension alone, or repeats a scalar."""
    operation, rank = node.operation, len(node.result.shape)
    others = tuple(axis for axis in range(rank) if axis != dim)
    return isinstance(operation, BroadcastInDim) and (
        operation.dims == ()
        or (
            operation.dims == others
            and node.values[0].shape == tuple(node.result.shape[axis] for axis in others)
        )
    )


def _is_computed(node: Node) -> bool:
    """True if each element of a node's result comes from the same element of its operands."""
    shapes = {value.shape for value in node.values}
    return node.kind is Kind.ELEMENTWISE and shapes == {node.result.shape}


def _leaves(match: Match) -> set[int]:
    """Numbers of the tensors from which a gathered tensor is computed, those repeated left out."""
    operand: Value = match.captured["operand"]
    leaves, visited, waiting = set[int](), set[int](), [operand]
    while waiting:
        value = waiting.pop()
        if value.number in visited:
            continue
        visited.add(value.number)
        node = match.producers.nodes.get(value.number)
        if node is None or not (_is_computed(node) or _repeats(node, len(value.shape) - 1)):
            leaves.add(value.number)
        elif _is_computed(node):
            waiting += node.values
    return leaves


def _is_of_few(match: Match) -> bool:
    """True for few elements of rows that are computed from those of one tensor."""
    operand, indices = match.node.values
    if match.node.operation != Gather.in_rows(operand.shape):
        return False
    is_few = _FEWER * indices.shape[-1] <= operand.shape[-1]
    leaves = _leaves(match) if is_few else set[int]()
    return len(leaves) == 1 and match.captured["operand"].number not in leaves


def _of_gathered(match: Match) -> Value:
    """The gathered elements, computed from those of the operand."""
    leaves, gathered_values = _leaves(match), dict[int, Value]()
    waiting = [match.captured["operand"]]
    while waiting:
        value = waiting[-1]
        node = None if value.number in leaves else match.producers.nodes[value.number]
        operands = node.values if node is not None and _is_computed(node) else ()
        missing = [operand for operand in operands if operand.number not in gathered_values]
        if missing:
            waiting += missing
        elif waiting.pop().number not in gathered_values:
            gathered_values[value.number] = _gathered_value(match, value, node, gathered_values)
    return gathered_values[match.captured["operand"].number]


def _gathered_value(
    match: Match, value: Value, node: Node | None, gathered_values: Mapping[int, Value]
) -> Value:
    """The gathered elements of a value, from those of its node's operands; None is for a leaf."""
    graph, indices = match.graph, match.node.values[1]
    if node is None:
        return graph.gather_in_rows(match.walk.new_value(value), indices)
    if isinstance(node.operation, BroadcastInDim):
        row = match.walk.new_value(node.values[0])
        return graph.broadcast_in_dim(row, indices.shape, node.operation.dims)
    operands = [gathered_values[o.number] if isinstance(o, Value) else o for o in node.operands]
    return graph.apply(node.operation, *operands, dtype=value.dtype)


GATHERED_FIRST = Pattern(
    "gathered first",
    "few elements of a computed tensor are computed from the same elements of its operand",
    before=form_of(Gather, TensorForm("operand"), TensorForm("indices")),
    when=_is_of_few,
    after=_of_gathered,
)


_CHOSEN: Final = form_of(
    Multiply,
    form_of(
        Compare,
        TensorForm("counts", form_of(Iota)),
        TensorForm("indices", form_of(BroadcastInDim)),
        name="are_equal",
        is_commutative=True,
    ),
    TensorForm("elements", form_of(BroadcastInDim)),
    is_commutative=True,
)
"""The form of elements times 1 at the places that indices name, and times 0 at all others."""


def _is_of_one(match: Match) -> bool:
    """True for a sum along a dimension in which at most one element is times 1."""
    sum_, counts = _operation(match.node), match.operation("counts")
    if sum_.op != "add" or sum_.dims != (counts.dim,):
        return False
    indices, elements = (_producer(match, name) for name in ("indices", "elements"))
    return (
        _repeats(indices, counts.dim)
        and _repeats(elements, counts.dim)
        and _are_whole(match, indices.values[0])
        and match.operation("are_equal").direction == "EQ"
        and _LEAST_SUM < counts.shape[counts.dim] <= _MOST_EXACT
    )


def _operation(node: Node) -> Any:
    return node.operation


def _producer(match: Match, name: str) -> Node:
    return match.producers.nodes[match.captured[name].number]


def _are_whole(match: Match, value: Value) -> bool:
    """True for integers, and for integers that were converted."""
    node = match.producers.nodes.get(value.number)
    if node is not None and isinstance(node.operation, Convert):
        value = node.values[0]
    return value.dtype in INTEGERS


def _one_of_each(match: Match) -> Value:
    """The chosen elements, each plus 0 times itself as the sum has that: NaN if it is infinite."""
    graph, shape, dtype = match.graph, match.node.result.shape, match.node.result.dtype
    counts: Any = match.operation("counts")

    def rows_of(name: str) -> Value:
        row = match.walk.new_value(_producer(match, name).values[0])
        return graph.broadcast_in_dim(row, shape, range(len(row.shape)))

    indices, elements = rows_of("indices"), rows_of("elements")
    is_after_start, is_before_end = (
        graph.elementwise("compare", indices, float(bound), direction=direction)
        for direction, bound in (("GE", 0), ("LT", counts.shape[counts.dim]))
    )
    is_inside = graph.elementwise("and", is_after_start, is_before_end)
    zeros = graph.elementwise("multiply", elements, 0.0)
    chosen_elements = graph.elementwise("select", is_inside, elements, 0.0, dtype=elements.dtype)
    total = graph.elementwise("add", chosen_elements, zeros)
    return total if dtype == total.dtype else graph.elementwise("convert", total, dtype=dtype)


SUM_OF_ONE = Pattern(
    "sum of one",
    "the sum of a row that is 0 but at one place is the element of that place",
    before=form_of(Reduce, Either((_CHOSEN, form_of(Convert, _CHOSEN)))),
    when=_is_of_one,
    after=_one_of_each,
)
