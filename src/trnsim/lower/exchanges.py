"""Exchanges between ranks, separated from the graph that one rank computes.

A graph is lowered for one core. Its program waits at an exchange with other ranks: the operand is
an output of the program, the result an input, and the time between them is that of the links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.collectives import Collective, CollectivePermute


@dataclass(frozen=True, slots=True)
class GraphExchange:
    """A collective operation of a graph: its kind, its bytes and its groups of ranks.

    Attributes:
        kind: the operation's name, such as all_reduce.
        nbytes: bytes of the message: the larger of a rank's operand and its result.
        groups: the ranks of each group; groups exchange at the same time.
    """

    kind: str
    nbytes: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def ranks(self) -> int:
        """The number of ranks of a group."""
        return len(self.groups[0])


class ExchangeIssuer(Protocol):
    """An object that issues exchanges between ranks as instructions."""

    def issue(self, dst: Any, src: Any, node: Node) -> None:
        """Issue the exchange of an operation, from `src` to `dst`."""


def without_exchanges(graph: Graph) -> tuple[Graph, tuple[GraphExchange, ...]]:
    """The graph that one rank computes, and its exchanges in order.

    The operand of an exchange is an output of the graph, and its result is an input.
    """
    nodes = [node for node in graph.nodes if node.kind is not Kind.COLLECTIVE]
    exchange_nodes = [node for node in graph.nodes if node.kind is Kind.COLLECTIVE]
    if not exchange_nodes:
        return graph, ()
    operands = [value for node in exchange_nodes for value in node.values]
    results = [value for node in exchange_nodes for value in node.results]
    local_numbers = {value.number for value in graph.inputs} | {
        value.number for node in nodes for value in node.results
    }
    ends = {value.number: value for value in (*graph.outputs, *operands)}
    outputs: list[Value] = [value for value in ends.values() if value.number in local_numbers]
    rank_graph = Graph([*graph.inputs, *results], nodes, outputs)
    return rank_graph, tuple(exchange(node) for node in exchange_nodes)


def between_exchanges(graph: Graph) -> tuple[Graph, ...]:
    """The graphs that one rank computes between exchanges, in order; some may be empty.

    Kernels do not reach across: a node that reads the result of an exchange is in a later graph.
    """
    parts: list[list[Node]] = [[]]
    for node in graph.nodes:
        if node.kind is Kind.COLLECTIVE:
            parts.append([])
        else:
            parts[-1].append(node)
    readers: defaultdict[int, set[int]] = defaultdict(set)
    part_index = 0
    for node in graph.nodes:
        is_exchange = node.kind is Kind.COLLECTIVE
        for value in node.values:
            readers[value.number].add(_OUTSIDE_PARTS if is_exchange else part_index)
        part_index += is_exchange
    for value in graph.outputs:
        readers[value.number].add(_OUTSIDE_PARTS)
    return tuple(_part(nodes, n, readers) for n, nodes in enumerate(parts))


_OUTSIDE_PARTS: Final = -1
"""The part number of readers outside all parts: exchanges, and the caller."""


def _part(nodes: list[Node], part_index: int, readers: Mapping[int, set[int]]) -> Graph:
    """Nodes as a graph: its inputs are values of other parts, its outputs are read by others."""
    results = {value.number: value for node in nodes for value in node.results}
    read = {value.number: value for node in nodes for value in node.values}
    inputs = [value for number, value in read.items() if number not in results]
    outputs = [value for number, value in results.items() if readers[number] - {part_index}]
    return Graph(inputs, nodes, outputs)


def exchange(node: Node) -> GraphExchange:
    """The exchange of a node; for a node of another kind, one with a single rank."""
    operation = node.operation
    groups: tuple[tuple[int, ...], ...] = ()
    if isinstance(operation, Collective):
        groups = operation.replica_groups
    elif isinstance(operation, CollectivePermute):  # pairs exchange at the same time
        groups = operation.source_target_pairs
    nbytes = max(value.type.nbytes for value in (*node.values, *node.results))
    return GraphExchange(node.name, nbytes, groups or ((0,),))
