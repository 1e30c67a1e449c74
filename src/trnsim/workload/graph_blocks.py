"""A graph as blocks of operators: what `passes` says of a formula, read from a captured program.

Operations whose module's path has a number are of that layer; layers that do the same are one block
with how many there are. Elementwise operations count each by itself, so that fusion, which spares
many of their reads, is left to whoever gives them a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from trnsim.dtypes import as_dtype
from trnsim.graph import Graph, Node, Value
from trnsim.graph.operation import Kind
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution, DotGeneral
from trnsim.graph.ops.layout import Pad, Reshape, Transpose
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.rounding import Convert
from trnsim.workload.operators import Axis, Block, Cache, Elementwise, Exchange, Product

_OF_LAYER: Final = re.compile(r"^(.*?\.\d+)(\.|$)")
_MOVED: Final = (Kind.ALIAS, Kind.VIEW)
_CACHED_RANK: Final = 4
_STACKED_RANK: Final = 3
"""Dimensions of a weight that holds a matrix for each expert."""
_GRADIENT_PRODUCTS: Final = 2.5
"""Products of attention's gradients for each of its own: five for two."""
_FLOP: Final = 2
CAST: Final = "cast"
"""The name of what gives a value another type, whatever operator it is part of."""


def graph_blocks(
    graph: Graph, weights: Collection[int], *, is_generating: bool = False
) -> tuple[Block, ...]:
    """The blocks of a graph.

    Args:
        graph: what one rank computes.
        weights: the numbers of its inputs that are weights.
        is_generating: whether inputs and outputs of four dimensions are keys and values.
    """
    reader = _Reader(graph, weights, is_generating=is_generating)
    found: dict[Block, int] = {}
    for name, nodes in _parts(graph.nodes):
        block = reader.block(name, nodes)
        if block.products or block.elementwise or block.exchanges:
            found[block] = found.get(block, 0) + 1
    return tuple(replace(block, times=times) for block, times in found.items())


def _parts(nodes: Iterable[Node]) -> list[tuple[str, list[Node]]]:
    """Operations by layer, and those of no layer by where they lie: before, or behind a layer."""
    found: dict[str, list[Node]] = {}
    last = ""
    for node in nodes:
        met = _OF_LAYER.match(node.origin.module if node.origin else "")
        last = met[1] if met else last
        key = met[1] if met else f"\0{last}"
        found.setdefault(key, []).append(node)
    return [(_name(key), part) for key, part in found.items()]


def _name(key: str) -> str:
    """What a block is called; operations before all layers are taken as an embedding."""
    if key.startswith("\0"):
        return "outside" if len(key) > 1 else "embedding"
    return "layer"


class _Reader:
    """The blocks of one graph."""

    def __init__(self, graph: Graph, weights: Collection[int], *, is_generating: bool) -> None:
        self.is_generating = is_generating
        self.outputs = {value.number for value in graph.outputs}
        self.inputs = {value.number for value in graph.inputs}
        self.held: set[int] = set()
        self.origin: dict[int, Value] = {
            value.number: value for value in graph.inputs if value.number in weights
        }
        """The weight that a value is, in another shape or type."""
        self.routed: set[int] = set()
        """Values that are experts' matrices, chosen by what tokens take."""
        self.makers = {value.number: node for node in graph.nodes for value in node.results}
        for node in graph.nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        is_moved = node.kind in _MOVED or isinstance(node.operation, Transpose | Reshape)
        is_cast = node.kind is Kind.ELEMENTWISE and len(node.operands) == 1
        source = self.origin.get(node.values[0].number) if node.values else None
        if source is None:
            return
        is_chosen = isinstance(node.operation, Gather) and len(source.shape) == _STACKED_RANK
        if is_chosen or (len(node.values) == 1 and (is_moved or is_cast)):
            self.origin[node.result.number] = source
        if is_chosen or (is_moved and node.values[0].number in self.routed):
            self.routed.add(node.result.number)

    def block(self, name: str, nodes: list[Node]) -> Block:
        """One of the blocks."""
        products = [one for node in nodes for one in self._products(node)]
        others = [one for node in nodes for one in self._elementwise(node)]
        exchanges = [one for node in nodes for one in _exchanges(node)]
        held = sum(_nbytes(value) for node in nodes for value in self._first_seen(node))
        return Block(
            name,
            1,
            tuple(products),
            tuple(_summed(others)),
            tuple(exchanges),
            self._cache(nodes),
            held,
        )

    def _first_seen(self, node: Node) -> Iterable[Value]:
        """Weights that no operation before this one has."""
        for value in node.values:
            source = self.origin.get(value.number)
            if source is not None and source.number not in self.held:
                self.held.add(source.number)
                yield source

    def _products(self, node: Node) -> list[Product]:
        operation = node.operation
        if isinstance(operation, DotGeneral):
            return [self._matrices(node, operation)]
        if isinstance(operation, Convolution):
            return [self._windows(node, operation)]
        if isinstance(operation, Attention | AttentionBackward):
            return _attention(node)
        return []

    def _matrices(self, node: Node, operation: DotGeneral) -> Product:
        lhs, rhs = node.values
        k = lhs.shape[operation.contracting[0]]
        *batch, m, n = node.result.shape
        weight = self.origin.get(rhs.number)
        if weight is None and lhs.number in self.origin:
            weight, m, n = self.origin[lhs.number], n, m
        times = math.prod(batch)
        if weight is not None and rhs.number in self.routed:
            return self._routed(node, weight, k, n)
        if weight is not None and weight.type.elements < times * k * n:  # one for all of a batch
            times = max(1, weight.type.elements // (k * n))
            m = m * math.prod(batch) // times
        bits = _bits(lhs)
        return Product(_operator(node), m, k, n, times, _bits(weight) if weight else 0, bits=bits)

    def _routed(self, node: Node, weight: Value, k: int, n: int) -> Product:
        """Experts, which rows take evenly; a graph has them in tiles of rows, filled up with zeros.

        Of E experts, ``E (1 - (1 - 1/E)^rows)`` are met.
        """
        lhs, experts = node.values[0], weight.shape[0]
        rows = self._before_tiles(lhs)
        met = experts * (1 - (1 - 1 / experts) ** rows)
        bits = _bits(weight)
        return Product(_operator(node), rows / met, k, n, met, bits, bits=_bits(lhs))

    def _before_tiles(self, value: Value) -> int:
        """Rows of a matrix before they were gathered into tiles."""
        maker = self.makers.get(value.number)
        while maker is not None and isinstance(maker.operation, Reshape | Gather | Pad):
            if isinstance(maker.operation, Pad):
                return maker.values[0].shape[0]
            maker = self.makers.get(maker.values[0].number)
        return math.prod(value.shape[:-1])

    def _windows(self, node: Node, operation: Convolution) -> Product:
        """A convolution: a row for each place, a column for each output of a group."""
        image, taps = node.values
        k, n = math.prod(taps.shape[1:]), taps.shape[0] // operation.groups
        flop = operation.flop(*node.given)
        m = flop / (_FLOP * k * n * operation.groups)
        weight = self.origin.get(taps.number)
        bits = _bits(weight) if weight else 0
        return Product(_operator(node), m, k, n, operation.groups, bits, bits=_bits(image))

    def _elementwise(self, node: Node) -> list[Elementwise]:
        """What reads and writes elements one by one; a look-up reads what it gives."""
        if node.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.KERNEL, Kind.CALL):
            return []
        if all(result.number in self.origin for result in node.results):
            return []  # a weight in another type, made once
        written = sum(result.type.elements for result in node.results)
        if isinstance(node.operation, Gather):
            return [Elementwise("lookup", 2 * written)]
        weights = [self.origin[one.number] for one in node.values if one.number in self.origin]
        name = CAST if isinstance(node.operation, Convert) else _operator(node)
        read = sum(one.type.elements for one in node.values if one.number not in self.origin)
        nbytes = sum(_nbytes(one) for one in weights)
        return [Elementwise(name, written + read, nbytes)]

    def _cache(self, nodes: list[Node]) -> Cache:
        """Keys and values that are given, and those that are results."""
        if not self.is_generating:
            return Cache(0.0, 0.0)
        given = {
            value.number: value
            for node in nodes
            for value in node.values
            if value.number in self.inputs
            and value.number not in self.origin
            and len(value.shape) == _CACHED_RANK
        }
        made = {
            value.number: value
            for node in nodes
            for value in node.results
            if value.number in self.outputs and len(value.shape) == _CACHED_RANK
        }
        return Cache(sum(map(_nbytes, given.values())), sum(map(_nbytes, made.values())))


def _attention(node: Node) -> list[Product]:
    """Queries with keys, scores with values; a mask is known where it is causal alone."""
    query, _, value = node.given[:3]
    heads, rows, keys = math.prod(query.shape[:-2]), query.shape[-2], value.shape[-2]
    times = heads * (_GRADIENT_PRODUCTS if isinstance(node.operation, AttentionBackward) else 1)
    scores = Product("scores", rows, query.shape[-1], keys, times, bits=_bits(node.values[0]))
    values = replace(scores, name="values", k=keys, n=value.shape[-1])
    whole = scores.flop + values.flop
    causal = node.operation.flop(*node.given) / whole if whole else 1.0
    return [replace(one, causal=causal) for one in (scores, values)]


def _exchanges(node: Node) -> list[Exchange]:
    if node.kind is not Kind.COLLECTIVE:
        return []
    given = sum(map(_nbytes, node.values))
    made = sum(map(_nbytes, node.results))
    return [Exchange(node.name, max(given, made), Axis.TENSOR)]


def _summed(found: list[Elementwise]) -> list[Elementwise]:
    """One for each name."""
    sums: dict[str, tuple[float, float]] = {}
    for one in found:
        elements, nbytes = sums.get(one.name, (0.0, 0.0))
        sums[one.name] = elements + one.elements, nbytes + one.weight_bytes
    return [Elementwise(name, *both) for name, both in sums.items()]


def _operator(node: Node) -> str:
    """The framework's operator, else the operation."""
    named = node.origin.operator if node.origin else ""
    return named.partition("::")[2].partition(".")[0] or node.name


def _bits(value: Value) -> int:
    return int(as_dtype(value.dtype).itemsize * 8)


def _nbytes(value: Value) -> float:
    return float(value.type.nbytes)
