"""Multiplications and additions that a node needs for the needed elements of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from trnsim.graph import Graph, Node
from trnsim.graph.ops.contraction import Attention, AttentionBackward, AttentionBase, Convolution
from trnsim.graph.ops.control_flow import Branching, While
from trnsim.graph.types import Array
from trnsim.lower.demand import Box, Mask, count_elements, demands, fraction_of, interval_counts


def needed_flop(node: Node, demand: Mapping[int, Box]) -> float:
    """The FLOP of a node for the needed elements of its results.

    A multiplication and an addition count for each product in the sum of a needed element. Products
    with zeros of padding count, those with zeros in gaps do not.
    """
    boxes = [demand.get(value.number) for value in node.results]
    if not any(box is not None and count_elements(box) for box in boxes):
        return 0.0
    for kinds, rule in _RULES.items():
        if isinstance(node.operation, kinds):
            return rule(node, boxes)
    shares = [fraction_of(box, value.shape) for box, value in zip(boxes, node.results, strict=True)]
    return float(node.operation.flop(*node.operand_types) * max(shares))


def _attention_flop(node: Node, boxes: list[Box | None]) -> float:
    """FLOP of the needed rows of scores, and of the weighted sums for needed rows and columns."""
    operation: Any = node.operation
    result, sums = boxes
    query, key = node.values[0].shape, node.values[1].shape
    pairs, _ = _pairs(operation, query[-2], key[-2])
    rows = [box for box in (result[:-1] if result else None, sums) if box is not None]
    scores = max(count_elements(box[:-1]) * pairs[box[-1]].sum() for box in rows)
    flop = 2.0 * scores * query[-1]
    if result:
        *heads, rows_needed, columns = result
        flop += 2.0 * count_elements(tuple(heads)) * pairs[rows_needed].sum() * int(columns.sum())
    return float(flop)


def _attention_backward_flop(node: Node, boxes: list[Box | None]) -> float:
    """FLOP of the scores, of each result, and of the weights' gradient if Q or K needs it."""
    operation: Any = node.operation
    query, key, value = (operand.shape for operand in node.values[:3])
    keys_seen, queries_seeing = _pairs(operation, query[-2], key[-2])
    counts = [
        float(count_elements(box[:-2]) * pairs[box[-2]].sum()) if box is not None else 0.0
        for box, pairs in zip(boxes, (keys_seen, queries_seeing, queries_seeing), strict=True)
    ]
    widths = [int(box[-1].sum()) if box is not None else 0 for box in boxes]
    result_pairs = sum(count * width for count, width in zip(counts, widths, strict=True))
    return 2.0 * (max(counts) * key[-1] + max(counts[:2]) * value[-1] + result_pairs)


def _pairs(operation: AttentionBase, queries: int, keys: int) -> tuple[Array, Array]:
    """The number of keys that each query attends to, and of queries that attend to each key."""
    starts, ends = operation.visible_keys(queries, keys)
    return ends - starts, interval_counts(starts, ends, keys)


def _convolution_flop(node: Node, boxes: list[Box | None]) -> float:
    """FLOP of the needed windows, over the taps that fall into no gap."""
    operation: Any = node.operation
    box = boxes[0] or ()
    taps = node.values[1].shape[2:]
    sides = zip(box[2:], taps, operation.strides, operation.low, strict=True)
    data_taps = [
        _taps_of_data(mask, stride, low, np.arange(count) * dilation, gap + 1)
        for (mask, count, stride, low), dilation, gap in zip(
            sides, operation.dilations, operation.gaps, strict=True
        )
    ]
    return float(2 * count_elements(box[:2]) * node.values[1].shape[1] * prod(data_taps))


def _taps_of_data(mask: Mask, stride: int, low: int, taps: Any, period: int) -> int:
    """The number of pairs of a needed window and a tap that falls into no gap."""
    places = np.flatnonzero(mask)[:, None] * stride - low + taps
    return int((places % period == 0).sum())


def _graph_flop(graph: Graph, output_boxes: list[Box | None]) -> tuple[float, list[Box | None]]:
    """The FLOP of a graph for needed boxes of its outputs, and the needed boxes of its inputs."""
    demand = demands(graph, output_boxes)
    flop = sum((needed_flop(node, demand) for node in graph.nodes), 0.0)
    return flop, [demand.get(value.number) for value in graph.inputs]


def _branches_flop(node: Node, boxes: list[Box | None]) -> float:
    """The FLOP of the branch that needs least."""
    operation: Any = node.operation
    needs: list[float] = [_graph_flop(branch, boxes)[0] for branch in operation.branches]
    return min(needs)


def _loop_flop(node: Node, boxes: list[Box | None]) -> float:
    """The FLOP of a loop, added up from the last trip backwards until two trips need the same."""
    operation: Any = node.operation
    trips: int = operation.trips or 0
    flop, output_boxes = 0.0, boxes
    for trip in range(trips):
        trip_flop, before = _graph_flop(operation.body, output_boxes)
        if all(map(_is_same, before, output_boxes)):
            return flop + trip_flop * (trips - trip)
        flop, output_boxes = flop + trip_flop, before
    return flop


def _is_same(first: Box | None, second: Box | None) -> bool:
    if first is None or second is None:
        return first is second
    return all(map(np.array_equal, first, second))


_RULES: Final[dict[type, Callable[[Node, list[Box | None]], float]]] = {
    Attention: _attention_flop,
    AttentionBackward: _attention_backward_flop,
    Branching: _branches_flop,
    Convolution: _convolution_flop,
    While: _loop_flop,
}
