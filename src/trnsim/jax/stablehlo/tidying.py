"""What an imported graph does twice or in a roundabout way, done once and directly.

JAX turns the gradient of a weight after its product, and writes views and moves anew wherever they
are read. Products, functions and sums stay as often as the program has them: what is computed again
to save memory (`jax.checkpoint`) is to be computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final

from trnsim.graph import Graph, Kind, Node, Operand, Operation, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Concatenate, Pad, Reverse, Transpose
from trnsim.graph.ops.leaves import Rng

_MOVED: Final = (Kind.ALIAS, Kind.VIEW, Kind.LEAF)
_MOVES: Final = (Concatenate, Pad, Reverse, Transpose)


def tidied(graph: Graph) -> Graph:
    """A graph of the same inputs, which gives the same."""
    found = _turned(_once(graph))
    found.prune()
    return found


def _once(graph: Graph) -> Graph:
    """Without moves of one tensor that another is equal to."""
    made, same = graph.begun(), dict[int, Value]()
    seen: dict[Hashable, tuple[Value, ...]] = {}
    for node in graph.nodes:
        operands = tuple(_now(one, same) for one in node.operands)
        types = tuple(value.type for value in node.results)
        key = (node.operation, operands, types)
        if _is_move(node) and key in seen:
            same |= {old.number: new for old, new in zip(node.results, seen[key], strict=True)}
            continue
        if _is_move(node):
            seen[key] = node.results
        made.came_from = node.origin
        made.add(node.operation, operands, node.results)
    made.outputs = [same.get(value.number, value) for value in graph.outputs]
    return made


def _now(operand: Operand, same: dict[int, Value]) -> Operand:
    return same.get(operand.number, operand) if isinstance(operand, Value) else operand


def _is_move(node: Node) -> bool:
    """Whether an operation makes nothing but what its operand has in another place."""
    is_drawn = isinstance(node.operation, Rng)
    return (node.kind in _MOVED and not is_drawn) or isinstance(node.operation, _MOVES)


def _turned(graph: Graph) -> Graph:
    """With products that are turned once made as the product of their turned sides."""
    readers = Counter(value.number for node in graph.nodes for value in node.values)
    readers.update(value.number for value in graph.outputs)
    made = graph.begun()
    for node in graph.nodes:
        source = _product(graph, node)
        if source is None or readers[source.result.number] > 1:
            made.came_from = node.origin
            made.add(node.operation, node.operands, node.results)
            continue
        lhs, rhs = source.operands
        made.came_from = source.origin
        made.add(_swapped(source.operation), (rhs, lhs), node.results)
    made.outputs = list(graph.outputs)
    return made


def _product(graph: Graph, node: Node) -> Node | None:
    """The product whose rows and columns a node swaps; None for another node."""
    rank = len(node.result.shape)
    if node.operation != Transpose((*range(rank - 2), rank - 1, rank - 2)):
        return None
    source = graph.maker(node.values[0])
    return source if source is not None and isinstance(source.operation, DotGeneral) else None


def _swapped(operation: Operation) -> DotGeneral:
    """The product of the same matrices, the second one first."""
    first, second = operation.contracting if isinstance(operation, DotGeneral) else (0, 0)
    return DotGeneral((second, first))
