"""The computation of a value from the places of its leaves, span by span."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.ops.arithmetic import Square
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant, Iota, Rng
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.computing.compute import (
    constant_tile,
    reduce_rows,
    reduce_squares,
)
from trnsim.lower.emit.computing.fusing import FusedComputation, are_floats, is_short
from trnsim.lower.emit.computing.gathering import gathered_rows, is_deferred_gather
from trnsim.lower.emit.computing.generating import generated_place
from trnsim.lower.emit.computing.rows import deferred_reduction, has_rows_on_partitions, is_inside
from trnsim.lower.emit.computing.spaces import is_near, matrix_parts
from trnsim.lower.emit.graph_facts import MATRIX_RANK
from trnsim.lower.emit.naming import chain_name, chain_node
from trnsim.lower.emit.places.framing import choose_frame
from trnsim.lower.emit.places.paths import Path, apply_view, follow, is_passed, is_view, is_widening
from trnsim.lower.emit.places.spans import (
    blocks_together,
    group_spans,
    merged_span,
    span_elements,
    tile_spans,
)
from trnsim.lower.emit.places.tensor_place import TensorPlace, chunks_of, in_hbm
from trnsim.lower.emit.places.walk import (
    Frame,
    TileSpan,
    covers_pending_result,
    frame_of,
    slice_of,
    write_span,
)
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.balance import balanced
from trnsim.lower.kernels.elementwise import apply
from trnsim.lower.kernels.instructions import copied, widened
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

PIECE_ELEMENTS: Final = 2048
"""Elements of a partition in one instruction: long enough to hide its fixed cost."""

_STRIP_BYTES: Final = 4096
"""Bytes of a partition in one transfer; shorter runs take longer (nki_perf_guide.rst, Opt #9)."""
_BLOCKWISE_ROW_ELEMENTS: Final = 512
"""Shortest row that is computed block by block, with one scalar operand for each row."""
_LONG_VECTOR: Final = 1 << 15
"""Shortest vector that is computed from HBM to HBM, cut into rows."""
_BANKS_OF_SUMS: Final = 4
"""Banks of PSUM for sums of products that are computed together; as many are read meanwhile."""
_MOST_FULL_TILES: Final = 4
"""Tensors whose tiles of full length lie in SBUF at once."""


class Evaluation(FusedComputation):
    """The fused computation of a value from its leaves."""

    def __init__(
        self,
        emission: Emission,
        value: Value,
        pending: TensorPlace | None = None,
        *,
        is_stored: bool = True,
    ) -> None:
        """Find the leaves of a value; `pending`, if given, is its place and the only leaf.

        `is_stored` is False if only the caller's operation reads the value's tiles. Then operands
        with several readers are leaves, which are stored before.
        """
        super().__init__(emission)
        self.value = value
        self._memo: dict[tuple[int, Path], Tensor] = {}
        self._places: dict[int, TensorPlace] = {}
        self._output_tiles: dict[int, Tensor] = {}
        self._side_values: dict[int, Value] = {}
        """Operands with other readers that are computed and stored too, by number."""
        self._row_reductions: dict[int, Node] = {}
        """Number of a value that broadcasts a deferred reduction -> the reduction."""
        if pending is not None:
            self.leaves[value.number, ()] = pending
            return
        # First with side values; without them if the leaves that they bring rule them out.
        for self._may_have_side_values in (is_stored, False):
            for table in (self._side_values, self._row_reductions, self.leaves, self._values):
                table.clear()
            vars(self).pop("frame", None)
            self._collect_leaves(value, (), is_root=is_stored)
            if not (self._side_values or self._row_reductions) or self._can_have_side_values():
                break
        reductions = {node.result.number for node in self._row_reductions.values()}
        for number, other in list(self._side_values.items()):
            if is_inside(emission, other, {*self._values, *reductions}):
                del self._side_values[number]
        self._materialize_others()

    @cached_property
    def frame(self) -> Frame:
        """The layout in which the value is computed: that of a leaf, unless one is set."""
        numbers = {number for number, _ in self.leaves}
        places = [place for place in self.leaves.values() if not place.is_generated]
        return choose_frame(self.emission, self.value, places, numbers)

    def _can_have_side_values(self) -> bool:
        """True if operands with several readers, and deferred reductions, can be computed here too.

        Not if leaves are pending, whose sums are computed once for all readers; deferred reductions
        need their rows along the partitions.
        """
        ranks = {len(node.result.shape) for node in self._row_reductions.values()}
        return not self.pending_leaves() and all(
            has_rows_on_partitions(self.frame, self.value.shape, rank) for rank in ranks
        )

    @contextmanager
    def _name_stretch(self) -> Generator[None]:
        """Attribute the instructions issued in this context to the computation's operations."""
        leaves = {number: place for (number, _), place in self.leaves.items()}
        chain = (self.emission.facts.producers, self.value, leaves)
        with self.emission.names.stretch(chain_name(*chain), chain_node(*chain)):
            yield

    def run(self) -> TensorPlace:
        """Compute the value, and return its place."""
        with self._name_stretch(), balanced():
            return self._run_in_parts() or self._run()

    def run_to_hbm(self) -> TensorPlace:
        """Compute the value into a dense tensor in HBM, and return its place."""
        with self._name_stretch(), balanced():
            place = self._run_in_parts(is_required=True)
            if place is None:
                tensor = tiles.output(self.value.shape, self.value.dtype)
                self._places[self.value.number] = in_hbm(tensor, self.value.shape)
                place = self._run()
            return place

    def _run_in_parts(self, *, is_required: bool = False) -> TensorPlace | None:
        """Compute from HBM to HBM, in matrices that suit the engines; None if impossible."""
        values = (*self._side_values.values(), self.value)
        is_required |= prod(self.value.shape) == max(self.value.shape, default=0) >= _LONG_VECTOR
        if self._row_reductions or not (is_required or all(map(self._is_last, values))):
            return None
        if not (self.is_in_hbm() and self.fits_any_frame()):
            return None
        tensors = {output.number: tiles.output(output.shape, output.dtype) for output in values}
        results = {number: in_hbm(tensor, self.value.shape) for number, tensor in tensors.items()}
        are_few_tensors = len(self.leaves) + len(values) <= _MOST_FULL_TILES
        piece = PIECE_ELEMENTS if are_few_tensors else PIECE_ELEMENTS // 2
        parts_ = matrix_parts({**self._ordered_places(), **results}, piece)
        if not all(is_near(part, self.leaves) for part in parts_):
            return None
        self._is_in_parts = True
        for part in parts_:
            self._columns, self._chunks, self.frame = {}, {}, part.frame
            self.leaves = {key: part.places[key] for key in self.leaves}
            self._places = {number: part.places[number] for number in results}
            for strip in self._strips(0, self.frame.columns):
                self._compute_strip(strip)
        for number, place in results.items():
            self.emission.places[number] = [place]
        return results[self.value.number]

    def _is_last(self, value: Value) -> bool:
        """True if a value is an output that only this computation reads."""
        facts = self.emission.facts
        readers = {node.result.number for node in facts.readers(value)}
        return facts.is_output(value) and readers <= self._values.keys()

    def fill(self, result: TensorPlace) -> None:
        """Compute all of the value into a place in its frame."""
        with self._name_stretch():
            self._places[self.value.number] = result
            self._run()

    def _run(self) -> TensorPlace:
        """Compute the value, and those that are stored too; returns the value's place."""
        for value in (*self._side_values.values(), self.value):
            if value.number not in self._places:
                self._places[value.number] = self._allocate(value)
        for strip in self._strips(0, self.frame.columns):
            self._compute_strip(strip)
        for number in (*self._side_values, self.value.number):
            self.emission.places[number] = [self._places[number]]
        return self.emission.places[self.value.number][0]

    def _allocate(self, value: Value) -> TensorPlace:
        if not self._is_sent_to_hbm(value):
            return self.emission.residents.allocate(self.frame, value)
        tensor = tiles.output(value.shape, value.dtype)
        return in_hbm(tensor, self.frame.shape)

    def _is_sent_to_hbm(self, value: Value) -> bool:
        """True if a value is read only in HBM, and its innermost dimension is along the columns."""
        frame = self.frame
        if frame.is_replicated or not self.emission.facts.is_read_in_hbm(value):
            return False
        long_dims = [dim for dim in frame.f_dims if value.shape[dim] > 1]
        return bool(long_dims) and not any(n > 1 for n in value.shape[long_dims[-1] + 1 :])

    def _compute_strip(self, strip: list[TileSpan]) -> None:
        """Compute neighbouring spans of all stored values; one transfer loads or stores them."""
        self._strip, self._parts = merged_span(strip), {}
        strip_span = self._strip
        shape = (strip_span.partitions, strip_span.blocks, strip_span.columns)
        places = {n: place for n, place in self._places.items() if not place.is_on_chip}
        self._output_tiles = {}
        if len(strip) > 1:
            self._output_tiles = {n: new(shape, place.storage.dtype) for n, place in places.items()}
        for span in strip:
            self.tile(span)
        for number, place in places.items():
            write_span(place, self.frame, strip_span, self._output_tiles[number])
        self._strip = None

    def _compute_stored(self, value: Value, span: TileSpan) -> Tensor:
        """Compute a stored value's tile in its place, or in the tile that is written to HBM."""
        place = self._places[value.number]
        if place.is_on_chip:
            return self._compute_tile(value, (), span, slice_of(place, self.frame, span))
        if (self._strip or span) == span:
            self._output_tiles[value.number] = self._output_tile(value, span, place.storage.dtype)
            return self._output_tiles[value.number]
        strip = self._strip or span
        at, block = span.start - strip.start, span.block - strip.block
        dst = self._output_tiles[value.number][
            :, block : block + span.blocks, at : at + span.columns
        ]
        return self._compute_tile(value, (), span, dst)

    def _output_tile(self, value: Value, span: TileSpan, dtype: Any) -> Tensor:
        """A value's tile in `dtype`, its dtype in HBM, which other operations may read too."""
        shape = (span.partitions, span.blocks, span.columns)
        node = self.emission.facts.producers.get(value.number)
        if node is not None and isinstance(node.operation, Convert):
            return self._compute_tile(value, (), span, new(shape, dtype))
        tile = self._compute_tile(value, (), span, None)
        if tile.dtype == dtype and tile.shape[2] == span.columns and tile.buffer is nl.sbuf:
            tile = widened(tile, shape)
        else:
            tile = copied(tile, dtype, new(shape, dtype))
            self._memo[value.number, ()] = tile
        return tile

    def tile_spans(self, start: int = 0, columns: int = 0) -> Iterator[TileSpan]:
        """Spans of `columns` columns from `start`, or of all (0); of one bank if sums are read."""
        for strip in self._strips(start, start + (columns or self.frame.columns)):
            yield from strip

    def _strips(self, start: int, end: int) -> Iterator[list[TileSpan]]:
        """Groups of spans that one transfer loads or stores."""
        pending = self.pending_leaves()
        longest = 1 if pending else PIECE_ELEMENTS
        width = min((product.span_columns() for product in pending), default=PIECE_ELEMENTS)
        if self._row_reductions:
            width = self.frame.columns
            longest = width if width >= _BLOCKWISE_ROW_ELEMENTS else PIECE_ELEMENTS
        elif self._has_gathered_rows() and self.frame.columns >= _BLOCKWISE_ROW_ELEMENTS:
            longest = 1
        if self._is_in_parts or self._row_reductions:
            longest = span_elements(self.frame, longest)
        itemsize, most_blocks = ITEM_BYTES[self.value.dtype], 1
        if pending and not any(place.is_on_chip for place in self._places.values()):
            most_blocks = blocks_together(self.frame, itemsize)
        for first, count in chunks_of(pending, start, end):
            for product in pending:
                product.banks = _BANKS_OF_SUMS // len(pending)
                product.load_columns(first, count)
            spans = tile_spans(self.frame, first, count, longest, width)
            yield from group_spans(spans, _STRIP_BYTES // itemsize, most_blocks)

    def tile(self, span: TileSpan, dst: Tensor | None = None) -> Tensor:
        """The value's tile of a span, [partitions, blocks, columns]."""
        self._memo.clear()
        if self._places:
            return self._compute_stored(self.value, span)
        return self._tile_of(self.value, (), span, dst)

    # The operations

    def _collect_leaves(self, value: Value, path: Path, *, is_root: bool = False) -> None:
        """Find the leaves below a value."""
        emission = self.emission
        node = emission.facts.producers.get(value.number)
        key, is_window_sum = (value.number, path), value.number in emission.facts.window_sums.parts
        self._values[value.number] = value
        if value.number in emission.places or node is None or is_window_sum:
            self.leaves[key] = self._leaf_place(value, path)
        elif isinstance(node.operation, Constant):
            return
        elif (place := self._generated_view(value, is_root=is_root)) is not None:
            self.leaves[key] = follow(path, place) or self._dense_leaf(*key)
        elif is_passed(node) and self._is_inlined(node.values[0]):
            self._collect_leaves(node.values[0], (node, *path))
        elif not path and (value.number in self._side_values or self._is_of_rows(value, node)):
            return
        elif node.kind is Kind.ELEMENTWISE and (
            is_root or self._is_inlined(value) or self._try_side_value(value, path)
        ):
            for operand in node.values:
                self._collect_leaves(operand, path)
        else:
            self.leaves[key] = self._leaf_place(value, path)

    def _is_inlined(self, value: Value) -> bool:
        """True if each reader computes a value for itself, so that it is not stored."""
        emission = self.emission
        node = emission.facts.producers.get(value.number)
        is_window_sum = value.number in emission.facts.window_sums.parts
        if node is None or value.number in emission.places or is_window_sum:
            return False
        if is_passed(node):
            return self._is_inlined(node.values[0])
        if node.kind is not Kind.ELEMENTWISE:
            return False
        if is_widening(node):
            return True
        return emission.facts.uses.get(value.number, 0) <= 1 or self._is_cheap(value)

    def _generated_view(self, value: Value, *, is_root: bool = False) -> TensorPlace | None:
        """A view of an iota, random numbers or gathered rows, which readers generate; else None."""
        node = self.emission.facts.producers.get(value.number)
        if node is None or value.number in self.emission.places:
            return None
        if is_deferred_gather(self.emission, node) and len(value.shape) < MATRIX_RANK:
            return gathered_rows(self.emission, node).place()
        if is_view(node):
            place = self._generated_view(node.values[0])
            return None if place is None else apply_view(node, place)
        is_once = self.emission.facts.uses.get(value.number, 0) <= 1
        if isinstance(node.operation, Iota) or (
            isinstance(node.operation, Rng) and is_root | is_once
        ):
            return generated_place(node.operation)
        return None

    def _is_of_rows(self, value: Value, node: Node) -> bool:
        """True if a value broadcasts a deferred reduction, whose operand is then collected."""
        has_this_shape = self._may_have_side_values and value.shape == self.value.shape
        if not has_this_shape or not isinstance(node.operation, BroadcastInDim):
            return False
        reduction = deferred_reduction(self.emission, node)
        if reduction is None or reduction.values[0].shape != value.shape:
            return False
        is_new = value.number not in self._row_reductions
        self._row_reductions[value.number] = reduction
        if is_new:
            self._collect_leaves(reduction.values[0], ())
        return True

    def _try_side_value(self, value: Value, path: Path) -> bool:
        """True if an operand of this shape with other readers is computed and stored here too."""
        has_this_shape = self._may_have_side_values and not path and value.shape == self.value.shape
        if has_this_shape and value.number not in self.emission.deferred.concatenations:
            self._side_values[value.number] = value
            return True
        return False

    def _is_cheap(self, value: Value) -> bool:
        """True if a value is one short operation on stored values, which each reader repeats."""
        emission = self.emission
        node = emission.facts.producers[value.number]
        if not is_short(node, emission.facts.uses[value.number]):
            return False
        if isinstance(node.operation, Convert):
            places = [emission.places.get(operand.number) for operand in node.values]
            return all(place is not None and not place[0].is_pending for place in places)
        return all(self._is_at_hand(operand) for operand in node.values)

    def _is_at_hand(self, value: Value) -> bool:
        """True if a value is stored, an iota or a number, or a conversion or broadcast of these."""
        emission = self.emission
        while value.number not in emission.places:
            node = emission.facts.producers.get(value.number)
            is_skipped = node is not None and (
                isinstance(node.operation, BroadcastInDim | Reshape)
                or (isinstance(node.operation, Convert) and are_floats(node))
            )
            if node is None or not is_skipped:
                is_iota = node is not None and isinstance(node.operation, Iota)
                return is_iota or self._constant_number(value) is not None
            value = node.values[0]
        return not emission.places[value.number][0].is_pending

    def _leaf_place(self, value: Value, path: Path) -> TensorPlace:
        """The place of a leaf, seen through the views of `path`."""
        emission = self.emission
        places = emission.find_places(value)
        if places[0].is_pending:
            view = follow(path, places[0])
            is_once = emission.facts.uses.get(value.number, 0) <= 1
            if is_once and view is not None and covers_pending_result(view):
                return view
        for place in emission.materialize(value):
            view = follow(path, place)
            if view is not None:
                return view
        return self._dense_leaf(value.number, path)

    def _materialize_others(self) -> None:
        """Compute pending leaves of another frame, whose tiles do not match this frame's."""
        for (number, path), place in list(self.leaves.items()):
            if place.is_pending and frame_of(place) != self.frame:
                value = self._values[number]
                self.emission.materialize(value)
                self.leaves[number, path] = self._leaf_place(value, path)

    def _tile_of(
        self, value: Value, path: Path, span: TileSpan, dst: Tensor | None = None
    ) -> Tensor:
        """The tile of a value in a span; a stored value is computed in its place."""
        key = (value.number, path)
        if key in self._memo and dst is None:
            return self._memo[key]
        if path or value.number not in self._side_values:
            return self._compute_tile(value, path, span, dst)
        tile = self._compute_stored(value, span)
        return tile if dst is None else copied(tile, dst.dtype, dst)

    def _compute_tile(self, value: Value, path: Path, span: TileSpan, dst: Tensor | None) -> Tensor:
        """The tile of a value, computed or read from a leaf."""
        key = (value.number, path)
        number = self._constant_number(value)
        if number is not None:
            tile = constant_tile(number, value.dtype, span.partitions)
        elif not path and value.number in self._row_reductions:
            tile = self._row_value(self.emission.facts.producers[value.number].values[0], span)
        elif key in self.leaves:
            tile = self.leaf_tile(key, span)
        else:
            node = self.emission.facts.producers[value.number]
            if is_passed(node):
                return self._tile_of(node.values[0], (node, *path), span, dst)
            is_elided = isinstance(node.operation, Convert) and self._is_elided(node)
            if dst is not None and is_elided and self._constant_number(node.values[0]) is None:
                return self._tile_of(node.values[0], path, span, dst)
            tile = self._activation_tile(node, path, span, dst)
            if tile is None:
                tile = self._fused_tile(node, path, span, dst)
            self._memo[key] = tile
            return tile
        if dst is not None:
            tile = copied(tile, dst.dtype, dst)
        self._memo[key] = tile
        return tile

    def _row_value(self, value: Value, span: TileSpan) -> Any:
        """A value from deferred reductions: a number, or a tile [partitions, blocks, 1]."""
        number = self._constant_number(value)
        if number is not None:
            return number
        if (value.number, ()) not in self._memo:
            node = self.emission.facts.producers[value.number]
            if value.number in self.emission.deferred.reductions:
                column = self._reduce_span(node, span)
            elif node.kind is Kind.ELEMENTWISE:
                operands = [
                    self._row_value(operand, span) if isinstance(operand, Value) else operand
                    for operand in node.operands
                ]
                column = apply(node, operands)
            else:
                column = self._row_value(node.values[0], span)
            self._memo[value.number, ()] = column
        return self._memo[value.number, ()]

    def _reduce_span(self, node: Node, span: TileSpan) -> Tensor:
        """The reduction of each row of a span; a sum of squares is one instruction."""
        operation: Any = node.operation
        sums = new((span.partitions, span.blocks, 1))
        value = node.values[0]
        inner, path = self._inner_operation(value, ())
        is_square = inner is not None and isinstance(inner.operation, Square)
        if inner is not None and is_square and operation.op == "add" and span.blocks == 1:
            data = self._operand(inner.values[0], path, span)
            reduce_squares(data, sums)
            return sums
        reduce_rows(self._tile_of(value, (), span), operation.op, sums)
        return sums
