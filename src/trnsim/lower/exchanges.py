"""Exchanges between ranks inside a graph, apart from what one rank computes.

A graph is lowered for one core. Where it exchanges values with others, its program waits: the
operand leaves the graph, the result comes into it, and the time between them is the fabric's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.collectives import Collective, CollectivePermute


@dataclass(frozen=True, slots=True)
class GraphExchange:
    """What ranks exchange at once.

    Attributes:
        kind: the operation's name, such as all_reduce.
        nbytes: of the whole message: the larger of a rank's operand and its result.
        groups: the ranks of each group; groups work at once.
    """

    kind: str
    nbytes: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        """The ranks of a group."""
        return len(self.groups[0])


class ExchangeIssuer(Protocol):
    """What issues exchanges between ranks as instructions."""

    def issue(self, dst: Any, src: Any, node: Node) -> None:
        """Issue the exchange of an operation, from `src` to `dst`."""


def without_exchanges(graph: Graph) -> tuple[Graph, tuple[GraphExchange, ...]]:
    """A graph of what one rank computes, and its exchanges in order.

    The operand of each is an output of the graph, its result an input.
    """
    nodes = [node for node in graph.nodes if node.kind is not Kind.COLLECTIVE]
    apart = [node for node in graph.nodes if node.kind is Kind.COLLECTIVE]
    if not apart:
        return graph, ()
    sent = [value for node in apart for value in node.values]
    received = [value for node in apart for value in node.results]
    inside = {value.number for value in graph.inputs} | {
        value.number for node in nodes for value in node.results
    }
    passed_on = {value.number: value for value in (*graph.outputs, *sent)}
    outputs: list[Value] = [value for value in passed_on.values() if value.number in inside]
    alone = Graph([*graph.inputs, *received], nodes, outputs)
    return alone, tuple(exchange(node) for node in apart)


def between_exchanges(graph: Graph) -> tuple[Graph, ...]:
    """What one rank computes from one exchange to the next, each part a graph, which may be empty.

    Kernels do not reach across: what is added to the result of an exchange waits for it.
    """
    parts: list[list[Node]] = [[]]
    for node in graph.nodes:
        if node.kind is Kind.COLLECTIVE:
            parts.append([])
        else:
            parts[-1].append(node)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    place = 0
    for node in graph.nodes:
        is_exchange = node.kind is Kind.COLLECTIVE
        for value in node.values:
            readers[value.number].add(_OUTSIDE if is_exchange else place)
        place += is_exchange
    for value in graph.outputs:
        readers[value.number].add(_OUTSIDE)
    return tuple(_part(nodes, n, readers) for n, nodes in enumerate(parts))


_OUTSIDE: Final = -1
"""The place of who reads a value and is in no part: an exchange, or the caller."""


def _part(nodes: list[Node], place: int, readers: Mapping[int, set[int]]) -> Graph:
    """Nodes as a graph: what they read of others comes in, what others read goes out."""
    results = {value.number: value for node in nodes for value in node.results}
    read = {value.number: value for node in nodes for value in node.values}
    inputs = [value for number, value in read.items() if number not in results]
    outputs = [value for number, value in results.items() if readers[number] - {place}]
    return Graph(inputs, nodes, outputs)


def exchange(node: Node) -> GraphExchange:
    """What a node exchanges; of a node that is no exchange, with nobody."""
    operation = node.operation
    groups: tuple[tuple[int, ...], ...] = ((0,),)
    if isinstance(operation, Collective):
        groups = tuple(tuple(group) for group in operation.replica_groups)
    elif isinstance(operation, CollectivePermute):
        groups = _chains(operation.source_target_pairs)
    nbytes = max(value.type.nbytes for value in (*node.values, *node.results))
    return GraphExchange(node.name, nbytes, groups)


def _chains(pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """Who sends to whom as groups of one rank and the next; they work at once."""
    return tuple((source, target) for source, target in pairs) or ((0,),)
