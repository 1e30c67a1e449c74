"""Computations of many short rows from HBM to HBM, with neighbouring rows on one partition.

A row on a partition of its own is a transfer of few bytes, which takes as long as one of hundreds.
So each partition has a stretch of HBM with several whole rows. Tiles are [partitions, rows, row]:
instructions reduce along the last dimension, and repeat one number for each row along it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.types import ITEM_BYTES
from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.emit.computing.compute import reduce_rows
from trnsim.lower.emit.computing.evaluation import PIECE_ELEMENTS, Evaluation
from trnsim.lower.emit.computing.leaves import load_span, select_dims
from trnsim.lower.emit.computing.spaces import MatrixPart, RowsPart, is_near, row_parts
from trnsim.lower.emit.places.spans import tile_spans
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import Frame, TileSpan, write_span
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.balance import balanced
from trnsim.lower.kernels.instructions import copied, widened
from trnsim.lower.kernels.short_rows import LONGEST_SHORT_ROW, are_shared_partitions_faster
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.program import current_core

_FEW_PIECES: Final = 4
"""Fewest pieces into which rows are cut, so that one is loaded while another is computed."""
_LEAST_PIECE: Final = 512
"""Elements of a partition below which the fixed cost of instructions dominates."""
_FEW_ROWS: Final = 1024
"""Up to this many rows, a result that other nodes read is available sooner in SBUF than in HBM."""
_LATENCY_CYCLES: Final = 8.0
"""Cycles to load, compute and store each element of a partition's first piece (assumed)."""
_MOST_PARTS: Final = 64
"""Most matrices; with more of them, rows on partitions of their own are as fast."""


class RowEvaluation(Evaluation):
    """The fused computation of a value, whose short rows share partitions if that is faster."""

    _part: RowsPart | None = None

    def _run_in_parts(self, *, is_required: bool = False) -> TensorPlace | None:
        """Compute from HBM to HBM, in matrices that suit the engines; None if impossible."""
        if not self._row_reductions:
            return super()._run_in_parts(is_required=is_required)
        ranks = {len(node.result.shape) for node in self._row_reductions.values()}
        outer = min(ranks)
        values = (*self._side_values.values(), self.value)
        if len(ranks) > 1 or not self._has_short_rows(outer, values):
            return None
        tensors = {value.number: tiles.output(value.shape, value.dtype) for value in values}
        results = {number: in_hbm(tensor, self.value.shape) for number, tensor in tensors.items()}
        parts = self._row_parts(results, outer)
        if parts is None:
            return None
        for part in parts:
            self._start_part(part)
            self._places = {number: part.places[number] for number in results}
            for span in self._row_spans(part):
                self._output_tiles = {}
                self.tile(span)
                for number, place in self._places.items():
                    self._write(part, place, span, self._output_tiles[number])
        for number, place in results.items():
            self.emission.places[number] = [place]
        return results[self.value.number]

    def reduce_to_hbm(self, node: Node) -> TensorPlace | None:
        """Reduce each row of the value into a dense tensor in HBM; None if that is not faster."""
        operation: Any = node.operation
        shape = self.value.shape
        outer = len(shape) - len(operation.dims)
        rows, width = prod(shape[:outer]), prod(shape[outer:])
        is_last = self.emission.facts.is_output_only(node.result)
        is_short = width <= LONGEST_SHORT_ROW and rows > (P if is_last else _FEW_ROWS)
        is_read_by_product = not is_last and self._is_multiplied(node.result)
        if not is_short or is_read_by_product or not self._are_loadable():
            return None
        tensor = tiles.output(node.result.shape, node.result.dtype)
        result = in_hbm(tensor, shape[:outer])
        wide = result.repeated(shape, range(outer))
        parts = self._row_parts({node.result.number: wide}, outer)
        if parts is None:
            return None
        with self._name_stretch(), balanced():
            for part in parts:
                self._start_part(part)
                for span in self._row_spans(part):
                    data = widened(self.tile(span), (span.partitions, span.blocks, span.columns))
                    column = new((span.partitions, span.blocks, 1))
                    reduce_rows(data, operation.op, column)
                    if not node.result.type.is_floating:
                        column = integers.wrap(column, node.result.dtype)
                    self._write(part, part.places[node.result.number], span, column)
        return in_hbm(tensor, node.result.shape)

    def start_rows(self, frame: Frame) -> bool:
        """Start the computation from HBM of whole rows in a frame; False if that does not suit.

        A value that lies in HBM itself does not suit, nor operands whose transfers would be slow.
        """
        is_computed = (self.value.number, ()) not in self.leaves and self.is_in_hbm()
        is_fast = self.fits_any_frame() and is_near(MatrixPart(frame, self.leaves), self.leaves)
        if not (is_computed and is_fast):
            return False
        self._is_in_parts, self.frame = True, frame
        return True

    def leaf_tile(self, key: Any, span: TileSpan) -> Tensor:
        """The tile of a leaf in a span; of length 1 along dimensions that repeat its elements."""
        if self._part is None:
            return super().leaf_tile(key, span)
        place = self.leaves[key]
        counted, row = self._column_dims(self._part)
        is_equal_along_row = not any(any(place.steps[dim]) for dim in row)
        is_row = not any(any(place.steps[dim]) for dim in (*self.frame.p_dims, *counted))
        if is_row and key in self._columns:
            return self._columns[key][: span.partitions]
        dims = row if is_row else counted if is_equal_along_row else (*counted, *row)
        shape = (1 if is_row else span.blocks, 1 if is_equal_along_row else span.columns)
        part, part_frame = select_dims(place, self.frame, (*self.frame.p_dims, *dims))
        partitions = min(P, self.frame.rows) if is_row else span.partitions
        part_span = TileSpan(0 if is_row else span.block, 1, partitions, 0, part_frame.columns)
        tile = load_span(part, part_frame, part_span, place.storage.dtype)
        tile = tile.reshape((partitions, *shape))
        if is_row:
            self._columns[key] = tile
        return tile[: span.partitions]

    def _has_short_rows(self, outer: int, values: tuple[Value, ...]) -> bool:
        """True if the values reach HBM sooner when short rows share partitions.

        Operands that repeat one number for each row take a cycle more for each element.
        """
        shape, core = self.value.shape, current_core().core
        rows = prod(shape[:outer]), prod(shape[outer:])
        cycles = _LATENCY_CYCLES * self._piece() + len(self._row_reductions) * prod(shape) / P
        seconds = cycles / clock_hz(core, Engine.vector)
        if not all(map(self._is_last, values)):
            if any(map(self._is_multiplied, values)):
                return False
            seconds += 2 * float(core.dma_issue_s + core.dma_start_s + core.dma_end_s)
        itemsize = ITEM_BYTES[self.value.dtype]
        return self._are_loadable() and are_shared_partitions_faster(rows, itemsize, seconds)

    def _is_multiplied(self, value: Value) -> bool:
        """True if a product reads a value, or what is computed from it alone."""
        pending, visited = [value], set[int]()
        while pending:
            for node in self.emission.facts.readers(pending.pop()):
                if node.kind is Kind.CONTRACTION:
                    return True
                if node.result.number not in visited and node.kind is not Kind.KERNEL:
                    visited.add(node.result.number)
                    pending.append(node.result)
        return False

    def _are_loadable(self) -> bool:
        """True if all operands lie in HBM."""
        return self.is_in_hbm() and not any(place.is_generated for place in self.leaves.values())

    def _piece(self) -> int:
        """Elements of a partition that are computed at once."""
        elements = -(-prod(self.value.shape) // P)
        return min(PIECE_ELEMENTS, max(elements // _FEW_PIECES, _LEAST_PIECE), elements)

    def _row_parts(self, results: dict[int, TensorPlace], outer: int) -> list[RowsPart] | None:
        """The matrices of whole rows; None if transfers of them are not faster."""
        parts = row_parts({**self._ordered_places(), **results}, outer, self._piece())
        if len(parts) > _MOST_PARTS or not all(is_near(part, self.leaves) for part in parts):
            return None
        return parts

    def _start_part(self, part: RowsPart) -> None:
        """Start the computation of a part, with the leaves in its shape."""
        self._part, self._columns, self._strip, self.frame = part, {}, None, part.frame
        self.leaves = {key: part.places[key] for key in self.leaves}

    def _row_spans(self, part: RowsPart) -> Iterator[TileSpan]:
        """The spans of a part, [partitions, rows of a partition, elements of a row]."""
        counted, row = self._column_dims(part)
        rows, width = (prod(part.frame.shape[dim] for dim in dims) for dims in (counted, row))
        for span in tile_spans(part.frame, 0, part.frame.columns, 1, part.frame.columns):
            yield replace(span, blocks=rows, columns=width)

    def _column_dims(self, part: RowsPart) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The column dimensions that count the rows of a partition, and those within a row."""
        return part.frame.f_dims[: part.counted], part.frame.f_dims[part.counted :]

    def _write(self, part: RowsPart, place: TensorPlace, span: TileSpan, tile: Tensor) -> None:
        """Store a span's tile, or one number for each of its rows, at its place in HBM."""
        frame, (counted, _) = part.frame, self._column_dims(part)
        if tile.shape[2] < span.columns:
            place, frame = select_dims(place, frame, (*frame.p_dims, *counted))
        dtype = place.storage.dtype
        if tile.dtype != dtype or not tile.is_contiguous():
            tile = copied(tile, dtype, new(tile.shape, dtype))
        row_span = replace(span, blocks=1, columns=frame.columns)
        write_span(place, frame, row_span, tile.reshape((span.partitions, 1, frame.columns)))
