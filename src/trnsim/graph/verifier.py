"""The verifier: checks that a graph is well formed.

Each value has one producer, which comes before its readers; operands and results have the types
that the operation's class allows and infers; outputs exist.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from trnsim.errors import EmulatorError, InternalError
from trnsim.graph.graph import Graph, Node, Value, check_numbers, result_types


def verify(graph: Graph, verified: Collection[int] = ()) -> None:
    """Check a graph; nodes whose id is in `verified` are checked for their order alone.

    Raises:
        InternalError: the graph is malformed, with the operation at fault.
    """
    values: dict[int, Value] = {}
    for value in graph.inputs:
        _define(values, value, "an input")
    for node in graph.nodes:
        for operand in node.values:
            if values.get(operand.number) != operand:
                _refuse(
                    node, f"reads %{operand.number} : {operand.type}, which nothing made before"
                )
        if id(node) not in verified:
            _check_types(node)
        for value in node.results:
            _define(values, value, node.name)
    for value in graph.outputs:
        if values.get(value.number) != value:
            raise InternalError(
                f"the graph returns %{value.number} : {value.type}, which nothing made"
            )


def _define(values: dict[int, Value], value: Value, producer: str) -> None:
    if value.number in values:
        raise InternalError(f"{producer} makes %{value.number} a second time")
    values[value.number] = value


def _check_types(node: Node) -> None:
    """Check the result types against the inferred types; a graph may name some element types."""
    try:
        inferred = result_types(node.operation, node.operands)
    except EmulatorError as error:
        _refuse(node, error.reason)
    types = tuple(value.type for value in node.results)
    check_numbers(node.operation, node.operands, types)
    shapes = [type_.shape for type_ in types] == [type_.shape for type_ in inferred]
    dtypes = [type_.dtype for type_ in types] == [type_.dtype for type_ in inferred]
    if not shapes or not (dtypes or node.operation.names_dtype):
        actual, expected = (", ".join(map(str, types)) for types in (types, inferred))
        _refuse(node, f"gives {actual}; it is {expected}")


def _refuse(node: Node, what: str) -> NoReturn:
    raise InternalError(f"{node.name} at %{node.result.number} {what}")
