"""Values of programs on several devices, which run in lockstep from exchange to exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Graph, Kind, Node
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.collectives import Collective
from trnsim.graph.types import Array
from trnsim.lower import between_exchanges

Compute = Callable[[Graph, Sequence[Array]], Sequence[Array]]
"""A function from a graph and its inputs to its outputs."""


def compute_in_lockstep(
    graphs: Sequence[Graph], arguments: Sequence[Sequence[Array]], compute: Compute
) -> list[list[Array]]:
    """The outputs of each device's graph; `compute` evaluates parts without exchanges.

    Raises:
        NotModelled: the devices have different exchanges.
    """
    ranks = [_Rank(graph, inputs, compute) for graph, inputs in zip(graphs, arguments, strict=True)]
    for nodes in _exchange_rounds(graphs):
        for rank in ranks:
            rank.compute_next()
        results = _exchange_values(
            nodes, [rank.operand(node) for rank, node in zip(ranks, nodes, strict=True)]
        )
        for rank, node, array in zip(ranks, nodes, results, strict=True):
            rank.arrays[node.result.number] = array
    for rank in ranks:
        rank.compute_next()
    return [rank.outputs() for rank in ranks]


class _Rank:
    """A device: the remaining parts of its graph, and the values computed so far."""

    def __init__(self, graph: Graph, arguments: Sequence[Array], compute: Compute) -> None:
        self._graph = graph
        self._remaining_parts = iter(between_exchanges(graph))
        self._compute = compute
        numbers = [value.number for value in graph.inputs]
        self.arrays = dict(zip(numbers, arguments, strict=True))

    def compute_next(self) -> None:
        """Compute the values up to the next exchange."""
        part = next(self._remaining_parts)
        if part.outputs:
            arrays = self._compute(part, [self.arrays[value.number] for value in part.inputs])
            self.arrays |= {v.number: array for v, array in zip(part.outputs, arrays, strict=True)}

    def operand(self, node: Node) -> Array:
        """The device's operand of an exchange."""
        return self.arrays[node.values[0].number]

    def outputs(self) -> list[Array]:
        """The outputs of its graph."""
        return [self.arrays[value.number] for value in self._graph.outputs]


def _exchange_rounds(graphs: Sequence[Graph]) -> Iterator[tuple[Node, ...]]:
    """The exchanges of all devices in order: for each, a node of every device."""
    exchanges = [[node for node in graph.nodes if node.kind is Kind.COLLECTIVE] for graph in graphs]
    if len({len(nodes) for nodes in exchanges}) > 1:
        raise NotModelled("devices of one program exchange values a different number of times")
    for nodes in zip(*exchanges, strict=True):
        if any(node.operation != nodes[0].operation for node in nodes):
            names = ", ".join(dict.fromkeys(node.name for node in nodes))
            raise NotModelled(f"devices of one program that meet in different exchanges: {names}")
        yield nodes


def _exchange_values(nodes: Sequence[Node], operands: Sequence[Array]) -> list[Array]:
    """The result of an exchange for each device."""
    first = nodes[0]
    if not isinstance(first.operation, Collective):
        (result,) = reference_of(first, [np.stack(operands)])
        return [np.asarray(part) for part in result]
    results: dict[int, Array] = {}
    for group in first.operation.replica_groups:
        (result,) = reference_of(first, [np.stack([operands[member] for member in group])])
        results |= dict(zip(group, map(np.asarray, result), strict=True))
    if set(results) != set(range(len(operands))):
        raise InternalError(f"{first.name} of devices {sorted(results)}, of {len(operands)}")
    return [results[device] for device in range(len(operands))]
