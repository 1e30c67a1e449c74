"""What is done to weights once, outside the step: casts, layouts, parts of them.

What is computed of weights alone and is no larger than they are is the same at every step, so that
AWS's compiler has it done ahead of time. A wider copy would cost HBM, so that is left in the step.
"""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.graph import Graph, Kind, Node, Value

_MOVES = (Kind.ELEMENTWISE, Kind.ALIAS, Kind.VIEW, Kind.KERNEL)


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A graph in two.

    Attributes:
        ahead: what is computed of weights once; its outputs are weights of the step.
        step: the rest.
        weights: the step's weights, by number.
    """

    ahead: Graph
    step: Graph
    weights: frozenset[int]


def hoisted(graph: Graph, weights: frozenset[int]) -> Hoisted:
    """A graph without what is done to its weights ahead of time."""
    known = {value.number: value for value in graph.inputs if value.number in weights}
    ahead: list[Node] = []
    for node in graph.nodes:
        if _is_ahead(node, known):
            ahead.append(node)
            known.update((value.number, value) for value in node.results)
    numbers = {id(node) for node in ahead}
    nodes = [node for node in graph.nodes if id(node) not in numbers]
    read = {value.number for node in nodes for value in node.values}
    read |= {value.number for value in graph.outputs}
    made = {value.number: value for node in ahead for value in node.results}
    fresh = [value for number, value in made.items() if number in read]
    inputs = [v for v in graph.inputs if v.number in read or v.number not in weights]
    kept = {v.number for v in inputs if v.number in weights} | {v.number for v in fresh}
    return Hoisted(
        Graph([v for v in graph.inputs if v.number in weights], ahead, fresh),
        Graph([*inputs, *fresh], nodes, list(graph.outputs)),
        frozenset(kept),
    )


def _is_ahead(node: Node, known: dict[int, Value]) -> bool:
    """Whether a node computes of weights alone something no larger than they are."""
    if node.kind not in _MOVES or not node.values:
        return False
    if any(value.number not in known for value in node.values):
        return False
    given = sum(value.type.nbytes for value in node.values)
    return sum(value.type.nbytes for value in node.results) <= given
