"""Conversion of graphs to plain values of JSON, and back; every part of stored values is checked.

    {"inputs": [[number, shape, dtype], ..],
     "nodes": [[name, attributes, operands, results, place of origin], ..],
     "outputs": [number, ..]}

An operand is ``[number]`` for a tensor, else a number. Calls of the user's own kernels
(`CustomCall`) are not stored, as a kernel is code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from trnsim.errors import BadInput, EmulatorError, NotModelled
from trnsim.graph.graph import Graph, Node, Operand, Value
from trnsim.graph.operation import OPERATIONS, Kind, Operation
from trnsim.graph.origin import Origin
from trnsim.graph.types import ELEMENT_TYPES, TensorType
from trnsim.graph.verifier import verify

_MAX_LENGTH: Final = 1 << 48
_MAX_RANK: Final = 64
_MAX_DEPTH: Final = 16
"""Maximum number of graphs within graphs."""
_INFINITE_NUMBERS: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def plain_graph(graph: Graph, place_of: Callable[[Origin], int] | None = None) -> dict[str, Any]:
    """A graph as plain values; `place_of` numbers the origins of its nodes.

    Raises:
        NotModelled: it calls a kernel of the user's own.
    """
    return {
        "inputs": [[value.number, list(value.shape), value.dtype] for value in graph.inputs],
        "nodes": [_plain_node(node, place_of) for node in graph.nodes],
        "outputs": [value.number for value in graph.outputs],
    }


def _plain_node(node: Node, place_of: Callable[[Origin], int] | None) -> list[Any]:
    if node.kind is Kind.CALL:
        raise NotModelled(
            "a graph that calls a kernel of your own is not stored: the kernel is code",
            fix="compile it in the process that has the kernel",
        )
    attributes = {
        member.name: _stored_value(getattr(node.operation, member.name), place_of)
        for member in fields(node.operation)
    }
    operands = [
        [operand.number] if isinstance(operand, Value) else _stored_value(operand, place_of)
        for operand in node.operands
    ]
    results = [[value.number, list(value.shape), value.dtype] for value in node.results]
    place = -1 if node.origin is None or place_of is None else place_of(node.origin)
    return [node.name, attributes, operands, results, place]


def _stored_value(value: Any, place_of: Callable[[Origin], int] | None) -> Any:
    if isinstance(value, Graph):
        return {"graph": plain_graph(value, place_of)}
    if isinstance(value, TensorType):
        return {"tensor": [list(value.shape), value.dtype]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, tuple):
        return [_stored_value(item, place_of) for item in value]
    return value


def graph_from_plain(values: Any, origins: Sequence[Origin] = ()) -> Graph:
    """The graph of plain values.

    Raises:
        BadInput: for values that are no graph, or none that is legal.
    """
    try:
        graph = _parse_graph(values, origins, 0)
        verify(graph)
    except EmulatorError as error:
        raise BadInput(f"the stored graph is not legal: {error.reason}") from error
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise BadInput(f"the stored values are no graph: {error!r}"[:500]) from error
    return graph


def _parse_graph(values: Any, origins: Sequence[Origin], depth: int) -> Graph:
    if depth > _MAX_DEPTH:
        raise ValueError(f"graphs of more than {_MAX_DEPTH} levels")
    by_number: dict[int, Value] = {}
    graph = Graph([_parse_value(item, by_number) for item in values["inputs"]])
    for name, attributes, operands, results, place in values["nodes"]:
        operation = _parse_operation(name, attributes, origins, depth)
        operands_read: list[Operand] = [_parse_operand(item, by_number) for item in operands]
        results_read = tuple(_parse_value(item, by_number) for item in results)
        origin = origins[place] if isinstance(place, int) and 0 <= place < len(origins) else None
        graph.append(Node(operation, tuple(operands_read), results_read, origin))
    graph.outputs = [by_number[number] for number in values["outputs"]]
    # Values that are added later have numbers of their own.
    return Graph(
        graph.inputs,
        graph.nodes,
        graph.outputs,
        _count=max(by_number, default=-1) + 1,
        _producers={value.number: node for node in graph.nodes for value in node.results},
    )


def _parse_value(values: Any, by_number: dict[int, Value]) -> Value:
    number, shape, dtype = values
    if type(number) is not int or number in by_number or not 0 <= number < _MAX_LENGTH:
        raise ValueError(f"a tensor of number {number!r}")
    by_number[number] = Value(number, _tensor_type(shape, dtype))
    return by_number[number]


def _tensor_type(shape: Any, dtype: Any) -> TensorType:
    if dtype not in ELEMENT_TYPES:
        raise ValueError(f"a tensor of {dtype!r}")
    sides = _integers(shape)
    if len(sides) > _MAX_RANK or not all(0 <= side < _MAX_LENGTH for side in sides):
        raise ValueError(f"a tensor of shape {shape!r}")
    return TensorType(sides, dtype)


def _parse_operand(values: Any, by_number: Mapping[int, Value]) -> Operand:
    if isinstance(values, list):
        return by_number[values[0]]
    return _parse_float(values)


def _parse_operation(
    name: Any, attributes: Mapping[str, Any], origins: Sequence[Origin], depth: int
) -> Operation:
    declared = OPERATIONS[name]
    if declared.kind is Kind.CALL:
        raise ValueError("a kernel of the user's own")
    kinds = {member.name: str(member.type) for member in fields(declared)}
    if attributes.keys() != kinds.keys():
        raise ValueError(f"{name} with {', '.join(attributes)}")
    return declared(
        **{
            key: _parse_attribute(value, kinds[key], origins, depth)
            for key, value in attributes.items()
        }
    )


def _parse_attribute(value: Any, kind: str, origins: Sequence[Origin], depth: int) -> Any:
    """An attribute from its plain value; `kind` is the annotation of the operation's field."""
    if value is None and kind.endswith("| None"):
        return None
    return _parse_present(value, kind.removesuffix("| None").strip(), origins, depth)


def _parse_present(value: Any, kind: str, origins: Sequence[Origin], depth: int) -> Any:
    """An attribute that is not None; arguments are those of `_parse_attribute`."""
    if kind in ("int", "bool", "str"):
        if type(value).__name__ != kind:
            raise TypeError(f"{value!r} for {kind}")
        return value
    if kind in _TUPLE_KINDS:
        element_kind = _TUPLE_KINDS[kind]
        return tuple(
            _parse_attribute(item, element_kind, origins, depth) for item in _checked_list(value)
        )
    if kind == "Graph":
        graph = _parse_graph(value["graph"], origins, depth + 1)
        verify(graph)
        return graph
    return _PARSERS[kind](value)


def _checked_list(values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} for a list")
    return values


def _integers(values: Any) -> tuple[int, ...]:
    if not all(type(item) is int for item in _checked_list(values)):
        raise TypeError(f"{values!r} for whole numbers")
    return tuple(values)


def _parse_float(value: Any) -> float:
    if isinstance(value, dict):
        return _INFINITE_NUMBERS[value["float"]]
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} for a number")
    return value  # type: ignore[no-any-return]


_TUPLE_KINDS: Final = {
    "tuple[Graph, ...]": "Graph",
    "tuple[tuple[int, ...], ...]": "Shape",
    "tuple[tuple[int, int], ...]": "Shape",
}
"""The kinds of attributes that are tuples, with the kind of an element."""
_PARSERS: Final[dict[str, Callable[[Any], Any]]] = {
    "float": _parse_float,
    "Shape": _integers,
    "tuple[int, int]": _integers,
    "tuple[int, ...]": _integers,
    "TensorType": lambda value: _tensor_type(*value["tensor"]),
}
"""Functions that parse an attribute, by its declared kind."""
