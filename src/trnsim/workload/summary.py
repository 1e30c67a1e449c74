"""Summaries of graphs: products, elements, exchanges, keys and values, parameters.

Plans read a pass by these sums. In graphs that this package builds, each operator is known by name,
and its elements are counted as constants were fitted: once in and once out, without those of
rotations and routing. In captured graphs, operations whose module path has a number belong to that
layer, equal layers are merged with their number, and elementwise operations are counted one by one,
so that models of time can account for fusion.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from trnsim.graph import Graph, Node, Value
from trnsim.graph.operation import Kind
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution, DotGeneral
from trnsim.graph.ops.layout import BroadcastInDim, Pad, Reshape, Slice, Transpose
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.reductions import TopK
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.workload.operators import (
    PER_MULTIPLICATION,
    Axis,
    Cache,
    Elementwise,
    Exchange,
    Product,
    bytes_of,
)
from trnsim.workload.rank_graph import RankGraph, Use, Weight

_LAYER_NAME: Final = re.compile(r"^(.*?\.\d+)(\.|$)")
"""The path of a module up to the number of its layer."""
_MOVING_KINDS: Final = (Kind.ALIAS, Kind.VIEW)
"""Kinds of operations that compute nothing."""
_CACHED_RANK: Final = 4
"""Number of dimensions of a cache of keys or values: [B, H, T, D]."""
_STACKED_RANK: Final = 3
"""Number of dimensions of a weight that holds a matrix for each expert."""
_GRADIENT_PRODUCTS: Final = 2.5
"""Products of attention's gradients for each of its own: five for two."""
_PASSES_OF_ELEMENT: Final = 2
"""Passes of an element that is read and written."""
CAST: Final = "cast"
"""Name of conversions of type, whatever operator they are part of."""
_NORMS: Final = "norms and residuals"
_COUNTED_OPERATORS: Final = {
    "lookup": "lookup",
    "places": "lookup",
    "norm": _NORMS,
    "residual": _NORMS,
    "activation": "activation",
    "gating": "activation",
    "output gate": "gate",
    "convolution": "convolution",
    "recurrence": "recurrence",
}
"""Operators whose elements are counted, with the name under which they are summed."""


@dataclass(frozen=True)
class PartSummary:
    """Equal layers, or the embedding or head, on one rank.

    Attributes:
        name: "layer", "embedding", "head".
        times: number of layers.
        elementwise: other operators.
        cache: keys and values that it reads and writes.
        resident_bytes: bytes of parameters that a rank holds for one layer, all experts included;
            of weights that layers share, each layer's share.
        parameters: number of these parameters.
        expert_parameters: parameters of experts among them.
        active_parameters: parameters that one token uses.
        flop: FLOPs of the products of one layer.
        useful_flop: FLOPs of one layer that no mask discards.
        weight_bytes: bytes of the parameters that one layer reads.
    """

    name: str
    times: int
    products: tuple[Product, ...] = ()
    elementwise: tuple[Elementwise, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    cache: Cache = field(default=Cache(0.0, 0.0))
    resident_bytes: float = 0.0
    parameters: float = 0.0
    expert_parameters: float = 0.0
    active_parameters: float = 0.0
    flop: float = field(init=False, compare=False)
    useful_flop: float = field(init=False, compare=False)
    weight_bytes: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        product_bytes = sum(product.weight_bytes for product in self.products)
        derived = {
            "flop": sum(product.flop for product in self.products),
            "useful_flop": sum(product.useful_flop for product in self.products),
            "weight_bytes": product_bytes + sum(op.weight_bytes for op in self.elementwise),
        }
        for name, number in derived.items():
            object.__setattr__(self, name, number)


def graph_summary(rank_graph: RankGraph, name: str, times: int, copies: int) -> PartSummary:
    """Summary of `times` layers with this graph, of which `copies` have weights of their own."""
    return _BuiltReader(rank_graph).summary(name, times, copies / times)


def captured_summaries(
    graph: Graph, weights: Collection[int], *, is_generating: bool = False
) -> tuple[PartSummary, ...]:
    """Summaries of the parts of a captured graph.

    Args:
        graph: the graph of one rank.
        weights: the numbers of its inputs that are weights.
        is_generating: whether inputs and outputs of four dimensions are keys and values.
    """
    inputs = {value.number: value for value in graph.inputs if value.number in weights}
    rank_graph = RankGraph(graph=graph, weights={n: Weight(_bits(v), 0) for n, v in inputs.items()})
    if is_generating:
        results = {value.number: value for node in graph.nodes for value in node.results}
        rank_graph.cache_inputs = _cache_bits(
            value for value in graph.inputs if value.number not in weights
        )
        rank_graph.cache_outputs = _cache_bits(
            value for value in graph.outputs if value.number in results
        )
    reader = _CapturedReader(rank_graph)
    counts: dict[PartSummary, int] = {}
    for name, nodes in _parts(graph.nodes):
        summary = reader.part(name, nodes)
        if summary.products or summary.elementwise or summary.exchanges:
            counts[summary] = counts.get(summary, 0) + 1
    return tuple(replace(summary, times=times) for summary, times in counts.items())


def _cache_bits(values: Iterable[Value]) -> dict[int, float]:
    return {value.number: _bits(value) for value in values if len(value.shape) == _CACHED_RANK}


def _parts(nodes: Iterable[Node]) -> list[tuple[str, list[Node]]]:
    """Operations by layer; those of no layer by the layer that precedes them."""
    parts: dict[str, list[Node]] = {}
    last = ""
    for node in nodes:
        match = _LAYER_NAME.match(node.origin.module if node.origin else "")
        last = match[1] if match else last
        key = match[1] if match else f"\0{last}"
        parts.setdefault(key, []).append(node)
    return [(_name(key), part) for key, part in parts.items()]


def _name(key: str) -> str:
    """The name of a part; operations before all layers are taken as an embedding."""
    if key.startswith("\0"):
        return "outside" if len(key) > 1 else "embedding"
    return "layer"


class _Reader:
    """Reader of the operations of one graph: their products, and the weights behind values."""

    def __init__(self, rank_graph: RankGraph) -> None:
        self.rank_graph = rank_graph
        self.origin: dict[int, Value] = {
            value.number: value
            for value in rank_graph.graph.inputs
            if value.number in rank_graph.weights
        }
        """By number of a value that is a weight in another shape or type, the weight."""
        self.routed = {n for n, weight in rank_graph.weights.items() if weight.use is Use.ROUTED}
        """Numbers of values that are matrices of the experts that tokens are routed to."""
        for node in rank_graph.graph.nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        is_moved = node.kind in _MOVING_KINDS or isinstance(node.operation, Transpose | Reshape)
        is_cast = node.kind is Kind.ELEMENTWISE and len(node.operands) == 1
        source = self.origin.get(node.values[0].number) if node.values else None
        if source is None:
            return
        is_chosen = isinstance(node.operation, Gather) and len(source.shape) == _STACKED_RANK
        if is_chosen or (len(node.values) == 1 and (is_moved or is_cast)):
            self.origin[node.result.number] = source
        if is_chosen or (is_moved and node.values[0].number in self.routed):
            self.routed.add(node.result.number)

    def products(self, node: Node) -> list[Product]:
        """The matrix products of an operation, without a product that selects experts' biases."""
        operation = node.operation
        if isinstance(operation, DotGeneral):
            return [] if _operator(node).endswith(" bias") else [self._matrices(node, operation)]
        if isinstance(operation, Convolution):
            return [self._windows(node, operation)]
        if isinstance(operation, Attention | AttentionBackward):
            return self._attention(node)
        return []

    def _matrices(self, node: Node, operation: DotGeneral) -> Product:
        lhs, rhs = node.values
        k = lhs.shape[operation.contracting[0]]
        *batch, m, n = node.result.shape
        source = self.origin.get(rhs.number)
        if source is None and lhs.number in self.origin:
            source, m, n = self.origin[lhs.number], n, m
        times, name = math.prod(batch), _operator(node)
        if source is None:
            return Product(name, m, k, n, times, bits=_bits(lhs))
        weight = self.rank_graph.weights[source.number]
        bits = weight.product_bits or _bits(lhs)
        if rhs.number in self.routed:
            return self._routed(node, source, Product(name, m, k, n, 1, weight.bits, bits=bits))
        if source.type.elements < times * k * n:  # one weight for all of a batch
            times = max(1, source.type.elements // (k * n))
            m = m * math.prod(batch) // times
        return Product(name, m, k, n, times, weight.bits, bits=bits)

    def _routed(self, node: Node, experts: Value, product: Product) -> Product:
        """Products of experts, to which rows are routed evenly."""
        rows = self.routed_rows(node.values[0])
        times = self.experts_used(rows, experts.shape[0])
        return replace(product, m=rows / times, times=times)

    def experts_used(self, rows: float, experts: int) -> float:
        """``E (1 - (1 - 1 / E)^rows)``: experts that at least one of evenly routed rows takes."""
        unused_share: float = (1 - 1 / experts) ** rows
        return experts * (1 - unused_share)

    def routed_rows(self, value: Value) -> int:
        """Rows that are routed to experts, before they are gathered into blocks of one expert."""
        producer = self.rank_graph.graph.producer(value)
        while producer is not None and isinstance(producer.operation, Reshape | Gather | Pad):
            if isinstance(producer.operation, Pad):
                return producer.values[0].shape[0]
            producer = self.rank_graph.graph.producer(producer.values[0])
        return math.prod(value.shape[:-1])

    def _windows(self, node: Node, operation: Convolution) -> Product:
        """A convolution: a row for each place, a column for each output of a group."""
        image, taps = node.values
        k, n = math.prod(taps.shape[1:]), taps.shape[0] // operation.groups
        flop = operation.flop(*node.operand_types)
        m = flop / (PER_MULTIPLICATION * k * n * operation.groups)
        weight = self.origin.get(taps.number)
        bits = _bits(weight) if weight else 0
        return Product(_operator(node), m, k, n, operation.groups, bits, bits=_bits(image))

    def _attention(self, node: Node) -> list[Product]:
        """Queries with keys, scores with values; heads that share keys are rows of one product."""
        query, key, value = node.values[:3]
        heads, queries, keys = math.prod(query.shape[:-2]), query.shape[-2], value.shape[-2]
        groups = min(self._elements_before_repeats(key) // (keys * key.shape[-1]), heads) or heads
        times = groups * (
            _GRADIENT_PRODUCTS if isinstance(node.operation, AttentionBackward) else 1
        )
        rows = queries * heads / groups
        scores = Product("scores", rows, query.shape[-1], keys, times, bits=_bits(query))
        values = replace(scores, name="values", k=keys, n=value.shape[-1])
        flop = scores.flop + values.flop
        causal = node.operation.flop(*node.operand_types) / flop if flop else 1.0
        return [replace(product, causal=causal) for product in (scores, values)]

    def _elements_before_repeats(self, value: Value) -> int:
        """Elements of a value before it was repeated."""
        elements, producer = value.type.elements, self.rank_graph.graph.producer(value)
        while producer is not None and isinstance(producer.operation, _REPEATING_OPERATIONS):
            value = producer.values[0]
            elements = min(elements, value.type.elements)
            producer = self.rank_graph.graph.producer(value)
        return elements


_REPEATING_OPERATIONS: Final = (BroadcastInDim, Reshape, Slice, Transpose, Convert)
"""Operations that a value passes unchanged, or repeated, or in part."""


class _BuiltReader(_Reader):
    """Reader of a graph that this package has built, operator by operator."""

    def summary(self, name: str, times: int, share: float) -> PartSummary:
        """The summary of the graph, which holds a share of its weights."""
        rank_graph, products, exchanges = self.rank_graph, list[Product](), list[Exchange]()
        norm_elements = rank_graph.uncomputed_norm_elements
        elementwise = [Elementwise(_NORMS, norm_elements)] if norm_elements else []
        self._routing = next((node for node in rank_graph.graph.nodes if _is_choice(node)), None)
        for origin, nodes in groupby(rank_graph.graph.nodes, lambda node: node.origin):
            operator, group = origin.operator if origin else "", list(nodes)
            group_products = [product for node in group for product in self.products(node)]
            products += group_products
            exchanges += [exchange for node in group for exchange in _exchanges(node)]
            if operator in _COUNTED_OPERATORS:
                result = group[-1].result
                elements = _PASSES_OF_ELEMENT * self.routed_rows(result) * result.shape[-1]
                elementwise.append(Elementwise(_COUNTED_OPERATORS[operator], elements))
            elementwise += [
                _softmax(product) for product in group_products if product.name == "scores"
            ]
        states = {n: rank_graph.cache_inputs[n] for n in rank_graph.states}
        caches = rank_graph.cache_inputs, rank_graph.cache_outputs, states
        return PartSummary(
            name,
            times,
            tuple(products),
            self._with_weights(_merged_halves(elementwise)),
            tuple(exchanges),
            Cache(*map(self._bytes, caches)),
            *self._parameters(share),
        )

    def routed_rows(self, value: Value) -> int:
        """Rows that are routed to experts, without the padding of their blocks."""
        rows = math.prod(value.shape[:-1])
        return self.rank_graph.unpadded_rows.get(rows, rows)

    def experts_used(self, rows: float, experts: int) -> float:
        """``E (1 - (1 - k / E)^tokens)`` of E experts, of which each token takes k others.

        Tokens come from all expert ranks, each of which has as many.
        """
        if self._routing is None:
            return super().experts_used(rows, experts)
        (scores,), per_token = self._routing.operand_types, self._routing.result.shape[-1]
        tokens, all_experts = math.prod(scores.shape[:-1]), scores.shape[-1]
        ranks = all_experts / experts
        unused_share: float = (1 - per_token / all_experts) ** (tokens * math.ceil(ranks))
        return max(all_experts * (1 - unused_share) / math.ceil(ranks), 1.0)

    def _bytes(self, numbers: dict[int, float]) -> float:
        graph = self.rank_graph.graph
        cached = {value.number: value for value in (*graph.inputs, *graph.outputs)}
        return sum(bytes_of(cached[n].type.elements, bits) for n, bits in numbers.items())

    def _parameters(self, share: float) -> tuple[float, float, float, float]:
        """Bytes, parameters, experts' and active parameters of this part, as in `PartSummary`."""
        nbytes = parameters = experts = active = 0.0
        per_token = self._routing.result.shape[-1] if self._routing else 1
        for value in self.rank_graph.graph.inputs:
            weight = self.rank_graph.weights.get(value.number)
            if weight is None or not weight.is_held:
                continue
            elements = value.type.elements
            is_routed = weight.use is Use.ROUTED
            nbytes += bytes_of(elements, weight.bits)
            parameters += elements
            experts += elements if is_routed else 0.0
            active += elements * per_token / value.shape[0] if is_routed else elements
        return share * nbytes, share * parameters, share * experts, active

    def _with_weights(self, elementwise: list[Elementwise]) -> tuple[Elementwise, ...]:
        """The operators; the first one reads all parameters that are in no product."""
        product_weights = {
            self.origin[value.number].number
            for node in self.rank_graph.graph.nodes
            if isinstance(node.operation, DotGeneral) and self.products(node)
            for value in node.values
            if value.number in self.origin
        }
        nbytes = sum(
            self._read(value)
            for value in self.rank_graph.graph.inputs
            if value.number in self.rank_graph.weights and value.number not in product_weights
        )
        if not elementwise:
            return (Elementwise("parameters", 0.0, nbytes),) if nbytes else ()
        return (replace(elementwise[0], weight_bytes=nbytes), *elementwise[1:])

    def _read(self, value: Value) -> float:
        """Bytes of a weight outside products that one pass reads."""
        weight = self.rank_graph.weights[value.number]
        if weight.use is Use.LOOKED_UP:
            return 0.0
        nbytes = bytes_of(value.type.elements, weight.bits)
        experts = value.shape[0]
        if weight.use is Use.ROUTED:
            return nbytes * self.experts_used(0, experts) / experts
        return nbytes


def _is_choice(node: Node) -> bool:
    """True if the node chooses the experts of each token."""
    return isinstance(node.operation, TopK) and _operator(node) == "routing"


def _softmax(scores: Product) -> Elementwise:
    """The softmax of unmasked scores, each read and written."""
    elements = _PASSES_OF_ELEMENT * scores.m * scores.n * scores.times * scores.causal
    return Elementwise("softmax", elements)


class _CapturedReader(_Reader):
    """Reader of a graph that was captured from a framework's program."""

    def __init__(self, rank_graph: RankGraph) -> None:
        super().__init__(rank_graph)
        self._counted_weights: set[int] = set()

    def part(self, name: str, nodes: list[Node]) -> PartSummary:
        """The summary of one of its parts."""
        products = [product for node in nodes for product in self.products(node)]
        others = [operator for node in nodes for operator in self._elementwise(node)]
        exchanges = [exchange for node in nodes for exchange in _exchanges(node)]
        weight_bytes = sum(_nbytes(value) for node in nodes for value in self._first_seen(node))
        return PartSummary(
            name,
            1,
            tuple(products),
            tuple(_merged(others)),
            tuple(exchanges),
            self._cache(nodes),
            weight_bytes,
        )

    def _first_seen(self, node: Node) -> Iterable[Value]:
        """Weights that no earlier operation uses."""
        for value in node.values:
            source = self.origin.get(value.number)
            if source is not None and source.number not in self._counted_weights:
                self._counted_weights.add(source.number)
                yield source

    def _elementwise(self, node: Node) -> list[Elementwise]:
        """Elementwise operators of a node; a lookup reads as much as it writes."""
        if node.kind not in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.KERNEL, Kind.CALL):
            return []
        if all(result.number in self.origin for result in node.results):
            return []  # a weight in another type, made once
        written = sum(result.type.elements for result in node.results)
        if isinstance(node.operation, Gather):
            return [Elementwise("lookup", 2 * written)]
        weights = [
            self.origin[value.number] for value in node.values if value.number in self.origin
        ]
        name = CAST if isinstance(node.operation, Convert) else _operator(node)
        read = sum(value.type.elements for value in node.values if value.number not in self.origin)
        nbytes = sum(_nbytes(value) for value in weights)
        return [Elementwise(name, written + read, nbytes)]

    def _cache(self, nodes: list[Node]) -> Cache:
        """Keys and values that the nodes read from the cache and write to it."""
        read = {
            v.number: v
            for node in nodes
            for v in node.values
            if v.number in self.rank_graph.cache_inputs
        }
        writes = {
            v.number: v
            for node in nodes
            for v in node.results
            if v.number in self.rank_graph.cache_outputs
        }
        return Cache(sum(map(_nbytes, read.values())), sum(map(_nbytes, writes.values())))


def _exchanges(node: Node) -> list[Exchange]:
    if node.kind is not Kind.COLLECTIVE:
        return []
    input_bytes = sum(map(_nbytes, node.values))
    output_bytes = sum(map(_nbytes, node.results))
    operator = node.origin.operator if node.origin else ""
    axis = Axis(operator) if operator in tuple(Axis) else Axis.TENSOR
    return [Exchange(node.name, max(input_bytes, output_bytes), axis)]


def _merged_halves(operators: Sequence[Elementwise]) -> list[Elementwise]:
    """Operators summed by name, but each softmax on its own: it marks a half of a layer."""
    softmax = [operator for operator in operators if operator.name == "softmax"]
    others = _merged(operator for operator in operators if operator.name != "softmax")
    return [*others[:1], *softmax, *others[1:]]


def _merged(operators: Iterable[Elementwise]) -> list[Elementwise]:
    """Operators summed by name."""
    sums: dict[str, tuple[float, float]] = {}
    for operator in operators:
        elements, nbytes = sums.get(operator.name, (0.0, 0.0))
        sums[operator.name] = elements + operator.elements, nbytes + operator.weight_bytes
    return [Elementwise(name, elements, nbytes) for name, (elements, nbytes) in sums.items()]


def _operator(node: Node) -> str:
    """Name of the framework's operator, else of the operation."""
    operator = node.origin.operator if node.origin else ""
    return operator.rpartition("::")[2].partition(".")[0] or node.name


def _bits(value: Value) -> int:
    return 8 * ITEM_BYTES[value.dtype]


def _nbytes(value: Value) -> float:
    return float(value.type.nbytes)
