"""Control flow: values decide which graphs run, one kernel after the other.

The host, or a register of the core, reads the value and chooses: the choice needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Graph, Node, Operation
from trnsim.graph.ops.control_flow import Branching, While

Array = np.ndarray[Any, Any]
Evaluate = Callable[[Graph, Sequence[Array]], list[Array]]


def run(operation: Operation, operands: Sequence[Array], evaluate: Evaluate) -> list[Array]:
    """The results of the graphs that the operands' values choose."""
    if isinstance(operation, While):
        condition, body = inner_graphs(operation)
        carried = list(operands)
        while bool(evaluate(condition, carried)[0]):
            carried = evaluate(body, carried)
        return carried
    if not isinstance(operation, Branching):
        raise InternalError(f"{operation.name} runs no graph")
    return evaluate(operation.branch(operands[0]), operands[1:])


def inner_graphs(operation: Operation) -> tuple[Graph, ...]:
    """The graphs that an operation may run: branches, or the condition and body of a `while`."""
    if isinstance(operation, Branching):
        return operation.branches
    if isinstance(operation, While) and operation.condition and operation.body:
        return operation.condition, operation.body
    return ()


def nodes_within(graph: Graph) -> Iterator[Node]:
    """The operations of a graph and of those that it may run."""
    for node in graph.nodes:
        yield node
        for inner in inner_graphs(node.operation):
            yield from nodes_within(inner)


def graph_counts(
    operation: Operation, seconds: Callable[[Graph], float]
) -> tuple[str, list[tuple[Graph, int]]]:
    """Words about the runs of an operation's graphs, and each graph with its number of runs.

    Only the slowest of several branches is counted, so the time is an upper bound.

    Raises:
        NotModelled: for a `while` whose number of trips is not known.
    """
    if not isinstance(operation, While):
        slowest_graph = max(inner_graphs(operation), key=seconds)
        return "at most: the slowest branch", [(slowest_graph, 1)]
    if operation.trips is None:
        raise NotModelled(
            "a while loop whose values decide how often it runs has no known time",
            fix="give `trips`, the number of its iterations, or evaluate it",
        )
    condition, body = inner_graphs(operation)
    return f"{operation.trips} trips", [(condition, operation.trips + 1), (body, operation.trips)]
