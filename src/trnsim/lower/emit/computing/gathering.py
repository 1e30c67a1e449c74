"""Matrices and rows that a gather chooses from a table, and that its only reader loads.

A product loads each matrix at an address in a register, or rows by their indices, as a layer of
experts does; elementwise operations load rows. No copy of them is written to HBM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.layout import Reshape
from trnsim.lower.emit.graph_facts import MATRIX_RANK
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, TileSource, in_hbm
from trnsim.lower.emit.places.transposing import copy_in_frame
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    axes_along,
    fill_tile,
    is_aligned,
    slice_of,
)
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.indexing import rows_at
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.nki import isa as nisa

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_REGISTERS: Final = 4
"""Registers that hold indices in turn, as a transfer reads its register when it is issued."""


def gathered_operand(emission: Emission, value: Value) -> GatheredMatrices | GatheredRows | None:
    """The operand of a product whose gather is deferred; None if there is no such gather."""
    gather = emission.facts.producers.get(value.number)
    if gather is not None and isinstance(gather.operation, Reshape):
        gather = emission.facts.producers.get(gather.values[0].number)
    if gather is None or not is_deferred_gather(emission, gather):
        return None
    is_of_matrices = len(gather.result.shape) == MATRIX_RANK
    return GatheredMatrices(emission, gather) if is_of_matrices else gathered_rows(emission, gather)


def is_deferred_gather(emission: Emission, node: Node) -> bool:
    """True if a node is a gather that its reader will load, and that is not computed yet."""
    number = node.result.number
    return number in emission.facts.deferred_gathers and number not in emission.places


def is_added_to_rows(emission: Emission, value: Value) -> bool:
    """True if elementwise operations combine a matrix with rows that lie along the partitions.

    Those are the rows of deferred gathers, and of products by matrices that a gather chooses.
    """
    facts, shape = emission.facts, value.shape
    while len(readers := facts.readers(value)) == 1 and not facts.is_output(value):
        (node,) = readers
        if node.kind is not Kind.ELEMENTWISE or node.result.shape != shape:
            return False
        others = [operand for operand in node.values if operand is not value]
        if any(_has_rows_below(emission, other) for other in others):
            return True
        value = node.result
    return False


def _has_rows_below(emission: Emission, value: Value) -> bool:
    """True if a value that is not computed yet is computed from such rows."""
    waiting, elements = [value], value.type.elements
    while waiting:
        value = waiting.pop()
        node, places = emission.facts.producers.get(value.number), emission.places.get(value.number)
        if places is not None:
            if places[0].is_pending and places[0].storage.has_rows_on_partitions:
                return True
        elif node is not None and value.type.elements == elements:
            if is_deferred_gather(emission, node):
                return True
            is_read_once = emission.facts.uses.get(value.number, 0) <= 1
            if isinstance(node.operation, Reshape) or (
                node.kind is Kind.ELEMENTWISE and is_read_once
            ):
                waiting += node.values
    return False


class GatheredMatrices:
    """The matrices [B, K, N] of a deferred gather.

    A table of weights whose K is a multiple of 128 is laid out as [128, matrices, K / 128 * N], so
    that each partition reads one run of a matrix, however short its rows are.
    """

    def __init__(self, emission: Emission, node: Node) -> None:
        table, indices = node.values
        self._count, self._height, self._width = node.result.shape
        self._panels = self._panels_of(emission, table)
        self._table = emission.dense(table) if self._panels is None else self._panels
        self._indices = emission.dense(indices)
        self._index_tiles: dict[int, Tensor] = {}
        self._registers: list[Any] = []
        self._load_count = 0

    def _panels_of(self, emission: Emission, table: Value) -> Tensor | None:
        """A table of weights as [128, matrices, K / 128 * N]; None for other tables."""
        numbers = map(emission.inputs.weight_of, emission.materialize(table))
        number = next((number for number in numbers if number is not None), None)
        if number is None or self._height % P:
            return None
        frame, blocks = Frame(table.shape, (0, 1), (2,)), self._height // P
        panels = emission.inputs.prepare(number, frame, 0, self._width)
        return panels.reshape((P, table.shape[0], blocks * self._width))

    def load(self, start: int, columns: int, dtype: Any) -> Tensor:
        """Columns of all matrices side by side: a tile [partitions, blocks of K, columns].

        Column c is column ``c % N`` of matrix ``c // N`` of the batch.
        """
        tile = new((min(P, self._height), -(-self._height // P), columns), dtype)
        first, last = start // self._width, (start + columns - 1) // self._width
        for number in range(first, last + 1):
            begin = max(start, number * self._width)
            end = min(start + columns, (number + 1) * self._width)
            register = self._register(self._index(number))
            target = tile[:, :, begin - start : end - start]
            self._load_matrix(register, begin - number * self._width, target)
        return tile

    def _index(self, number: int) -> Tensor:
        """The index of a matrix, in SBUF; 128 indices are loaded together."""
        group, row = divmod(number, P)
        if group not in self._index_tiles:
            count = min(P, self._count - group * P)
            view = tiles.strided(self._indices, [(1, count), (1, 1)], group * P)
            self._index_tiles[group] = tiles.load(view)
        return self._index_tiles[group][row : row + 1]

    def _register(self, index: Tensor) -> Any:
        """A register with an index that lies in SBUF."""
        if len(self._registers) < _REGISTERS:
            self._registers.append(nisa.register_alloc())
        register = self._registers[self._load_count % _REGISTERS]
        self._load_count += 1
        nisa.register_load(dst=register, src=index)
        return register

    def _load_matrix(self, register: Any, column: int, target: Tensor) -> None:
        """Load columns of a matrix, row ``k * 128 + p`` into block k of partition p."""
        width, columns = self._width, target.shape[2]
        if self._panels is not None:
            _, matrices, run = self._panels.shape
            source = self._panels.ap(
                [[matrices * run, P], [width, self._height // P], [1, columns]],
                offset=column,
                scalar_offset=register,
                indirect_dim=1,
            )
            nisa.dma_copy(dst=target, src=source)
            return
        full_blocks, last_rows = divmod(self._height, P)
        groups = [(0, full_blocks, P)] if full_blocks else []
        groups += [(full_blocks, 1, last_rows)] if last_rows else []
        for block, blocks, rows in groups:
            source = self._table.ap(
                [[width, rows], [P * width, blocks], [1, columns]],
                offset=block * P * width + column,
                scalar_offset=register,
            )
            nisa.dma_copy(dst=target[:rows, block : block + blocks], src=source)


def gathered_rows(emission: Emission, gather: Node) -> GatheredRows:
    """The rows of a deferred gather."""
    table = emission.dense(gather.values[0])
    indices = _index_place(emission, gather.values[1])
    return GatheredRows(dtype_of(gather.result.dtype), table, gather.values[0].shape, indices)


def _index_place(emission: Emission, indices: Value) -> TensorPlace:
    """The place of indices: along the partitions of SBUF, or contiguous in HBM."""
    frame = Frame(indices.shape, (0,), ())
    for place in emission.materialize(indices):
        if is_aligned(place, frame) if place.is_on_chip else place.steps == ((1,),):
            return place
    return in_hbm(emission.dense(indices), indices.shape)


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows(TileSource):
    """The rows [R, K] of a deferred gather.

    Attributes:
        table: the table in HBM.
        shape: its shape.
        indices: the place of the indices [R].
    """

    table: Tensor
    shape: tuple[int, ...]
    indices: TensorPlace
    fits_any_frame: ClassVar[bool] = False

    def place(self) -> TensorPlace:
        """The rows as a tensor that its reader loads."""
        shape = *self.indices.shape, self.shape[1]
        return TensorPlace(self, shape, ((self.shape[1],), (1,)), (0,))

    def tile(self, place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor | None:
        """The elements of a span; None unless rows lie along the partitions."""
        width = self.shape[1]
        rows, columns = axes_along(place, frame.p_dims), axes_along(place, frame.f_dims)
        first, column = divmod(place.offset[0], width)
        is_of_rows = len(rows) == 1 and rows[0][1] == (width,)
        if not is_of_rows or len(columns) != 1 or columns[0][1] != (1,) or first % P:
            return None
        tile = new((span.partitions, span.blocks, span.columns), self.dtype)
        for number in range(span.blocks):
            start = first + (span.block + number) * frame.block
            self._fill(tile[:, number], start, column + span.start)
        return tile

    def load(self, start: int, columns: int, dtype: Any) -> Tensor:
        """Rows from `start` on, transposed: a tile [partitions, blocks of K, columns]."""
        rows = new((min(P, columns), -(-columns // P), self.shape[1]), dtype)
        for number, (at, count) in enumerate(tiles.pieces(columns, P)):
            self._fill(rows[:count, number], start + at, 0)
        shape = columns, self.shape[1]
        frame = Frame(shape, (0,), (1,))
        place = TensorPlace(SbufMatrix(rows, columns), shape, frame.steps(), (0, 0))
        tile: Tensor = copy_in_frame(place, frame.flipped()).storage.tile
        return tile

    def _fill(self, tile: Tensor, start: int, column: int) -> None:
        """Load rows from number `start` on into a tile [rows, columns], from a column on."""
        rows, columns = tile.shape
        table = tiles.flat(self.table, self.shape[0], self.shape[1])
        rows_at(table[:, column : column + columns], self._index(start, rows), tile)

    def _index(self, start: int, rows: int) -> Tensor:
        """The indices of some rows, [rows, 1] in SBUF."""
        place = self.indices
        if place.is_on_chip and start % P == 0:
            frame = Frame(place.shape, (0,), ())
            view = slice_of(place, frame, TileSpan(start // P, 1, rows, 0, 1))
            if view is not None:
                return view[:, 0]
        if place.is_on_chip:
            index = new((rows, 1), place.storage.tile.dtype)
            frame = Frame(place.shape, (0,), ())
            fill_tile(index.expand_dim(1), place, frame, TileSpan(0, 1, rows, 0, 1), start)
            return index
        view = tiles.strided(place.storage, [(1, rows), (1, 1)], place.offset[0] + start)
        return tiles.load(view)
