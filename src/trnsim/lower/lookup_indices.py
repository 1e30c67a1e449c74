"""Indices of lookups that follow from shapes and from representative tokens.

The time of a program does not depend on its tokens, so representative tokens stand for them:
integers that count up. If the program compares its tokens with a number, as a text encoder does to
find the end of its text, they end with this number.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.layout import DynamicSlice
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.types import BOOL, INTEGERS, Array, TensorType

_MOST_ELEMENTS: Final = 1 << 20
"""Maximum number of elements of a tensor whose values are computed."""
_COMPUTED_KINDS: Final = (
    Kind.ALIAS,
    Kind.ELEMENTWISE,
    Kind.KERNEL,
    Kind.LEAF,
    Kind.REDUCTION,
    Kind.VIEW,
)
"""Kinds of operations whose values are computed."""


def known_indices(graph: Graph) -> dict[int, Array]:
    """The indices that gathers and dynamic slices read, by the number of their value.

    Values that depend on more than shapes and tokens have no entry.
    """
    index_numbers = {
        value.number
        for node in graph.nodes
        if isinstance(node.operation, DynamicSlice | Gather)
        for value in node.values[1:]
    }
    ancestors = _ancestors(graph, index_numbers)
    compared = _compared_numbers(ancestors)
    arrays = {
        value.number: _tokens(value.type, compared.get(value.number))
        for value in graph.inputs
        if value.dtype in (*INTEGERS, BOOL) and value.type.elements <= _MOST_ELEMENTS
    }
    for node in ancestors:
        if _is_simple(node) and all(value.number in arrays for value in node.values):
            operands = [arrays[o.number] if isinstance(o, Value) else o for o in node.operands]
            results = reference_of(node, operands)
            arrays.update(zip((value.number for value in node.results), results, strict=True))
    return {number: arrays[number] for number in index_numbers if number in arrays}


def _ancestors(graph: Graph, numbers: set[int]) -> list[Node]:
    """The nodes from which the values with some numbers are computed, in order."""
    ancestors, nodes = set(numbers), list[Node]()
    for node in reversed(graph.nodes):
        if any(value.number in ancestors for value in node.results):
            nodes.append(node)
            ancestors.update(value.number for value in node.values)
    return nodes[::-1]


def _is_simple(node: Node) -> bool:
    return node.kind in _COMPUTED_KINDS and all(
        value.type.elements <= _MOST_ELEMENTS for value in node.results
    )


def _compared_numbers(nodes: list[Node]) -> dict[int, float]:
    """The number with which tensors are compared for equality, by the number of the tensor."""
    return {
        node.values[0].number: float(number)
        for node in nodes
        if isinstance(node.operation, Compare) and node.operation.direction == "EQ"
        for number in node.operands
        if not isinstance(number, Value)
    }


def _tokens(token_type: TensorType, last: float | None) -> Array:
    """Integers that count up, and end with `last` if the type holds it; ones for truth values."""
    if token_type.dtype == BOOL:
        return np.ones(token_type.shape, np.bool_)
    counts: Any = np.arange(token_type.elements) % (np.iinfo(token_type.dtype).max + 1)
    tokens: Array = counts.reshape(token_type.shape).astype(token_type.dtype)
    limits = np.iinfo(token_type.dtype)
    if last is not None and token_type.shape and limits.min <= last <= limits.max:
        tokens[..., -1:] = last
    return tokens
