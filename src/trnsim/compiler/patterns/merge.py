"""Equal operations are merged: the second one reads the first one's result.

This is common subexpression elimination.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.leaves import Rng

_ANEW = (Kind.COLLECTIVE, Kind.CONTROL, Kind.CALL)
"""What is done each time that it is written."""


def merged(graph: Graph) -> Graph:
    """The graph with each operation on the same operands once."""
    known: dict[Hashable, Node] = {}
    names: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = tuple(
            names.get(o.number, o) if isinstance(o, Value) else o for o in node.operands
        )
        made = replace(node, operands=operands)
        if node.kind in _ANEW or isinstance(node.operation, Rng):
            nodes.append(made)
            continue
        # A name of the result's type is no part of the operation.
        key = node.operation, operands, tuple(value.type for value in node.results)
        first = known.setdefault(key, made)
        if first is made:
            nodes.append(made)
        else:
            pairs = zip(node.results, first.results, strict=True)
            names.update((value.number, kept) for value, kept in pairs)
    outputs = [names.get(value.number, value) for value in graph.outputs]
    return Graph(list(graph.inputs), nodes, outputs)
