"""The verifier: whether a graph is one, whoever built it.

Each value has one maker, which comes before its readers; operands and results have the types that
the operation's class allows and infers; outputs exist.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from trnsim.errors import EmulatorError, InternalError
from trnsim.graph.graph import Graph, Node, Value, check_numbers, result_types


def verify(graph: Graph, verified: Collection[int] = ()) -> None:
    """Check a graph; of nodes that were verified, by their id, whether they stand in order.

    Raises:
        InternalError: it is malformed, with the operation at which that shows.
    """
    known: dict[int, Value] = {}
    for value in graph.inputs:
        _define(known, value, "an input")
    for node in graph.nodes:
        for operand in node.values:
            if known.get(operand.number) != operand:
                _refuse(
                    node, f"reads %{operand.number} : {operand.type}, which nothing made before"
                )
        if id(node) not in verified:
            _check_types(node)
        for value in node.results:
            _define(known, value, node.name)
    for value in graph.outputs:
        if known.get(value.number) != value:
            raise InternalError(
                f"the graph returns %{value.number} : {value.type}, which nothing made"
            )


def _define(known: dict[int, Value], value: Value, maker: str) -> None:
    if value.number in known:
        raise InternalError(f"{maker} makes %{value.number} a second time")
    known[value.number] = value


def _check_types(node: Node) -> None:
    """The results are those that the class infers, but for an element type that it lets name."""
    try:
        wanted = result_types(node.operation, node.operands)
    except EmulatorError as error:
        _refuse(node, error.reason)
    found = tuple(value.type for value in node.results)
    check_numbers(node.operation, node.operands, found)
    shapes = [one.shape for one in found] == [one.shape for one in wanted]
    dtypes = [one.dtype for one in found] == [one.dtype for one in wanted]
    if not shapes or not (dtypes or node.operation.names_dtype):
        given, right = (", ".join(map(str, types)) for types in (found, wanted))
        _refuse(node, f"gives {given}; it is {right}")


def _refuse(node: Node, what: str) -> NoReturn:
    raise InternalError(f"{node.name} at %{node.result.number} {what}")
