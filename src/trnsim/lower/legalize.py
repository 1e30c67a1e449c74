"""The pass that replaces operations without a kernel by others that have one.

It runs before operations are grouped. What it puts in their place is in `trnsim.lower.legal`, a
file for each family.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trnsim.errors import InternalError
from trnsim.graph import Graph, Node, Value, verify
from trnsim.graph.building.build import Build, Operand
from trnsim.lower.legal import (
    attention,
    comparison,
    indexing,
    random_bits,
    reductions,
    sorting,
    windows,
)
from trnsim.lower.legal.emptiness import gives_nothing, is_partly_empty, what_is_left
from trnsim.lower.rules import LEGAL

_RULES: Final = (attention, comparison, indexing, random_bits, reductions, sorting, windows)
"""Importing them fills the table of legal forms."""


def legalize(graph: Graph, is_kept: Callable[[Node], bool] = lambda _: False) -> Graph:
    """A graph of operations that have kernels and give what those of `graph` give.

    The graph itself where there is nothing to replace. Inputs and outputs keep their order. Graphs
    that are attributes, such as branches, stay as they are: they are lowered when they run. What is
    kept stays too: whoever asks for that has instructions for it.
    """
    replaced = {
        id(node)
        for node in graph.nodes
        if is_partly_empty(node) or (_is_replaced(node) and not is_kept(node))
    }
    if not replaced:
        return graph
    b = Build()
    known = {value.number: b.graph.input(value.shape, value.dtype) for value in graph.inputs}
    for node in graph.nodes:
        b.graph.came_from = node.origin
        found = _replaced(b, node, known) if id(node) in replaced else _copied(b, node, known)
        known.update(zip((value.number for value in node.results), found, strict=True))
    b.graph.outputs = [known[value.number] for value in graph.outputs]
    verify(b.graph)
    return b.graph


def _is_replaced(node: Node) -> bool:
    form = LEGAL.get(type(node.operation))
    return form is not None and not form.has_kernel(node)


def _copied(b: Build, node: Node, known: dict[int, Value]) -> tuple[Value, ...]:
    return b.graph.apply_to_all(node.operation, _operands(node, known), node.result.dtype)


def _replaced(b: Build, node: Node, known: dict[int, Value]) -> tuple[Value, ...]:
    """The results by the operation's legal form; of nothing, where they have no elements."""
    b.results = [value.type for value in node.results]
    if gives_nothing(node):
        return tuple(b.filled(0.0, one) for one in b.results)
    operands = _operands(node, known)
    if is_partly_empty(node):
        found = what_is_left(b, node, [one for one in operands if isinstance(one, Value)])
    else:
        found = LEGAL[type(node.operation)].build(b, node.operation, *operands)
    results = found if isinstance(found, tuple) else (found,)
    if [value.type for value in results] != b.results:
        types = ", ".join(str(value.type) for value in results)
        raise InternalError(f"the legal form of {node.name} gives {types}")
    return results


def _operands(node: Node, known: dict[int, Value]) -> list[Operand]:
    """The operands in the graph that is being built; numbers as they are."""
    return [known[o.number] if isinstance(o, Value) else o for o in node.operands]
