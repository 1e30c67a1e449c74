"""Matrix products: sums in PSUM, computed tile by tile for their readers.

Both operands have the contraction along the partitions. The stationary operand gives the
result's partitions, the moving operand its columns.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, Final

from trnsim.errors import InternalError
from trnsim.graph import Node, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Reshape
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.emit.computing.gathering import (
    GatheredMatrices,
    GatheredRows,
    gathered_operand,
    is_added_to_rows,
)
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.paths import is_view
from trnsim.lower.emit.places.tensor_place import PendingResult, SbufMatrix, TensorPlace
from trnsim.lower.emit.places.transposing import is_straight, load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, is_aligned, slice_of
from trnsim.lower.kernels.tiles import BANK, P, Tensor, dtype_of, new
from trnsim.lower.patterns.contractions import PANEL_BYTES
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_FEWEST_COLUMNS: Final = 64
"""A product of fewer columns takes as long (trainium_inferentia2_arch.rst: ``max(N, 64)``)."""
_STATIONARY_PANEL_BYTES: Final = 32 * 1024
"""Bytes of a partition for a panel of the stationary operand."""
_SHORT_ROW_BYTES: Final = 2048
"""Panels are larger if their rows would have fewer bytes, as transfers of short rows are slow."""
_WEIGHT_PANEL_BYTES: Final = 16 * 1024
"""Bytes of a partition for a panel of a weight, whose layout in HBM suits transfers."""


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
    rows_cycles = rows * blocks * max(N, _FEWEST_COLUMNS)
    columns_cycles = columns * blocks * max(M, _FEWEST_COLUMNS) + columns * rows * P
    return rows_cycles <= columns_cycles or M > BANK


def _fits_in_sbuf(emission: Emission, value: Value) -> bool:
    """True if a value with its last dimension along the partitions fits in the room for results."""
    blocks = ceil(value.shape[-1] / P)
    nbytes = blocks * value.type.elements // value.shape[-1] * dtype_of(value.dtype).itemsize
    return bool(nbytes <= emission.residents.free_bytes())


def _origin(emission: Emission, value: Value) -> int:
    """The number of the value that `value` is a view or a conversion of; else its own number."""
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
        self._stationary = _ProductOperand(
            emission, node.values[stationary], operation.contracting[stationary]
        )
        self._moving = _ProductOperand(
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


class _ProductOperand:
    """An operand of a product, with its contraction along the partitions.

    Attributes:
        frame: the layout in which the product reads it.
        blocks: blocks of the contraction.
        length: columns of a matrix of the batch.
        spare_bytes: bytes of a partition that the other operand leaves unused.
    """

    def __init__(self, emission: Emission, value: Value, contraction: int) -> None:
        self.emission, self.value = emission, value
        rank = len(value.shape)
        free = 2 * rank - 3 - contraction
        self.frame = Frame(value.shape, (contraction,), (*range(rank - 2), free))
        self.blocks = self.frame.blocks
        self.length = value.shape[free]
        self._loaded_place: TensorPlace | None = None
        self._start, self._is_part = 0, False
        self._views: dict[tuple[int, int, int], Tensor] = {}
        self._panel: tuple[Any, Tensor] | None = None
        self.spare_bytes = 0
        self._gathered = gathered_operand(emission, value)
        are_few = self.total_bytes() <= _STATIONARY_PANEL_BYTES
        if isinstance(self._gathered, GatheredRows) and are_few:
            # Loaded before the other operand, whose transfers they would wait for.
            emission.add_place(value, self._copy_in_frame(0, self.frame.columns))
            self._gathered = None

    # As the moving operand

    def _ready_place(self) -> TensorPlace | None:
        """A place in SBUF with the contraction along the partitions; else None."""
        if self._gathered is not None or self._weight() is not None:
            return None
        dtype, free = dtype_of(self.value.dtype), self.frame.f_dims[-1]
        for place in self.emission.materialize(self.value):
            varies = self.length == 1 or any(place.steps[free])
            if varies and is_aligned(place, self.frame) and place.storage.tile.dtype == dtype:
                return place
        return None

    def total_bytes(self) -> int:
        """Bytes of a partition for the whole operand."""
        return int(self.frame.columns * self.blocks * dtype_of(self.value.dtype).itemsize)

    def is_ready(self) -> bool:
        """True if the operand lies in SBUF as a product reads it."""
        return self._ready_place() is not None

    def chunk_columns(self) -> int:
        """The number of columns that are in SBUF at once, as the bytes of a panel allow.

        If all columns fit, and the operand is neither a weight nor a deferred gather, this call
        loads it, and it has a place in SBUF from then on.
        """
        if self._ready_place() is not None:
            return int(self.frame.columns)
        column_bytes = dtype_of(self.value.dtype).itemsize * self.blocks
        fitting = PANEL_BYTES // column_bytes
        most_columns = fitting // BANK * BANK or max(fitting // P, 1) * P
        is_loaded = self._gathered is None and self._weight() is None
        if most_columns >= self.frame.columns and is_loaded:
            self.emission.add_place(
                self.value, load_in_frame(self.emission, self.value, self.frame)
            )
        return int(min(most_columns, self._columns_together()))

    def _columns_together(self) -> int:
        """Most columns of one load: those of one matrix if a gather chooses matrices, else all."""
        is_chosen = isinstance(self._gathered, GatheredMatrices)
        return int(self.length if is_chosen else self.frame.columns)

    def load_columns(self, start: int, columns: int) -> None:
        """Load a range of columns into SBUF."""
        self._loaded_place, self._start, self._is_part = self._ready_place(), 0, False
        self._views.clear()
        if self._loaded_place is None:
            self._is_part = True
            self._start = start
            weight_place = self._load_weight(start, columns)
            self._loaded_place = weight_place or self._load_columns(start, columns)

    def has_columns(self, start: int, columns: int) -> bool:
        """True if a range of columns is what the latest product loaded."""
        latest = self.emission.loaded_moving
        return latest is not None and latest[0] == (self.value.number, self.frame, start, columns)

    def _load_columns(self, start: int, columns: int) -> TensorPlace:
        """A range of columns in SBUF, shared with the next product that reads the same."""
        key = self.value.number, self.frame, start, columns
        latest = self.emission.loaded_moving
        if latest is None or latest[0] != key:
            place = self._copy_in_frame(start, columns)
            self.emission.loaded_moving = latest = key, place
        return latest[1]

    def _copy_in_frame(self, start: int, columns: int) -> TensorPlace:
        """A range of columns in SBUF in the frame: a copy, or the choice of a deferred gather."""
        if self._gathered is None:
            return load_in_frame(self.emission, self.value, self.frame, start, columns)
        tile = self._gathered.load(start, columns, dtype_of(self.value.dtype))
        matrix = SbufMatrix(tile, self.frame.rows)
        return TensorPlace(matrix, self.frame.shape, self.frame.steps(), (0, 0))

    def _load_weight(self, start: int, columns: int) -> TensorPlace | None:
        """A range of columns of a weight in SBUF; None if the operand is no weight."""
        weight = self._weight()
        if weight is None:
            return None
        number, frame = weight
        source = self.emission.inputs.prepare(number, frame, start, columns)
        tile = new(tuple(source.shape), dtype_of(self.value.dtype))
        nisa.dma_copy(dst=tile, src=source)
        return TensorPlace(
            SbufMatrix(tile, frame.rows), self.frame.shape, self.frame.steps(), (0, 0)
        )

    def moving_tile(self, k: int, start: int, columns: int) -> Tensor:
        """Columns of block `k` of the contraction, for nc_matmul's moving operand."""
        key = k, start, columns
        view = self._views.get(key)
        if view is None:  # each block of the other operand reads it
            view = self._views[key] = self._view(k, start, columns)
        return view

    def _view(self, k: int, start: int, columns: int) -> Tensor:
        place = self._loaded_place
        if place is None:
            raise InternalError("columns are read before they are loaded")
        rows = min(P, self.frame.rows - k * P)
        if self._is_part:
            at = start - self._start
            return place.storage.tile[:rows, k, at : at + columns]
        view = slice_of(place, self.frame, TileSpan(k, 1, rows, start, columns))
        if view is None:
            raise InternalError(f"columns of {self.frame} do not lie evenly")
        return view[:, 0, :]

    # As the stationary operand

    def stationary_tile(self, panel: tuple[Tensor, int], k: int, span: TileSpan) -> Tensor:
        """The columns of block `k` of the contraction that give a span's partitions."""
        rows = min(P, self.frame.rows - k * P)
        tile, start = panel
        at = span.block * P - start
        return tile[:rows, k, at : at + span.partitions]

    def panel(self, number: int, span: TileSpan) -> tuple[Tensor, int]:
        """Columns in SBUF that include a span's, [rows, blocks of the contraction, columns].

        Also returns the number of the first of them. `number` is that of the matrix in the batch.
        """
        first = span.block * P
        ready_place = self._ready_place()
        if ready_place is not None:
            offset = number * self.length
            columns = slice_of(
                ready_place,
                self.frame,
                TileSpan(0, self.blocks, min(P, self.frame.rows), offset, self.length),
            )
            if columns is not None:
                return columns, 0
        column_bytes = dtype_of(self.value.dtype).itemsize * self.blocks
        width = max(self._panel_bytes() // column_bytes // P, 1) * P
        together = min(width, self._columns_together()) // self.length
        if together > 1:  # several matrices
            begin = number // together * together
            panel = self._cached_panel(
                begin, 0, min(together * self.length, self._columns_from(begin))
            )
            at = (number - begin) * self.length
            return panel[:, :, at : at + self.length], 0
        start = first // width * width
        return self._cached_panel(number, start, min(width, self.length - start)), start

    def _columns_from(self, number: int) -> int:
        """Columns of the matrices of the batch from number `number` on."""
        return self.frame.columns - number * self.length

    def _cached_panel(self, number: int, start: int, columns: int) -> Tensor:
        """The latest panel if it begins at that column of that matrix; else it is loaded."""
        key = (number, start)
        if self._panel is None or self._panel[0] != key:
            self._panel = key, self._load_panel(number, start, columns)
        return self._panel[1]

    def _panel_bytes(self) -> int:
        """Bytes of a partition for a panel; more if its rows in HBM would be short otherwise."""
        if self._weight() is not None:
            return _WEIGHT_PANEL_BYTES
        is_long = _STATIONARY_PANEL_BYTES // self.blocks >= _SHORT_ROW_BYTES
        if (
            self._gathered is not None
            or is_long
            or not is_straight(self.emission.materialize(self.value)[0], self.frame)
        ):
            return _STATIONARY_PANEL_BYTES
        return PANEL_BYTES + self.spare_bytes

    def _weight(self) -> tuple[int, Frame] | None:
        """(number, frame) of the weight that the operand is a conversion or a transpose of.

        None if there is no such weight.
        """
        if self._gathered is not None:
            return None
        for place in self.emission.convertible_places(self.value):
            number = self.emission.inputs.weight_of(place)
            if number is not None:
                return number, self.frame
            order = sorted(range(len(place.steps)), key=lambda dim: -place.steps[dim][0])
            number = (
                None
                if place.is_on_chip
                else self.emission.inputs.weight_of(place.transposed(order))
            )
            if number is not None:
                position = {dim: at for at, dim in enumerate(order)}
                frame = Frame(
                    tuple(place.shape[dim] for dim in order),
                    tuple(position[dim] for dim in self.frame.p_dims),
                    tuple(position[dim] for dim in self.frame.f_dims),
                )
                return number, frame
        return None

    def _load_panel(self, number: int, start: int, columns: int) -> Tensor:
        """Columns of the whole contraction, loaded from the operand's place."""
        weight, inputs = self._weight(), self.emission.inputs
        if weight is not None:
            source = inputs.prepare(*weight, number * self.length + start, columns)
            tile = inputs.ring_tile(tuple(source.shape), dtype_of(self.value.dtype))
            nisa.dma_copy(dst=tile, src=source)
            return tile
        at = number * self.length + start
        return self._copy_in_frame(at, columns).storage.tile
