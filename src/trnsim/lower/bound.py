"""The time below which no program of a graph can be, whatever schedule it has.

Products at the Tensor Engine's peak, which follows from its clock; weights, inputs and outputs over
HBM once, at a core's share of its stack; exchanged bytes over the links. The three can overlap, so
the largest of them is the bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from trnsim import arch
from trnsim.graph import Graph, Node, Value
from trnsim.graph.ops.lookup import Gather
from trnsim.profile.measures.metrics import hbm_stack_bytes_per_s, peak_flop_per_s


@dataclass(frozen=True, slots=True)
class Bound:
    """What a graph needs at least.

    Attributes:
        flop: multiplications and additions of its products.
        hbm_bytes: that cross HBM once.
        products_s: the products at the peak.
        hbm_s: the bytes at a core's share of its stack.
        links_s: exchanged bytes over the links, as the caller counts them.
    """

    flop: float
    hbm_bytes: int
    products_s: float
    hbm_s: float
    links_s: float

    @property
    def sides(self) -> dict[str, float]:
        """Seconds by what takes them."""
        return {"products": self.products_s, "HBM": self.hbm_s, "links": self.links_s}

    @property
    def binds(self) -> str:
        """The side that takes longest."""
        return max(self.sides, key=self.sides.__getitem__)

    @property
    def seconds(self) -> float:
        """The longest side."""
        return self.sides[self.binds]


def bound(
    graph: Graph,
    target: str,
    *,
    weights: Collection[int] = (),
    lnc: int = 1,
    is_cast: bool = False,
    links_s: float = 0.0,
) -> Bound:
    """The bound of a graph on a logical core of `lnc` physical ones.

    `is_cast` says that products are cast to bfloat16, and weights with them, ahead of time.
    """
    core = arch.target(target).core
    peak = peak_flop_per_s(core)
    flop, passes = 0.0, 0.0
    for node in graph.nodes:
        own = node.operation.flop(*node.given)
        slow = not is_cast and bool(own) and {value.dtype for value in node.values} == {"float32"}
        flop += own
        passes += own * (core.fp32_passes if slow else 1)
    nbytes = must_cross_bytes(graph, frozenset(weights) if is_cast else frozenset())
    return Bound(flop, nbytes, passes / (peak * lnc), nbytes / hbm_share(target, lnc), links_s)


def hbm_share(target: str, lnc: int = 1) -> float:
    """HBM's bytes a second for a logical core, while all cores that share its stack are active."""
    core = arch.target(target).core
    return float(hbm_stack_bytes_per_s(core)) * lnc / core.logical_core_max


def must_cross_bytes(graph: Graph, short: Collection[int] = ()) -> int:
    """Bytes of inputs and outputs, each once; of a table in which rows are looked up, those rows.

    Matrices of float32 among `short` cross as bfloat16.
    """
    readers: defaultdict[int, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for value in node.values:
            readers[value.number].append(node)
    outputs = {value.number: value.type.nbytes for value in graph.outputs}
    return sum(outputs.values()) + sum(
        _read_bytes(value, readers[value.number]) // (1 + _is_cast(value, short))
        for value in graph.inputs
    )


def _read_bytes(value: Value, nodes: list[Node]) -> int:
    """What of an input is read."""
    if nodes and all(isinstance(n.operation, Gather) and n.values[0] == value for n in nodes):
        return sum(node.result.type.nbytes for node in nodes)
    return value.type.nbytes if nodes else 0


def _is_cast(value: Value, short: Collection[int]) -> bool:
    is_matrix = sum(n > 1 for n in value.shape) > 1
    return is_matrix and value.dtype == "float32" and value.number in short
