"""What is done to weights once, outside the step: casts, layouts, parts of them.

What is computed of weights alone and is no larger than they are is the same at every step, so that
AWS's compiler has it done ahead of time. A wider copy would cost HBM, so that is left in the step;
on the way to something smaller it costs nothing, as the scale of a kernel that is normed.
"""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.graph import Graph, Kind, Node, Value

_AHEAD = (Kind.ELEMENTWISE, Kind.ALIAS, Kind.VIEW, Kind.KERNEL, Kind.REDUCTION)


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
    nbytes = {v.number: v.type.nbytes for v in graph.inputs if v.number in weights}
    able: dict[int, Node] = {}
    for node in graph.nodes:
        if _is_able(node, nbytes):
            given = sum(nbytes[value.number] for value in node.values)
            able |= {value.number: node for value in node.results}
            nbytes |= {v.number: min(v.type.nbytes, given) for v in node.results}
    fresh, wide = _read(graph, able, nbytes)
    numbers = {id(node) for node in able.values()} - wide
    nodes = [node for node in graph.nodes if id(node) not in numbers]
    ahead = _needed(graph, fresh)
    read = {value.number for node in nodes for value in node.values}
    read |= {value.number for value in graph.outputs}
    inputs = [v for v in graph.inputs if v.number in read or v.number not in weights]
    kept = {v.number for v in inputs if v.number in weights} | {v.number for v in fresh}
    return Hoisted(
        Graph([v for v in graph.inputs if v.number in weights], ahead, fresh),
        Graph([*inputs, *fresh], nodes, list(graph.outputs)),
        frozenset(kept),
    )


def _is_able(node: Node, known: dict[int, int]) -> bool:
    """Whether a node computes of weights alone."""
    is_given = bool(node.values) and all(value.number in known for value in node.values)
    return node.kind in _AHEAD and is_given


def _read(
    graph: Graph, able: dict[int, Node], nbytes: dict[int, int]
) -> tuple[list[Value], set[int]]:
    """What the step reads of what may be done ahead, and the nodes of it that it does itself.

    Those are the ones that give more bytes than the weights that they come from.
    """
    chosen = {id(node) for node in able.values()}
    waiting = [v for node in graph.nodes if id(node) not in chosen for v in node.values]
    waiting += graph.outputs
    fresh: dict[int, Value] = {}
    wide: set[int] = set()
    while waiting:
        value = waiting.pop()
        node = able.get(value.number)
        if node is None or value.number in fresh or id(node) in wide:
            continue
        if any(one.type.nbytes > nbytes[one.number] for one in node.results):
            wide.add(id(node))
            waiting += node.values
        else:
            fresh[value.number] = value
    made = [value for node in graph.nodes for value in node.results]
    return [value for value in made if value.number in fresh], wide


def _needed(graph: Graph, results: list[Value]) -> list[Node]:
    """The nodes that compute some values."""
    needed = {value.number for value in results}
    found: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value.number in needed for value in node.results):
            found.append(node)
            needed |= {value.number for value in node.values}
    return found[::-1]
