"""Integers of a program of JAX that the chip's program would round, since engines have float32.

Reductions, running results, searches for the largest elements, and products compute integers in
float32, exact up to 2**24; elementwise operations and sorts are exact. A call is checked by the
references of the graph's operations on which such integers depend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.graph import Graph, Kind, Node, Value, rounding_with
from trnsim.graph.graph import reference_of
from trnsim.graph.ops.contraction import Convolution, DotGeneral
from trnsim.graph.ops.reductions import Reduce, ReduceWindow, Scan, TopK
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import INTEGERS, round_to_dtype
from trnsim.lower.control import inner_graphs

Array = npt.NDArray[Any]

_PRODUCTS: Final = (DotGeneral, Convolution)
"""Operations that sum products."""
_IN_FLOAT32: Final = (Reduce, ReduceWindow, Scan, TopK, *_PRODUCTS)
"""Operations that compute integers in float32."""
_LEAST_ROUNDED: Final = 2**24
"""The magnitude from which on float32 lacks integers."""
_UNKNOWN_KINDS: Final = (Kind.COLLECTIVE, Kind.CALL)
"""Operations whose results do not follow from the graph of one device."""


class LargeIntegers:
    """The check of a graph for integers that the chip's program would round."""

    def __init__(self, graph: Graph) -> None:
        self._checked_nodes = _nodes_that_round(graph)
        end_values = [value for node in self._checked_nodes for value in node.results]
        self._part = Graph(graph.inputs, list(graph.nodes), end_values)
        self._part.prune()
        if any(node.kind in _UNKNOWN_KINDS for node in self._part.nodes):
            self._checked_nodes = []

    def reason(self, inputs: Sequence[Array]) -> str:
        """Why the program cannot compute the graph for these inputs; empty if it can."""
        if not self._checked_nodes:
            return ""
        arrays = {v.number: array for v, array in zip(self._part.inputs, inputs, strict=True)}
        checked_ids = {id(node) for node in self._checked_nodes}
        for node in self._part.nodes:
            operands = [arrays[o.number] if isinstance(o, Value) else o for o in node.operands]
            peak = _Peak()
            is_checked = id(node) in checked_ids
            with np.errstate(all="ignore"), rounding_with(peak.note_and_round):
                results = reference_of(node, operands)
                if is_checked and node.kind is not Kind.CONTROL:
                    peak.note_node(node, operands)
            if is_checked and peak.magnitude >= _LEAST_ROUNDED:
                return f"{node.name} has integers beyond 2**24, which engines round"
            arrays.update(zip((value.number for value in node.results), results, strict=True))
        return ""


class _Peak:
    """The largest magnitude among integers.

    Attributes:
        magnitude: that magnitude so far.
    """

    def __init__(self) -> None:
        self.magnitude = 0.0

    def note(self, numbers: Array) -> None:
        """Count some numbers, which are integers."""
        if numbers.size:
            self.magnitude = max(self.magnitude, -float(numbers.min()), float(numbers.max()))

    def note_and_round(self, numbers: Array, dtype: str) -> Array:
        """Numbers as a tensor stores them; integers are counted."""
        if dtype in INTEGERS:
            self.note(numbers)
        return round_to_dtype(numbers, dtype)

    def note_node(self, node: Node, operands: Sequence[Any]) -> None:
        """Count the operands of a node, and a sum of their magnitudes where it adds or multiplies.

        No partial result exceeds that sum.
        """
        sizes = [np.abs(np.asarray(operand).astype(np.float64)) for operand in operands]
        for size in sizes:
            self.note(size)
        if getattr(node.operation, "op", "add") in ("add", "multiply") and not isinstance(
            node.operation, TopK
        ):
            self.note(np.asarray(node.operation.reference(*sizes)))


def _nodes_that_round(graph: Graph) -> list[Node]:
    """The operations of a graph that compute integers in float32, and control flow with such."""
    outer_nodes = (
        node
        for node in graph.nodes
        if _rounds_integers(node) or any(map(_has_rounded_integers, inner_graphs(node.operation)))
    )
    producers = {value.number: node for node in graph.nodes for value in node.results}
    products = (
        producers[value.number]
        for node in graph.nodes
        if isinstance(node.operation, Convert) and node.result.dtype in INTEGERS
        for value in node.values
        if value.number in producers
    )
    return [*outer_nodes, *(node for node in products if _is_product_of_integers(node, producers))]


def _rounds_integers(node: Node) -> bool:
    """True for an operation on integers that computes them in float32."""
    return isinstance(node.operation, _IN_FLOAT32) and any(v.dtype in INTEGERS for v in node.values)


def _has_rounded_integers(graph: Graph) -> bool:
    """True if a graph, or a graph within it, computes integers in float32."""
    return bool(_nodes_that_round(graph))


def _is_product_of_integers(node: Node, producers: Mapping[int, Node]) -> bool:
    """True for a product or convolution of integers, which a program converts to float32."""
    operands = [producers.get(value.number) for value in node.values]
    return isinstance(node.operation, _PRODUCTS) and all(
        producer is not None
        and isinstance(producer.operation, Convert)
        and producer.values[0].dtype in INTEGERS
        for producer in operands
    )
