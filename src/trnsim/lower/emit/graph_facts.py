"""Facts about a graph's values: producer, readers, and the layout that readers prefer."""

from __future__ import annotations

from functools import cached_property
from math import ceil
from typing import Final

from trnsim.graph import Graph, Kind, Node, Operation, Value
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.layout import Reshape
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.types import Shape, TensorType
from trnsim.lower.emit.places.framing import channel_vectors
from trnsim.lower.emit.places.paths import Path, is_view, is_widening
from trnsim.lower.emit.window_sums import WindowSums
from trnsim.lower.kernels.tiles import P
from trnsim.program import current_core

MOST_TRANSPOSED_BYTES: Final = 24 * 1024
"""Maximum bytes of a partition of a value that is transposed to be reduced along its columns."""


MATRIX_RANK: Final = 3
"""Dimensions of a batch of matrices: [matrix, row, column]."""
_ROW_RANK: Final = 2
_LEAST_MATRIX_BYTES: Final = 48 * 1024
"""Bytes of a matrix that are copied in HBM in the time of a transfer's issue (0.6 us)."""


class GraphFacts:
    """Facts about the values of a graph; values are keyed by number.

    Attributes:
        producers: the node that produces each value.
        order: the position of that node in the graph.
        uses: number of reads of each value, as `use_counts` gives it.
        is_narrow: True if no input and no output of the graph is float32 or float16.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers = {v.number: node for node in graph.nodes for v in node.results}
        self.order = {v.number: n for n, node in enumerate(graph.nodes) for v in node.results}
        self.uses = use_counts(graph)
        ends = (*graph.inputs, *graph.outputs)
        self.is_narrow = not any(value.dtype in ("float32", "float16") for value in ends)
        self._readers: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for value in node.values:
                self._readers.setdefault(value.number, []).append(node)
        self._outputs = {value.number for value in graph.outputs}

    @cached_property
    def long_rows(self) -> set[int]:
        """Values whose rows should lie along the partitions, as they are too large to transpose."""
        return long_row_values(self.graph)

    @cached_property
    def feature_values(self) -> set[int]:
        """Values whose last dimension should lie along the partitions, as products contract it."""
        return contracted_values(self.graph) - self.long_rows

    @cached_property
    def channel_vectors(self) -> frozenset[int]:
        """Vectors with one element for each channel of images."""
        return channel_vectors(self.graph)

    @cached_property
    def window_sums(self) -> WindowSums:
        """Sums of padded images, as of the gradient of a pooling."""
        return WindowSums(self.graph, self._readers, self._outputs)

    @cached_property
    def deferred_gathers(self) -> frozenset[int]:
        """Results of gathers that their only reader computes."""
        nodes = self.graph.nodes
        return frozenset(node.result.number for node in nodes if _is_deferred_gather(self, node))

    def readers(self, value: Value) -> list[Node]:
        """The nodes that read a value."""
        return self._readers.get(value.number, [])

    def is_output(self, value: Value) -> bool:
        """True if a value is an output of the graph."""
        return value.number in self._outputs

    def is_output_only(self, value: Value) -> bool:
        """True if a value is an output of the graph that no node reads."""
        return self.is_output(value) and not self.readers(value)

    def is_read_in_hbm(self, value: Value) -> bool:
        """True if a value is an output that no node reads, or only lookups read its rows in HBM."""
        return self.is_output_only(value) or self._is_looked_up(value)

    def _is_looked_up(self, value: Value) -> bool:
        """True if gathers and scatters alone read a value or reshapes of it."""
        readers = self.readers(value)
        return bool(readers) and all(
            self._is_looked_up(node.result)
            if isinstance(node.operation, Reshape)
            else isinstance(node.operation, Gather | Scatter)
            for node in readers
        )

    def follow_path(self, value: Value, path: Path) -> Value:
        """The result of a path of views applied to a value.

        New nodes are made for views that the graph applies to another value.
        """
        for node in path:
            is_own = node.values[0] == value
            value = (
                node.result if is_own else self.add_view(value, node.operation, node.result.shape)
            )
        return value

    def add_view(self, value: Value, operation: Operation, shape: Shape) -> Value:
        """Add a view that the graph does not have; returns the result of its node."""
        number = min(0, *self.producers) - 1  # numbers of the graph's values are not below 0
        result = Value(number, TensorType(shape, value.dtype))
        self.producers[number] = Node(operation, (value,), (result,))
        return result

    @cached_property
    def row_partition_products(self) -> set[int]:
        """Numbers of products whose rows should lie along the partitions.

        Those are the values V of attention, and `long_rows`.
        """
        nodes = self.graph.nodes
        products = {n.result.number for n in nodes if isinstance(n.operation, DotGeneral)}
        row_products = products & self.long_rows  # products with rows along the partitions
        pending_values = [node.values[2] for node in nodes if isinstance(node.operation, Attention)]
        while pending_values:
            value = pending_values.pop()
            node = self.producers.get(value.number)
            if node is None:
                continue
            if isinstance(node.operation, DotGeneral):
                row_products.add(value.number)
            elif is_view(node) or (
                node.kind is Kind.ELEMENTWISE and self.uses.get(value.number, 0) <= 1
            ):
                pending_values += node.values
        return row_products


def use_counts(graph: Graph) -> dict[int, int]:
    """Number of a value -> its number of readers; being an output of the graph counts as one.

    A view or a widening does not count itself: its readers count as readers of its operand.
    """
    counts: dict[int, int] = {}
    for value in graph.outputs:
        counts[value.number] = counts.get(value.number, 0) + 1
    for node in reversed(graph.nodes):
        times = counts.get(node.result.number, 0) if is_view(node) or is_widening(node) else 1
        for value in node.values:
            counts[value.number] = counts.get(value.number, 0) + times
    return counts


def contracted_values(graph: Graph) -> set[int]:
    """Values whose last dimension a product contracts, directly or after elementwise nodes.

    They lie best with that dimension along the partitions.
    """
    numbers: set[int] = set()
    for node in reversed(graph.nodes):
        if isinstance(node.operation, DotGeneral):
            numbers |= {
                value.number
                for value, dim in zip(node.values, node.operation.contracting, strict=True)
                if dim == len(value.shape) - 1
            }
        elif node.result.number in numbers and (
            node.kind is Kind.ELEMENTWISE or isinstance(node.operation, Reshape)
        ):
            last = node.result.shape[-1:]
            numbers |= {value.number for value in node.values if value.shape[-1:] == last}
    return numbers


def long_row_values(graph: Graph) -> set[int]:
    """Large values whose rows lie best along the partitions, as the scores of a vocabulary do.

    Some value of the same size and row length is reduced to the maximum or the minimum of each row,
    and is too large to be transposed.
    """
    sizes: set[tuple[int, int]] = set()
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Reduce) and operation.op in ("maximum", "minimum"):
            (value,) = node.values
            nbytes = ceil(value.type.nbytes / P)
            if operation.dims == (len(value.shape) - 1,) and nbytes > MOST_TRANSPOSED_BYTES:
                sizes.add((value.type.elements, value.shape[-1]))
    values = [value for node in graph.nodes for value in node.results]
    return {
        value.number
        for value in values
        if value.shape and (value.type.elements, value.shape[-1]) in sizes
    }


def _is_deferred_gather(facts: GraphFacts, node: Node) -> bool:
    """True if a gather is deferred: its only reader loads the gathered elements itself.

    The indices have one dimension. The reader is a product that sums over K, of matrices [B, K, N]
    or of rows [B * S, K], which may be reshaped to [B, S, K]; or an elementwise operation on rows.
    """
    if not isinstance(node.operation, Gather) or facts.is_output(node.result):
        return False
    table, indices = node.values[0].shape, node.values[1].shape
    if len(indices) != 1 or node.operation != Gather.rows(table, indices):
        return False
    if len(table) == MATRIX_RANK:
        is_large = node.result.type.nbytes >= _LEAST_MATRIX_BYTES * indices[0]
        return is_large and _is_summed(facts, node.result, 1)
    if len(table) != _ROW_RANK or _is_gathered_faster(node):
        return False
    rows = _reshaped_rows(facts, node.result)
    readers = facts.readers(node.result)
    is_elementwise = len(readers) == 1 and readers[0].kind is Kind.ELEMENTWISE
    return is_elementwise or _is_summed(facts, rows, len(rows.shape) - 1)


def _is_gathered_faster(node: Node) -> bool:
    """True if a gather from HBM to HBM and a load are faster than a gather into SBUF.

    A transfer by index has 128 rows if they go to the partitions of SBUF, and thousands if they
    stay in HBM (`kernels/indexing`), on chips with indirect DMA.
    """
    rows = node.values[1].type.elements
    if rows < _MANY_ROWS or not (core := current_core().core).features.indirect_dma:
        return False
    to_sbuf_s = rows / P * float(core.dma_issue_s)
    through_hbm_s = 2 * node.result.type.nbytes / float(core.dma_bytes_per_s)
    return through_hbm_s + _TWO_LATENCIES_S < to_sbuf_s


_MANY_ROWS: Final = 16 * P
"""Fewest rows whose transfers to SBUF may take longer than two transfers' latencies."""
_TWO_LATENCIES_S: Final = 8e-6
"""Sum of the latencies of a gather to HBM and of the load that follows."""


def _is_summed(facts: GraphFacts, value: Value, dim: int) -> bool:
    """True if a product over dimension `dim` is the only reader of a value."""
    readers = facts.readers(value)
    if len(readers) != 1 or facts.is_output(value):
        return False
    operation = readers[0].operation
    return isinstance(operation, DotGeneral) and all(
        summed_dim == dim
        for operand, summed_dim in zip(readers[0].values, operation.contracting, strict=True)
        if operand is value
    )


def _reshaped_rows(facts: GraphFacts, rows: Value) -> Value:
    """Rows [R, K] as the batch [B, S, K] into which their only reader reshapes them, or as are."""
    readers = facts.readers(rows)
    if len(readers) == 1 and isinstance(readers[0].operation, Reshape):
        batch = readers[0].result
        if len(batch.shape) == MATRIX_RANK and batch.shape[-1] == rows.shape[-1]:
            return batch
    return rows
