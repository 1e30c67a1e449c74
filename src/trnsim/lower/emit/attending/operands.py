"""The operands of attention: places of queries, keys and values, and tiles of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.layout import BroadcastInDim, Concatenate, Reshape
from trnsim.lower.emit.attending.heads import (
    columns_of,
    first_partition,
    head_of,
    rows_of,
)
from trnsim.lower.emit.attending.neighbours import Neighbours, lies_in_rows
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_STRETCH_KEYS: Final = 2048
"""Most keys whose scores are in PSUM at once: they take half of its banks."""
_TRANSPOSED_BLOCKS: Final = 4
"""Most blocks of 128 keys that are transposed in one bank of PSUM; they fit in any format."""
_FEW_KEYS: Final = 512
"""Most keys of a head that one transfer loads together with other heads."""
_RUN_KEYS: Final = 16
"""Most neighbouring keys that one transfer puts on a partition."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive keys of one part.

    Attributes:
        part: number of the part in `Operands.parts`.
        start: number of the first key within the part.
        count: number of keys.
        first: number of the first key in the whole sequence of keys.
    """

    part: int
    start: int
    count: int
    first: int


@dataclass
class KeyStretch:
    """The keys and values of a stretch, as tiles on chip.

    Attributes:
        start: number of the first key in the whole sequence of keys.
        length: number of keys.
        keys: a tile for each 128 elements of E: [elements, keys].
        values: a tile for each 128 keys: [keys, V].
    """

    start: int
    length: int
    keys: list[Tensor]
    values: list[Tensor]


@dataclass
class QueryRows:
    """Up to 128 queries that read the same keys, and the state of their running softmax.

    The scores of these queries lie on the partitions, a query on each.

    Attributes:
        stretches: (index of the head, first query, count) of each stretch of queries.
        queries: a tile for each 128 elements of E: [elements, queries].
        shift: ``-scale * maximum`` of each query's scores in the stretches of keys so far,
            [queries, 1]; None before the first stretch.
        result: for each query the sum of weighted values so far, and in the last column the sum of
            the weights, [queries, V + 1]; None before the first stretch.
    """

    stretches: list[tuple[tuple[int, ...], int, int]]
    queries: list[Tensor]
    shift: Any = None
    result: Any = None

    @property
    def rows(self) -> int:
        """Number of queries."""
        return sum(count for *_, count in self.stretches)


class Operands:
    """The queries, keys, values and bias of one attention.

    Attributes:
        heads: the lengths of the dimensions before queries and width.
        L: number of queries.
        S: number of keys.
        E: elements of a query and of a key.
        V: elements of a value.
        window: maximum number of keys that a query sees, up to its own; 0 for all.
        slices: (first, count) of each 128 elements of E.
        parts: (place of the keys, place of the values, number of keys) of each part: more than one
            if keys are concatenated, such as a cache and new keys.
        logs: the place of the log-sum-exps; None if no node reads them.
        has_ones_column: whether tiles of values have a column of ones, whose weighted sum is the
            sum of the weights.
        transposes_heads_together: whether heads that are neighbours in HBM are transposed together.
        passes: number of passes over keys that are emitted so far, in decoding.
    """

    def __init__(self, emission: Emission, node: Node) -> None:
        self.emission, self.node = emission, node
        operation: Any = node.operation
        self.scale, self.is_causal = float(operation.scale), operation.is_causal
        self.window = operation.window
        query, key, value = node.values[:3]
        self.heads = query.shape[:-2]
        self.L, self.S = query.shape[-2], key.shape[-2]
        self.E, self.V = query.shape[-1], value.shape[-1]
        self.slices = list(tiles.pieces(self.E, P))
        self.dtype = dtype_of(query.dtype)
        self.query = self._readable_place(query)
        self.parts = self._parts(key, value)
        self.bias: TensorPlace | None = None
        others = len(operation.operands) - 1
        if len(node.values) > others:
            (bias,) = node.values[others:]
            self.bias = self._readable_place(bias)
            if self.bias.is_on_chip and self.bias.steps[-1][0]:
                self.bias = in_hbm(emission.dense(bias), bias.shape)
        self.logs: TensorPlace | None = None
        self.has_ones_column = self.transposes_heads_together = False
        self.neighbours = Neighbours(self.heads)
        self.passes = 0
        self._loaded: dict[Any, list[KeyStretch]] = {}
        self._slots: dict[Hashable, Tensor] = {}
        self._masks: dict[tuple[int, ...], Tensor] = {}
        self._constants: dict[Any, Tensor] = {}
        self._joined_masks: dict[Any, Tensor] = {}

    def _readable_place(self, value: Value) -> TensorPlace:
        """A place in HBM, or in SBUF with each row or each column of a head on one partition."""
        *_, rows, width = range(len(value.shape))
        for place in self.emission.materialize(value):
            if place.is_on_chip and place.storage.tile.dtype != dtype_of(value.dtype):
                continue
            if not place.is_on_chip or not place.steps[width][0]:
                return place
            if place.steps[width] == (1, 0) and not place.steps[rows][0]:
                return place
        return in_hbm(self.emission.dense(value), value.shape)

    def _parts(self, key: Value, value: Value) -> list[tuple[TensorPlace, TensorPlace, int]]:
        """Places of keys and values, and numbers of keys, of the parts that are concatenated.

        For example, a cache is a part, and the new keys are another.
        """
        sides = [self._concatenated_parts(tensor) for tensor in (key, value)]
        if [n for _, n in sides[0]] != [n for _, n in sides[1]]:
            sides = [[(self._readable_place(tensor), self.S)] for tensor in (key, value)]
        return [(k, v, n) for (k, n), (v, _) in zip(*sides, strict=True)]

    def _concatenated_parts(self, value: Value) -> list[tuple[TensorPlace, int]]:
        """The place and the number of keys of each part from which a value is concatenated.

        Views between the concatenation and the value are applied to each part. A value that is not
        a concatenation along keys is one part.
        """
        views, producer = self._views_of(value)
        if producer is None or producer.operation.dim != len(producer.result.shape) - 2:
            return [(self._readable_place(value), self.S)]
        parts: list[tuple[TensorPlace, int]] = []
        for operand in producer.values:
            place: TensorPlace | None = self._readable_place(operand)
            for view in views:
                shape = (*view.result.shape[:-2], operand.shape[-2], view.result.shape[-1])
                if place is not None and isinstance(view.operation, BroadcastInDim):
                    place = place.repeated(shape, view.operation.dims)
                elif place is not None:
                    place = place.reshaped(shape)
            if place is None:
                return [(self._readable_place(value), self.S)]
            parts.append((place, operand.shape[-2]))
        return parts

    def _views_of(self, value: Value) -> tuple[list[Node], Any]:
        """The concatenation that a value is a view of, and the views from it to the value.

        It is ([], None) if there is none, or if a view changes the last two dimensions.
        """
        views: list[Node] = []
        node = self.emission.facts.producers.get(value.number)
        while node is not None and isinstance(node.operation, BroadcastInDim | Reshape):
            if node.values[0].shape[-2:] != node.result.shape[-2:]:
                return [], None
            views.insert(0, node)
            node = self.emission.facts.producers.get(node.values[0].number)
        is_joined = node is not None and isinstance(node.operation, Concatenate)
        return (views, node) if is_joined else ([], None)

    def _groups(self) -> list[list[tuple[int, ...]]]:
        """Heads in groups that read the same keys."""
        groups: defaultdict[Any, list[tuple[int, ...]]] = defaultdict(list)
        for index in product(*map(range, self.heads)):
            groups[self._key_of(index)].append(index)
        return list(groups.values())

    def _key_of(self, index: tuple[int, ...]) -> Any:
        """A value that is equal for heads that read the same keys and values."""
        return tuple(tuple(head_of(side, index).offset for side in part[:2]) for part in self.parts)

    def tiles_of(self, heads: list[tuple[int, ...]]) -> list[QueryRows]:
        """The queries of heads that read the same keys, in groups of up to 128."""
        pending = [(head, at, n) for head in heads for at, n in tiles.pieces(self.L, P)]
        row_tiles: list[QueryRows] = []
        while pending:
            stretches: list[tuple[tuple[int, ...], int, int]] = []
            rows = 0
            while pending and rows + pending[0][2] <= P and (not stretches or self.bias is None):
                rows += pending[0][2]
                stretches.append(pending.pop(0))
            # Keys that several heads read begin at partition 0, and so do their queries.
            parts = [self.queries_at(*stretch, is_alone=len(heads) == 1) for stretch in stretches]
            queries = parts[0] if len(parts) == 1 else self._join_queries(parts, rows)
            row_tiles.append(QueryRows(stretches, queries))
        return row_tiles

    def _join_queries(self, parts: list[list[Tensor]], rows: int) -> list[Tensor]:
        """Tiles with the queries of several stretches beside each other."""
        results: list[Tensor] = []
        for number, (_, width) in enumerate(self.slices):
            tile, column = new((width, rows), self.dtype), 0
            for part in parts:
                count = part[number].shape[1]
                nisa.tensor_copy(dst=tile[:, column : column + count], src=part[number])
                column += count
            results.append(tile)
        return results

    def queries_at(
        self, index: tuple[int, ...], start: int, count: int, *, is_alone: bool
    ) -> list[Tensor]:
        """`count` queries of a head from `start` on, a tile for each 128 elements of E.

        Queries of one head (`is_alone`) begin at the partition at which its keys begin; those that
        are put beside queries of other heads begin at partition 0.
        """
        if is_alone and self.share_partitions(index):
            return [self.neighbours.columns(self.query, index)[:, start : start + count]]
        matrix, first = self.neighbours.head_and_first_row(self.query, index, start)
        partition = self._first_partition(index) if is_alone else 0
        return self._columns_of(matrix, start - first, count, partition)

    def _columns_of(
        self, place: TensorPlace, start: int, count: int, partition: int
    ) -> list[Tensor]:
        """Rows of a head [rows, E] as columns, a tile [elements, rows] for each 128 elements of E.

        The tiles begin at `partition`.
        """
        parts = [
            place.sliced((place.shape[0], width), (0, at), (1, 1)) for at, width in self.slices
        ]
        return [
            columns_of(part, part.shape[1], start, count, self.dtype, partition) for part in parts
        ]

    def share_partitions(self, index: tuple[int, ...]) -> bool:
        """True if queries and keys are both transposed with neighbours, onto the same partitions.

        The neighbours are other heads near in HBM.
        """
        are_few_keys = (
            len(self.parts) == 1 and self.S <= _FEW_KEYS and self.transposes_heads_together
        )
        query, key = (
            self.neighbours.first_partition(side, index) for side in (self.query, self.parts[0][0])
        )
        return are_few_keys and query == key >= 0

    def queries_of(self, index: tuple[int, ...]) -> Tensor:
        """The queries of a head, [E, L]."""
        return columns_of(
            self.neighbours.head_and_first_row(self.query, index)[0], self.E, 0, self.L, self.dtype
        )

    def _first_partition(self, index: tuple[int, ...]) -> int:
        """The partition at which a head's queries and keys both begin; 0 if they differ."""
        query = first_partition(head_of(self.query, index), self.E)
        keys = [first_partition(head_of(key, index), self.E) for key, _, _ in self.parts]
        return query if all(first == query for first in keys) else 0

    def keys_of(self, heads: list[tuple[int, ...]]) -> list[KeyStretch]:
        """The stretches of keys and values that some heads read, loaded once."""
        index = heads[0]
        cache_key = self._key_of(index)
        if cache_key in self._loaded:
            return self._loaded[cache_key]
        if len(self._loaded) >= P:
            self._loaded.clear()
        stretches = [
            KeyStretch(at.first, at.count, self.keys_at(heads, at), self.values_at(heads, at))
            for at in self.stretches(_STRETCH_KEYS)
        ]
        self._loaded[cache_key] = stretches
        return stretches

    def stretches(self, longest: int) -> list[Stretch]:
        """All keys in stretches of at most `longest`, each of one part."""
        stretches: list[Stretch] = []
        first = 0
        for number, (_, _, length) in enumerate(self.parts):
            for start, count in tiles.pieces(length, longest):
                stretches.append(Stretch(number, start, count, first + start))
            first += length
        return stretches

    def keys_at(
        self, heads: list[tuple[int, ...]], at: Stretch, slot: Hashable = None
    ) -> list[Tensor]:
        """A stretch of the keys that `heads` read, a tile for each 128 elements of E.

        Stretches with the same `slot` share tiles: the transfer of a stretch waits until the
        previous one has been read. With None, the stretch has new tiles.
        """
        if len(heads) == 1 and self.share_partitions(heads[0]):
            columns = self.neighbours.columns(self.parts[0][0], heads[0])
            return [columns[:, at.start : at.start + at.count]]
        key, is_key_order_free = self._key_or_value_matrix(heads, at, 0)
        if not lies_in_rows(key, self.E):
            partition = self._first_partition(heads[0]) if len(heads) == 1 else 0
            return self._columns_of(key, at.start, at.count, partition)
        keys = [new((width, at.count), self.dtype) for _, width in self.slices]
        for start, parts in self._load_lines(
            key, self.E, at, slot, is_key_order_free=is_key_order_free
        ):
            rows, total_blocks, _ = parts.shape
            pieces = product(
                zip(keys, self.slices, strict=True), tiles.pieces(total_blocks, _TRANSPOSED_BLOCKS)
            )
            for (key_part, (begin, width)), (first, blocks) in pieces:
                flipped = new((width, blocks, rows), self.dtype, nl.psum)
                for block in range(blocks):
                    data = parts[:, first + block, begin : begin + width]
                    nisa.nc_transpose(dst=flipped[:, block], data=data)
                column = start + first * rows
                dst = key_part[:, column : column + blocks * rows]
                copied(flipped, self.dtype, dst.reshape((width, blocks, rows)))
        return keys

    def values_at(
        self, heads: list[tuple[int, ...]], at: Stretch, slot: Hashable = None
    ) -> list[Tensor]:
        """A stretch of the values that `heads` read, a tile for each 128 keys.

        The values have the order in which `keys_at` has the keys.
        """
        value, is_key_order_free = self._key_or_value_matrix(heads, at, 1)
        if lies_in_rows(value, self.V):
            values = [
                parts[:, block]
                for _, parts in self._load_lines(
                    value, self.V, at, slot, is_key_order_free=is_key_order_free
                )
                for block in range(parts.shape[1])
            ]
        else:
            values = [
                rows_of(value, self.V, at.start + start, n, self.dtype)
                for start, n in tiles.pieces(at.count, P)
            ]
        return [self._with_ones(tile) for tile in values] if self.has_ones_column else values

    def _key_or_value_matrix(
        self, heads: list[tuple[int, ...]], at: Stretch, side: int
    ) -> tuple[TensorPlace, bool]:
        """The matrix of a head's keys (side 0) or values (side 1) in the part of a stretch.

        Also True if keys may be read in any order, as keys and values lie in rows in HBM.
        """
        key, value, length = self.parts[at.part]
        matrices = [self._head_with_neighbours(place, heads[0], length) for place in (key, value)]
        are_in_rows = lies_in_rows(matrices[0], self.E) and lies_in_rows(matrices[1], self.V)
        return matrices[side], are_in_rows and self.bias is None and not self.is_causal

    def _head_with_neighbours(
        self, place: TensorPlace, index: tuple[int, ...], length: int
    ) -> TensorPlace:
        """The place of a head: in SBUF with its neighbours for few keys, else where it lies."""
        return (
            self.neighbours.head_and_first_row(place, index)[0]
            if length <= _FEW_KEYS
            else head_of(place, index)
        )

    def _with_ones(self, values: Tensor) -> Tensor:
        """A copy of values [keys, V] with a column of ones, which sums the weights."""
        widened = new((values.shape[0], self.V + 1), self.dtype)
        copied(values, self.dtype, widened[:, : self.V])
        nisa.memset(dst=widened[:, self.V :], value=1.0, engine=nisa.gpsimd_engine)
        return widened

    def _load_lines(
        self,
        place: TensorPlace,
        width: int,
        stretch: Stretch,
        slot: Hashable,
        *,
        is_key_order_free: bool,
    ) -> Iterator[tuple[int, Tensor]]:
        """Load a stretch of a head's rows from HBM.

        With `is_key_order_free`, a partition gets neighbouring keys, which are one long run in HBM.

        Yields:
            The number of a tile's first key in the stretch, and the tile [rows, blocks, width].
        """
        step, start, count = place.steps[0][0], stretch.start, stretch.count
        slot_tile = None if slot is None else self._slot_tile((P, -(-count // P), width), slot)
        for at, keys_loaded in tiles.pieces(
            count // P * P, (_RUN_KEYS if is_key_order_free else _TRANSPOSED_BLOCKS) * P
        ):
            blocks = keys_loaded // P
            view = (
                [(step * blocks, P), (step, blocks)]
                if is_key_order_free
                else [(step, P), (P * step, blocks)]
            )
            view.append((1, width))
            tile = self._tile((P, blocks, width), slot_tile, at // P)
            offset = place.offset[0] + (start + at) * step
            nisa.dma_copy(dst=tile, src=tiles.strided(place.storage, view, offset))
            yield at, tile
        at, last_keys = count // P * P, count % P
        if last_keys:
            tile = self._tile((last_keys, 1, width), slot_tile, at // P)
            offset = place.offset[0] + (start + at) * step
            view = [(step, last_keys), (0, 1), (1, width)]
            nisa.dma_copy(dst=tile, src=tiles.strided(place.storage, view, offset))
            yield at, tile

    def _tile(self, shape: tuple[int, int, int], slot_tile: Tensor | None, block: int) -> Tensor:
        """A new tile [rows, blocks, width]; or, in a slot's tile, its blocks from `block` on."""
        rows, blocks, _ = shape
        return (
            new(shape, self.dtype)
            if slot_tile is None
            else slot_tile[:rows, block : block + blocks]
        )

    def _slot_tile(self, shape: tuple[int, int, int], slot: Hashable) -> Tensor:
        """The tile of a slot, with as many blocks as its longest stretch so far."""
        if slot not in self._slots or self._slots[slot].shape[1] < shape[1]:
            self._slots[slot] = new(shape, self.dtype)
        return self._slots[slot]
