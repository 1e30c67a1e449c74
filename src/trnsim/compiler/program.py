"""Legalization of a whole graph for one program, and the outputs that the program computes.

`trnsim.lower.program` traces the program's instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from trnsim.compiler.emit import cores, exchange
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.types import BOOL
from trnsim.lower.emit.images import convolution, pooling
from trnsim.lower.legalize import legalize
from trnsim.lower.lowering import checked_inputs, evaluate
from trnsim.lower.program import run_graph
from trnsim.lower.rules import require_instructions

Array = np.ndarray[Any, Any]
_RULES: Final = (cores, exchange)
"""Importing them completes the table of emitters."""


def legalize_graph(graph: Graph, weights: frozenset[int]) -> tuple[Graph, frozenset[int]]:
    """An equal graph of operations that have instructions, and the numbers of its weights.

    Outputs without elements are left out: there is nothing to compute.
    """

    def is_kept(node: Node) -> bool:
        return convolution.is_emitted(node, weights) or pooling.is_emitted(node)

    legal_graph = legalize(graph, is_kept)
    outputs = [value for value in legal_graph.outputs if value.type.elements]
    if len(outputs) < len(legal_graph.outputs):
        legal_graph = Graph(legal_graph.inputs, legal_graph.nodes, outputs)
    return legal_graph, weights & {value.number for value in legal_graph.inputs}


def evaluate_program(
    graph: Graph,
    inputs: Sequence[Array],
    target: str = "trn2",
    weights: frozenset[int] = frozenset(),
) -> list[Array]:
    """The outputs of a graph, computed by its program.

    Raises:
        BadInput: where the inputs are not those that the graph takes.
        NotModelled: for an operation without instructions, by name.
    """
    inputs = checked_inputs(graph, inputs)
    parts = prepare_graph(graph, weights)
    by_number = {v.number: array for v, array in zip(graph.inputs, inputs, strict=True)}
    if parts.ahead.outputs:
        weights_ahead = [by_number[value.number] for value in parts.ahead.inputs]
        arrays_ahead = evaluate(parts.ahead, weights_ahead, target)
        by_number |= {
            v.number: array for v, array in zip(parts.ahead.outputs, arrays_ahead, strict=True)
        }
    inputs = [by_number[value.number] for value in parts.step.inputs]
    outputs = graph.outputs
    graph, weights = legalize_graph(parts.step, parts.weights)
    for node in graph.nodes:
        if node.kind is Kind.COLLECTIVE:
            require_instructions(node)
    results = run_graph(graph, inputs, target, weights, numerics=True).outputs
    arrays = iter(results if isinstance(results, tuple) else (results,))
    return [_array_of(value, arrays) for value in outputs]


def _array_of(value: Value, arrays: Iterator[Array]) -> Array:
    """An output: the program's next array, or an empty one if it has no elements."""
    if not value.type.elements:
        return np.empty(value.shape, value.type.numpy_dtype())
    array = next(arrays)
    return (array.view(np.bool_) if value.dtype == BOOL else array).reshape(value.shape)
