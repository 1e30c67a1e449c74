"""Matrix products: sums in PSUM, computed tile by tile for their readers.

Both operands have the contraction along the partitions. The stationary operand gives the
result's partitions, the moving operand its columns.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, ClassVar

from trnsim.graph import Node, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Reshape
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.emit.computing.gathering import is_added_to_rows, is_deferred_gather
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.graph_facts import MATRIX_RANK
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.tensor_place import PendingResult, TensorPlace
from trnsim.lower.emit.places.walk import Frame, TileSpan
from trnsim.lower.emit.product_operand import ProductOperand
from trnsim.lower.kernels.tiles import BANK, FEWEST_COLUMNS, P, Tensor, dtype_of, new
from trnsim.lower.patterns.contractions import PANEL_BYTES
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


@emitter(DotGeneral)
def dot_general(emission: Emission, node: Node) -> None:
    """Emit a product as pending: its reader computes it."""
    has_rows_on_partitions = node.result.number in emission.facts.row_partition_products
    if has_rows_on_partitions:
        batches = _batch_reshape(emission, node)
        if batches is not None and emission.facts.uses[node.result.number] == 1:
            row_product = _RowProduct(emission, node, batches)
            if row_product.fits():
                emission.places[batches.number] = [row_product.place()]
                return
    has_rows_on_partitions &= len(node.result.shape) == 2  # noqa: PLR2004  a matrix
    if BlocksProduct.is_one(emission, node):
        blocks_product = BlocksProduct(emission, node)
        if blocks_product.fits():
            emission.places[node.result.number] = [blocks_product.place()]
            return
    has_rows_on_partitions |= is_added_to_rows(emission, node.result)
    stationary = 0 if has_rows_on_partitions or _should_write_rows(emission, node) else 1
    emission.places[node.result.number] = [
        PendingProduct(emission, node, stationary=stationary).place()
    ]


def _should_write_rows(emission: Emission, node: Node) -> bool:
    """True if a product that is read in HBM takes less time with its rows along the partitions.

    False unless its operands are inputs in HBM, or its result is too large for SBUF: an operand
    that was computed has the layout that the next product needs. A weight is always stationary, as
    its layout is chosen for that. Few rows take less time as the moving operand, though the result
    is then transposed, in blocks of 128 columns.
    """
    if not emission.facts.is_read_in_hbm(node.result):
        return False
    inputs = {value.number for value in emission.facts.graph.inputs}
    origins = [_origin(emission, value) for value in node.values]
    is_of_inputs = inputs.issuperset(origins) or not _fits_in_sbuf(emission, node.result)
    if not is_of_inputs or origins[1] in emission.inputs.weights:
        return False
    operation: Any = node.operation
    M, N = node.result.shape[-2:]
    K = node.values[0].shape[operation.contracting[0]]
    rows, columns, blocks = (ceil(length / P) for length in (M, N, K))
    rows_cycles = rows * blocks * max(N, FEWEST_COLUMNS)
    columns_cycles = columns * blocks * max(M, FEWEST_COLUMNS) + columns * rows * P
    return rows_cycles <= columns_cycles or M > BANK


def _fits_in_sbuf(emission: Emission, value: Value) -> bool:
    """True if a value with its last dimension along the partitions fits in the room for results."""
    blocks = ceil(value.shape[-1] / P)
    nbytes = blocks * value.type.elements // value.shape[-1] * dtype_of(value.dtype).itemsize
    return bool(nbytes <= emission.residents.free_bytes())


def _origin(emission: Emission, value: Value) -> int:
    """The number of the value of which `value` is a view or a conversion; else its own number."""
    node = emission.facts.producers.get(value.number)
    while node is not None and (is_view(node) or isinstance(node.operation, Convert)):
        value = node.values[0]
        node = emission.facts.producers.get(value.number)
    return value.number


def _batch_reshape(emission: Emission, node: Node) -> Value | None:
    """The result of a node that reshapes a product's rows into batches of rows; else None."""
    if len(node.result.shape) != 2:  # noqa: PLR2004  a matrix
        return None
    for reader in emission.facts.readers(node.result):
        if isinstance(reader.operation, Reshape):
            shape = reader.result.shape
            if len(shape) == 3 and shape[-1] == node.result.shape[-1]:  # noqa: PLR2004  batches of rows
                return reader.result
    return None


class PendingProduct(PendingResult):
    """A product that waits for its reader, which computes it tile by tile."""

    def __init__(self, emission: Emission, node: Node, *, stationary: int) -> None:
        operation: Any = node.operation
        self.emission, self.node = emission, node
        self.name = node.name
        rank = len(node.result.shape)
        self.batch = tuple(range(rank - 2))
        self._end, self._ahead = 0, dict[TileSpan, Tensor]()
        self._stationary = ProductOperand(
            emission, node.values[stationary], operation.contracting[stationary]
        )
        self._moving = ProductOperand(
            emission, node.values[1 - stationary], operation.contracting[1 - stationary]
        )
        self._stationary.spare_bytes = max(PANEL_BYTES // 2 - self._moving.total_bytes(), 0)
        p_dim, self._f_dim = (rank - 1, rank - 2) if stationary else (rank - 2, rank - 1)
        self.frame = Frame(node.result.shape, (p_dim,), (*self.batch, self._f_dim))

    def place(self) -> TensorPlace:
        """The place of the result: pending in this object."""
        return TensorPlace(self, self.frame.shape, self.frame.steps(), (0, 0))

    def chunk_columns(self) -> int:
        """The number of columns of the result whose moving operand is in SBUF at once.

        If matrices of a batch have several blocks of rows, and the stationary operand is loaded in
        panels, these are at most the columns of one matrix: successive blocks then share a panel.
        """
        chunk, matrix = self._moving.chunk_columns(), int(self.frame.shape[self._f_dim])
        has_panels = self.batch and self.frame.blocks > 1 and not self._stationary.is_ready()
        return matrix if has_panels and chunk > matrix else chunk

    def load_columns(self, start: int, columns: int) -> None:
        """Load the moving operand of a range of columns."""
        self._moving.load_columns(start, columns)
        self._end, self._ahead = start + columns, {}

    def has_columns(self, start: int, columns: int) -> bool:
        """True if the product before this one ended with the same columns of the operand."""
        return self._moving.has_columns(start, columns)

    def tile(self, span: TileSpan) -> Tensor:
        """The sums of a span of one block, in PSUM.

        The sums of the next banks are computed together with it, so that each stationary tile is
        loaded once.
        """
        if self.batch:
            return self._batched_sums(span)
        if span not in self._ahead:
            self._ahead = self._sums(self._neighbours(span))
        return self._ahead.pop(span)

    def _neighbours(self, span: TileSpan) -> list[TileSpan]:
        """A span and the spans of the next banks of its block; for float32 the span alone.

        Loads of float32 stationary tiles take no time of their own, so they need not be shared.
        """
        dtype = self.node.values[0].dtype
        banks = 1 if span.columns < BANK or dtype == "float32" else max(self.banks, 1)
        starts = range(span.start + span.columns, self._end, BANK)[: banks - 1]
        return [
            span,
            *(replace(span, start=at, columns=min(BANK, self._end - at)) for at in starts),
        ]

    def _sums(self, spans: list[TileSpan]) -> dict[TileSpan, Tensor]:
        """The sums of spans of one block, each in a bank."""
        sums = {
            span: new((span.partitions, 1, span.columns), nl.float32, nl.psum) for span in spans
        }
        targets = [(span, dst[:, 0]) for span, dst in sums.items()]
        panel = self._stationary.panel(0, spans[0])
        for k in range(self._moving.blocks):
            stationary = self._stationary.stationary_tile(panel, k, spans[0])
            for span, dst in targets:
                moving = self._moving.moving_tile(k, span.start, span.columns)
                nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving)
        return sums

    def _batched_sums(self, span: TileSpan) -> Tensor:
        """The sums of a span, whose columns may be those of several matrices."""
        sums = new((span.partitions, 1, span.columns), nl.float32, nl.psum)
        inner = self.frame.shape[self._f_dim]
        at = span.start
        while at < span.start + span.columns:
            count = min(inner - at % inner, span.start + span.columns - at)
            number, first = at // inner, at - span.start
            dst = sums[:, 0, first : first + count]
            panel = self._stationary.panel(number, span)
            for k in range(self._moving.blocks):
                stationary = self._stationary.stationary_tile(panel, k, span)
                moving = self._moving.moving_tile(k, at, count)
                nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving)
            at += count
        return sums


class _RowProduct(PendingProduct):
    """A product [B * T, N] read as [B, T, N], with T along partitions, N and B along columns.

    Attention reads its values in this layout, as it sums over keys along the partitions.
    """

    def __init__(self, emission: Emission, node: Node, split: Value) -> None:
        super().__init__(emission, node, stationary=0)
        self.frame = Frame(split.shape, (1,), (0, 2))

    def fits(self) -> bool:
        """True if both operands fit in SBUF whole."""
        columns = self._stationary.frame.columns
        return (
            self._moving.chunk_columns() == self.frame.shape[2]
            and self._stationary.chunk_columns() == columns
        )

    def chunk_columns(self) -> int:
        """All columns."""
        return int(self.frame.columns)

    def load_columns(self, start: int, columns: int) -> None:
        """Load both operands."""
        del start, columns
        self._moving.load_columns(0, self.frame.shape[2])
        self._stationary.load_columns(0, self._stationary.frame.columns)

    def tile(self, span: TileSpan) -> Tensor:
        """The sums of a span of one block, in PSUM."""
        sums = new((span.partitions, 1, span.columns), nl.float32, nl.psum)
        _, T, N = self.frame.shape
        at = span.start
        while at < span.start + span.columns:
            count = min(N - at % N, span.start + span.columns - at)
            row = at // N * T + span.block * P
            for k in range(self._moving.blocks):
                nisa.nc_matmul(
                    dst=sums[:, 0, at - span.start : at - span.start + count],
                    stationary=self._stationary.moving_tile(k, row, span.partitions),
                    moving=self._moving.moving_tile(k, at % N, count),
                )
            at += count
        return sums


class BlocksProduct(PendingProduct):
    """A product [B, S, K] by matrices [B, K, N] that a gather chooses, S a multiple of 128.

    Its B * S rows lie along the partitions: the matrices are the moving operand, so that a tile of
    rows stays in the array for all columns. Each matrix is loaded when the first of its rows are
    computed.
    """

    has_rows_on_partitions: ClassVar[bool] = True

    def __init__(self, emission: Emission, node: Node) -> None:
        super().__init__(emission, node, stationary=0)
        self.frame = Frame(node.result.shape, (0, 1), (2,))
        self._number = -1

    @staticmethod
    def is_one(emission: Emission, node: Node) -> bool:
        """True for a product whose second operand is matrices that a deferred gather chooses."""
        operation: Any = node.operation
        matrices = emission.facts.producers.get(node.values[1].number)
        if len(node.result.shape) != MATRIX_RANK or matrices is None:
            return False
        has_full_blocks = node.result.shape[1] % P == 0
        has_rows = operation.contracting[0] == MATRIX_RANK - 1
        return has_full_blocks and has_rows and is_deferred_gather(emission, matrices)

    def fits(self) -> bool:
        """True if the columns of a matrix fit in SBUF together."""
        return self._moving.chunk_columns() >= int(self.frame.columns)

    def chunk_columns(self) -> int:
        """All columns."""
        return int(self.frame.columns)

    def load_columns(self, start: int, columns: int) -> None:
        """Nothing is loaded before the rows are known."""
        self._end, self._ahead, self._number = start + columns, {}, -1

    def has_columns(self, start: int, columns: int) -> bool:
        """False: each range of columns loads all matrices."""
        del start, columns
        return False

    def tile(self, span: TileSpan) -> Tensor:
        """The sums of a span of one block, in PSUM, with those of the next banks."""
        if span not in self._ahead:
            _, S, N = self.frame.shape
            number, row = divmod(span.block * P, S)
            if number != self._number:
                self._moving.load_columns(number * N, N)
                self._number = number
            self._ahead = self._sums_of_rows(self._neighbours(span), row // P)
        return self._ahead.pop(span)

    def _sums_of_rows(self, spans: list[TileSpan], block: int) -> dict[TileSpan, Tensor]:
        """The sums of spans of block number `block` of the latest matrix's rows."""
        sums = {
            span: new((span.partitions, 1, span.columns), nl.float32, nl.psum) for span in spans
        }
        rows, first = replace(spans[0], block=block), self._number * self.frame.columns
        panel = self._stationary.panel(self._number, rows)
        for k in range(self._moving.blocks):
            stationary = self._stationary.stationary_tile(panel, k, rows)
            for span, dst in sums.items():
                moving = self._moving.moving_tile(k, first + span.start, span.columns)
                nisa.nc_matmul(dst=dst[:, 0], stationary=stationary, moving=moving)
        return sums
