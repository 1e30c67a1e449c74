"""What a whole graph computes as one program: its operations that have instructions, its values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from trnsim.compiler.emit import cores, exchange
from trnsim.compiler.patterns.preparation import prepared
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.types import BOOL
from trnsim.lower.emit.images import convolution, pooling
from trnsim.lower.legalize import legalize
from trnsim.lower.lowering import evaluate
from trnsim.lower.program import traced
from trnsim.lower.rules import check

Array = np.ndarray[Any, Any]
_RULES: Final = (cores, exchange)
"""Importing them completes the table of emitters."""


def legal(graph: Graph, weights: frozenset[int]) -> tuple[Graph, frozenset[int]]:
    """The graph of operations that have instructions, and its weights by their numbers there.

    It gives what has elements: there is nothing else to compute.
    """

    def is_kept(node: Node) -> bool:
        return convolution.is_emitted(node, weights) or pooling.is_emitted(node)

    found = legalize(graph, is_kept)
    outputs = [value for value in found.outputs if value.type.elements]
    if len(outputs) < len(found.outputs):
        found = Graph(found.inputs, found.nodes, outputs)
    return found, weights & {value.number for value in found.inputs}


def values(
    graph: Graph,
    inputs: Sequence[Array],
    target: str = "trn2",
    weights: frozenset[int] = frozenset(),
) -> list[Array]:
    """The outputs of a graph, computed by its program.

    Raises:
        NotModelled: for an operation without instructions, by name.
    """
    parts = prepared(graph, weights)
    by_number = {v.number: one for v, one in zip(graph.inputs, inputs, strict=True)}
    if parts.ahead.outputs:
        given = [by_number[value.number] for value in parts.ahead.inputs]
        made = evaluate(parts.ahead, given, target)
        by_number |= {v.number: one for v, one in zip(parts.ahead.outputs, made, strict=True)}
    inputs = [by_number[value.number] for value in parts.step.inputs]
    wanted = graph.outputs
    graph, weights = legal(parts.step, parts.weights)
    for node in graph.nodes:
        if node.kind is Kind.COLLECTIVE:
            check(node)
    found = traced(graph, inputs, target, weights, numerics=True).outputs
    arrays = iter(found if isinstance(found, tuple) else (found,))
    return [_array_of(value, arrays) for value in wanted]


def _array_of(value: Value, arrays: Iterator[Array]) -> Array:
    """An output: the next array of the program, which gives none for what has no elements."""
    if not value.type.elements:
        return np.empty(value.shape, value.type.numpy_dtype())
    array = next(arrays)
    return (array.view(np.bool_) if value.dtype == BOOL else array).reshape(value.shape)
