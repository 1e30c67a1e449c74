"""A lower bound of the time of any program of a graph, whatever its schedule.

Three times are compared: that of products at the Tensor Engine's peak, which follows from its
clock; that of weights, inputs and outputs, which cross HBM once, as fast as a core can reach it;
and that of exchanged bytes over the links. The three can overlap, so the longest is the bound. An
output that copies an input takes one transfer within HBM: its bytes pass the DMA engines once, and
the HBM stack twice, as a read and a write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from trnsim import arch
from trnsim.arch.peaks import hbm_stack_bytes_per_s, peak_flop_per_s
from trnsim.graph import Graph, Node, Value
from trnsim.graph.ops.layout import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Pad,
    Reinterpret,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.demand import Box, demands, fraction_of, whole_box
from trnsim.lower.needed_flop import needed_flop

_TRANSFERS: Final = (
    *(BroadcastInDim, Convert, DynamicSlice, DynamicUpdateSlice, Gather, Pad, Reinterpret, Reshape),
    *(Reverse, Scatter, Slice, Transpose),
)
"""Operations whose results transfers within HBM can write."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The least work of a graph, and the time it takes.

    Attributes:
        flop: multiplications and additions of its products.
        hbm_bytes: bytes of weights, inputs and outputs, each counted once.
        products_s: time of the products at the Tensor Engine's peak.
        hbm_s: least time of the bytes: over the stack, or through the DMA engines.
        links_s: time of exchanges over the links, from the caller.
    """

    flop: float
    hbm_bytes: int
    products_s: float
    hbm_s: float
    links_s: float

    @property
    def resource_times(self) -> dict[str, float]:
        """Seconds by resource."""
        return {"products": self.products_s, "HBM": self.hbm_s, "links": self.links_s}

    @property
    def binds(self) -> str:
        """The resource that takes longest."""
        return max(self.resource_times, key=self.resource_times.__getitem__)

    @property
    def seconds(self) -> float:
        """The time of the resource that takes longest."""
        return self.resource_times[self.binds]


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

    With `is_cast`, products are computed in bfloat16, and weight matrices are cast ahead of time.
    """
    core = arch.target(target).core
    peak = peak_flop_per_s(core)
    flop, passes = 0.0, 0.0
    inputs = {value.number for value in graph.inputs}
    demand = demands(  # an output that is an input is there already
        graph, [None if v.number in inputs else whole_box(v.shape) for v in graph.outputs]
    )
    for node in graph.nodes:
        node_flop = needed_flop(node, demand)
        flop += node_flop
        passes += node_flop * _passes(node, core, is_cast=is_cast) if node_flop else 0.0
    reads, writes = must_cross_bytes(graph, demand, frozenset(weights) if is_cast else frozenset())
    traffic = reads + writes - min(reads, copied_bytes(graph))
    hbm_s = max(traffic / hbm_rate(target, lnc), (reads + writes) / hbm_stack_bytes_per_s(core))
    return Bound(flop, reads + writes, passes / (peak * lnc), hbm_s, links_s)


def _passes(node: Node, core: arch.NeuronCore, *, is_cast: bool) -> float:
    """Passes over the array for a product of these element types, relative to bfloat16."""
    dtypes = {value.dtype for value in node.values}
    if dtypes == {"float32"} and not is_cast:
        return core.fp32_passes
    if all(name.startswith("float8") for name in dtypes):
        return core.pe_rows / core.fp8_double_row_contraction
    return 1.0


def hbm_rate(target: str, lnc: int = 1) -> float:
    """Bytes a second that a logical core cannot exceed between HBM and itself.

    That is its share of the stack while all cores are active, or the rate of its own DMA engines if
    that is higher: a core with an idle neighbour takes some of the neighbour's share (368 GB/s
    instead of 362.5 on Trn2). No core takes more than the stack gives.

    Source: the catalogue's bandwidth of a chip; nki/deep-dives/nki-dma-bandwidth-guide.rst.
    """
    core = arch.target(target).core
    stack = float(hbm_stack_bytes_per_s(core))
    return min(stack, lnc * max(stack / core.logical_core_max, float(core.dma_bytes_per_s)))


def must_cross_bytes(
    graph: Graph, demand: Mapping[int, Box], cast_numbers: Collection[int] = ()
) -> tuple[int, int]:
    """Bytes of the parts of inputs in `demand`, and of outputs, each counted once.

    An output that is an input does not cross again. Matrices of float32 whose numbers are in
    `cast_numbers` cross as bfloat16.
    """
    operands = {value.number for node in graph.nodes for value in node.values}
    read_bytes = sum(
        int(fraction_of(demand.get(value.number), value.shape) * value.type.nbytes)
        // (1 + _is_cast(value, cast_numbers))
        for value in graph.inputs
        if value.number in operands
    )
    return read_bytes, sum(value.type.nbytes for value in _written_outputs(graph))


def copied_bytes(graph: Graph) -> int:
    """Upper bound of the bytes of outputs that single transfers can copy from inputs.

    DMA engines compute layout operations, lookups and conversions during a transfer, so their
    result counts as a copy if any element of an operand does. Of a concatenation, only the operands
    that are copies count.
    """
    copied_elements = {value.number: value.type.elements for value in graph.inputs}
    for node in graph.nodes:
        sources = [copied_elements.get(value.number, 0) for value in _sources(node)]
        if isinstance(node.operation, Concatenate):
            copied_elements[node.result.number] = sum(sources)
        elif isinstance(node.operation, _TRANSFERS) and any(sources):
            copied_elements[node.result.number] = node.result.type.elements
    return sum(
        copied_elements.get(value.number, 0) * value.type.nbytes // (value.type.elements or 1)
        for value in _written_outputs(graph)
    )


def _sources(node: Node) -> tuple[Value, ...]:
    """The operands whose elements a transfer copies: all but indices."""
    if isinstance(node.operation, Gather | DynamicSlice):
        return node.values[:1]
    if isinstance(node.operation, DynamicUpdateSlice):  # operand, update, starts
        return node.values[:2]
    if isinstance(node.operation, Scatter):  # updates, indices, operand
        return (*node.values[:1], *node.values[2:])
    return node.values


def _written_outputs(graph: Graph) -> list[Value]:
    """The outputs that are not also inputs, each once."""
    inputs = {value.number for value in graph.inputs}
    outputs = {value.number: value for value in graph.outputs}
    return [value for number, value in outputs.items() if number not in inputs]


def _is_cast(value: Value, cast_numbers: Collection[int]) -> bool:
    is_matrix = sum(n > 1 for n in value.shape) > 1
    return is_matrix and value.dtype == "float32" and value.number in cast_numbers
