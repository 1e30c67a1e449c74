"""Gradients of attention on the chip: scores are recomputed there and never stored.

Queries run along the partitions, 128 at a time, keys along the columns, a bank of PSUM at a time.
A tile's weights follow from the stored log-sum-exps of the forward pass, without a maximum. The
gradients of keys and values are added up in PSUM over the queries; the gradients of queries over
the keys, in SBUF if there are several stretches of keys. Short heads lie side by side in a bank.
The method is algorithm 4 of Dao et al., FlashAttention (arXiv:2205.14135).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from trnsim.graph import Node
from trnsim.graph.ops.contraction import AttentionBackward
from trnsim.isa import Engine
from trnsim.lower.emit.attending.attention import AttentionEmitter
from trnsim.lower.emit.attending.heads import (
    columns_of,
    copy_from_psum,
    copy_scaled,
    first_partition,
    head_of,
    is_transposed_in_hbm,
    rows_of,
    store_head,
)
from trnsim.lower.emit.attending.neighbours import store_rows
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import copy_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, frame_in_hbm, is_aligned, load_tile
from trnsim.lower.kernels import balance, tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_GRADIENT_BANKS: Final = 4
"""Banks of PSUM for the gradients of a stretch of keys and values: half of the eight."""
Index = tuple[int, ...]


@emitter(AttentionBackward)
def attention_backward(emission: Emission, node: Node) -> None:
    """Emit the gradients of queries, keys and values."""
    AttentionGradient(emission, node).run()


@dataclass
class _HeadGroup:
    """Heads that are computed together; operands are stored as columns [width, rows] and as rows.

    Attributes:
        query: for each head a tile for each 128 elements of E: [elements, L].
        key: for each head a tile for each 128 elements of E: [elements, S].
        value: for each head a tile for each 128 elements of V: [elements, S].
        grad: the result's gradient; for each head a tile for each 128 elements of V: [elements, L].
        query_rows: for each 128 queries a tile for each head: [queries, E].
        key_rows: for each 128 keys a tile for each head: [keys, E].
        grad_rows: for each 128 queries a tile for each head: [queries, V].
        gradient_times_result: a tile for each 128 queries, [queries, heads]: the sum, over V, of
            the gradient of each query's result times the result.
        query_gradients: the queries' gradients from the stretches of keys so far; first query of
            each 128 -> a tile for each 128 elements of E, [elements, heads, queries].
    """

    heads: list[Index]
    query: list[list[Tensor]]
    key: list[list[Tensor]]
    value: list[list[Tensor]]
    grad: list[list[Tensor]]
    query_rows: list[list[Tensor]]
    key_rows: list[list[Tensor]]
    grad_rows: list[list[Tensor]]
    gradient_times_result: list[Tensor]
    query_gradients: dict[int, list[Tensor]]


class AttentionGradient(AttentionEmitter):
    """The emission of one attention's gradients.

    Attributes:
        is_in_rows: whether all gradients are written as rows in HBM, each head in one block.
        stretch: the number of keys whose gradients are in PSUM at once.
    """

    def __init__(self, emission: Emission, node: Node) -> None:
        super().__init__(emission, node)
        key, value, grad, result = node.values[1:5]
        self.key, self.value, self.grad, self.result = map(
            self._readable_place, (key, value, grad, result)
        )
        self.logs: TensorPlace = self._logs()
        self._blocks: dict[int, tuple[int, TensorPlace]] = {}
        self._loaded_rows: dict[Any, Tensor] = {}
        self.is_in_rows = False
        widths = [-(-width // P) for width in (self.E, self.V)]
        self.stretch = max(min(BANK, _GRADIENT_BANKS * BANK // sum(widths) // P * P), P)

    def run(self) -> None:
        """Emit every head, as many side by side as fit in a bank."""
        outs = self._allocate_outputs()
        heads = sorted(
            product(*map(range, self.heads)), key=lambda index: head_of(outs[0], index).offset
        )
        with balance.balanced():
            for at, count in tiles.pieces(len(heads), self._heads_at_once_with_gradients()):
                self._emit_group(self._load_group(heads[at : at + count]), outs)
        for value, out in zip(self.node.results, outs, strict=True):
            self.emission.places[value.number] = [out]

    def _allocate_outputs(self) -> list[TensorPlace]:
        """Places for the gradients: rows in HBM if no node reads them and heads are short."""
        emission, results = self.emission, self.node.results
        are_outputs_only = all(map(emission.facts.is_output_only, results))
        self.is_in_rows = are_outputs_only and max(self.L, self.S) <= P
        if self.is_in_rows:
            return [
                in_hbm(tiles.output(value.shape, value.dtype), value.shape) for value in results
            ]
        frames = [
            self.head_frame(value.shape, like)
            for value, like in zip(results, (self.query, self.key, self.value), strict=True)
        ]
        return [
            emission.residents.allocate(frame, value)
            for frame, value in zip(frames, results, strict=True)
        ]

    def _heads_at_once_with_gradients(self) -> int:
        """The number of heads whose scores fit in one bank, and so do their gradients and rows."""
        if max(self.L, self.S) > P:
            return 1
        return max(BANK // max(self.S, self.L, self.E, self.V), 1)

    # Operands

    def _logs(self) -> TensorPlace:
        """The log-sum-exps, negated, [queries of a block, blocks, heads]."""
        value = self.node.values[5]
        rank = len(value.shape)
        frame = Frame(value.shape, (rank - 1,), tuple(range(rank - 1)))
        places = self.emission.materialize(value)
        place = next((place for place in places if is_aligned(place, frame)), None)
        if place is None or place.steps != frame.steps() or any(place.offset):
            place = copy_in_frame(places[0], frame)
        logs = frame.matrix(nl.float32)
        nisa.tensor_scalar(
            dst=logs.storage.tile, data=place.storage.tile, op0=nl.multiply, operand0=-1.0
        )
        return logs

    def _negated_logs(self, index: Index, start: int, count: int) -> Tensor:
        """The log-sum-exps of some queries, negated, [queries, 1]."""
        column = sum(step[1] * at for step, at in zip(self.logs.steps, index, strict=False))
        return self.logs.storage.tile[:count, start // P, column : column + 1]

    def _loaded_head_of(self, place: TensorPlace, index: Index) -> TensorPlace:
        """A head's matrix; one in HBM is loaded with its neighbours.

        A head that lies transposed is loaded by whole blocks of partitions, if it is in one block.
        """
        matrix = head_of(place, index)
        if not is_transposed_in_hbm(matrix):
            loaded, _ = self.neighbours.head_and_first_row(place, index)
            return loaded if loaded.shape == matrix.shape else matrix
        width = place.shape[-1]
        if width > P:
            return matrix
        block = P if P % width == 0 else P // width * width
        frame = replace(frame_in_hbm(place), block=block)
        steps = frame.steps()
        first = sum(step[0] * at for step, at in zip(steps, index, strict=False))
        number = first // block
        sides = zip(matrix.shape, steps[-2:], strict=True)
        if first % block + sum((length - 1) * step[0] for length, step in sides) >= block:
            return matrix
        loaded_number, loaded_block = self._blocks.get(id(place), (-1, place))
        if loaded_number != number:
            partitions = min(block, frame.rows - number * block)
            tile = load_tile(
                place, frame, TileSpan(number, 1, partitions, 0, frame.columns), self.dtype
            )
            band = SbufMatrix(tile, partitions, block)
            loaded_block = TensorPlace(band, place.shape, steps, (-number * block, 0))
            self._blocks[id(place)] = number, loaded_block
        return head_of(loaded_block, index)

    def _load_rows(self, matrix: TensorPlace, start: int, count: int) -> Tensor:
        """`count` rows of a head's matrix from `start` on, loaded once for a group."""
        key = id(matrix.storage), matrix.offset, matrix.shape, matrix.steps, start
        if key not in self._loaded_rows:
            self._loaded_rows[key] = rows_of(matrix, matrix.shape[1], start, count, self.dtype)
        return self._loaded_rows[key]

    def _columns(self, matrix: TensorPlace, partition: int) -> list[Tensor]:
        """The columns of a head's matrix [rows, width], a tile for each 128 elements of width."""
        length, total_width = matrix.shape
        slices = list(tiles.pieces(total_width, P))
        if matrix.is_on_chip or is_transposed_in_hbm(matrix):
            parts = [(matrix.sliced((length, n), (0, at), (1, 1)), n) for at, n in slices]
            return [columns_of(part, n, 0, length, self.dtype, partition) for part, n in parts]
        columns = [new((width, length), self.dtype) for _, width in slices]
        for start, count in tiles.pieces(length, P):
            line = self._load_rows(matrix, start, count)
            for column, (at, width) in zip(columns, slices, strict=True):
                flipped = new((width, count), self.dtype, nl.psum)
                nisa.nc_transpose(dst=flipped, data=line[:, at : at + width])
                nisa.tensor_copy(dst=column[:, start : start + count], src=flipped)
        return columns

    def _load_group(self, heads: list[Index]) -> _HeadGroup:
        """Load the operands of some heads into SBUF."""
        self._loaded_rows.clear()
        query, key = self._operand_columns(self.query, self.key, heads, self.E)
        grad, value = self._operand_columns(self.grad, self.value, heads, self.V)
        return _HeadGroup(
            heads,
            query,
            key,
            value,
            grad,
            self._rows(self.query, heads, query),
            self._rows(self.key, heads, key),
            self._rows(self.grad, heads, grad),
            self._row_sums(heads),
            {},
        )

    def _operand_columns(
        self, queries: TensorPlace, keys: TensorPlace, heads: list[Index], width: int
    ) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        """The columns of both operands of a product, by head, from the same partition on."""
        columns: tuple[list[list[Tensor]], list[list[Tensor]]] = ([], [])
        for index in heads:
            first, other = (
                self._first_partition_of(side, index, width) for side in (queries, keys)
            )
            if first == other >= 0:
                for side, place in zip(columns, (queries, keys), strict=True):
                    side.append(self._columns_in_place(place, index, first))
                continue
            matrices = [self._loaded_head_of(place, index) for place in (queries, keys)]
            partitions = {first_partition(matrix, width) for matrix in matrices}
            partition = partitions.pop() if len(partitions) == 1 else 0
            for side, matrix in zip(columns, matrices, strict=True):
                side.append(self._columns(matrix, partition))
        return columns

    def _first_partition_of(self, place: TensorPlace, index: Index, width: int) -> int:
        """The first partition of a head's columns, in SBUF or loaded with neighbours; or -1."""
        matrix = head_of(place, index)
        if place.is_on_chip and matrix.steps[1] == (1, 0):
            return first_partition(matrix, width)
        return self.neighbours.first_partition(place, index)

    def _columns_in_place(self, place: TensorPlace, index: Index, partition: int) -> list[Tensor]:
        """A head's columns at the partition that `_first_partition_of` gives."""
        if place.is_on_chip:
            return self._columns(head_of(place, index), partition)
        return [self.neighbours.columns(place, index)]

    def _rows(
        self, place: TensorPlace, heads: list[Index], columns: list[list[Tensor]]
    ) -> list[list[Tensor]]:
        """For each 128 rows a tile for each head: loaded rows, or `columns` transposed."""
        length, width = place.shape[-2:]
        rows: list[list[Tensor]] = []
        is_transposed = place.is_on_chip and place.steps[-1] == (1, 0)
        for start, count in tiles.pieces(length, P):
            if not is_transposed and not is_transposed_in_hbm(head_of(place, heads[0])):
                rows.append(
                    [
                        self._load_rows(self._loaded_head_of(place, index), start, count)
                        for index in heads
                    ]
                )
                continue
            flipped = new((count, len(heads), width), self.dtype, nl.psum)
            for number, parts in enumerate(columns):
                for part, (at, n) in zip(parts, tiles.pieces(width, P), strict=True):
                    dst = flipped[:, number, at : at + n]
                    nisa.nc_transpose(dst=dst, data=part[:, start : start + count])
            transposed = copied(flipped, self.dtype)
            rows.append([transposed[:, number] for number in range(len(heads))])
        return rows

    def _row_sums(self, heads: list[Index]) -> list[Tensor]:
        """The tiles `_HeadGroup.gradient_times_result`."""
        grads, results = self._operand_columns(self.grad, self.result, heads, self.V)
        terms_by_head: list[tuple[int, Tensor]] = []
        for number, sides in enumerate(zip(grads, results, strict=True)):
            for grad, result in zip(*sides, strict=True):
                terms = new(grad.shape)
                nisa.tensor_tensor(
                    dst=terms, data1=grad, data2=result, op=nl.multiply, engine=nisa.gpsimd_engine
                )
                terms_by_head.append((number, terms))
        ones, row_sums = self.emission.constants.ones(nl.float32), list[Tensor]()
        for start, count in tiles.pieces(self.L, P):
            sums = new((count, len(heads)), nl.float32, nl.psum)
            for number, column in terms_by_head:
                nisa.nc_matmul(
                    dst=sums[:, number : number + 1],
                    stationary=column[:, start : start + count],
                    moving=ones[: column.shape[0], :1],
                )
            row_sums.append(copied(sums, nl.float32))
        return row_sums

    # Computing

    def _emit_group(self, group: _HeadGroup, outs: list[TensorPlace]) -> None:
        """Emit the gradients of a group of heads, a stretch of keys at a time."""
        heads = len(group.heads)
        for start, count in tiles.pieces(self.S, self.stretch):
            is_last = start + count == self.S
            sums = [self._new_sums(width, heads, count) for width in (self.E, self.V)]
            visible = [
                (at, n) for at, n in tiles.pieces(self.L, P) if self._is_visible(at + n - 1, start)
            ]
            for queries in visible:
                self._add_block(group, queries, (start, count), sums)
            if not visible:
                sums = [[new(part.shape) for part in side] for side in sums]
                for side in sums:
                    for part in side:
                        nisa.memset(dst=part, value=0.0)
            for out, parts, scale in zip(outs[1:], sums, (self.scale, 1.0), strict=True):
                self._store_gradient(out, group, start, parts, scale)
            if is_last:
                for at, parts in group.query_gradients.items():
                    self._store_gradient(outs[0], group, at, parts, self.scale)

    def _new_sums(self, width: int, heads: int, rows: int) -> list[Tensor]:
        """New tiles in PSUM: [128, heads, rows] by 128 of the width; or [rows, heads, width]."""
        if self.is_in_rows:
            return [new((rows, heads, width), nl.float32, nl.psum)]
        return [new((n, heads, rows), nl.float32, nl.psum) for _, n in tiles.pieces(width, P)]

    def _add_product(self, sums: list[Tensor], head: int, rows: Tensor, weights: Tensor) -> None:
        """Add ``rows.T @ weights`` to the sums of head number `head`.

        `rows` is [n, width], `weights` [n, m]. If `is_in_rows`, the transpose is added.
        """
        if self.is_in_rows:
            for at, width in tiles.pieces(rows.shape[1], BANK):
                dst, moving = sums[0][:, head, at : at + width], rows[:, at : at + width]
                nisa.nc_matmul(dst=dst, stationary=weights, moving=moving)
            return
        for part, (at, width) in zip(sums, tiles.pieces(rows.shape[1], P), strict=True):
            stationary = rows[:, at : at + width]
            nisa.nc_matmul(dst=part[:, head], stationary=stationary, moving=weights)

    def _is_visible(self, query: int, key: int) -> bool:
        """True if a query sees a key, by their numbers."""
        return not self.is_causal or key <= query

    def _add_block(
        self,
        group: _HeadGroup,
        queries: tuple[int, int],
        keys: tuple[int, int],
        sums: list[list[Tensor]],
    ) -> None:
        """Add the terms of 128 queries and a stretch of keys to the gradients of both.

        `queries` and `keys` are (first, count); `sums` are the gradients of keys and of values.
        """
        (at, rows), (start, columns), tile = queries, keys, queries[0] // P
        weights = self._weights(group, queries, keys)
        score_gradients = new(weights.shape, self.dtype)
        products = new(weights.shape, nl.float32, nl.psum)
        for number in range(len(group.heads)):
            for grad, value in zip(group.grad[number], group.value[number], strict=True):
                nisa.nc_matmul(
                    dst=products[:, number],
                    stationary=grad[:, at : at + rows],
                    moving=value[:, start : start + columns],
                )
            nisa.scalar_tensor_tensor(
                dst=score_gradients[:, number],
                data=products[:, number],
                op0=nl.subtract,
                operand0=group.gradient_times_result[tile][:, number : number + 1],
                op1=nl.multiply,
                operand1=weights[:, number],
            )
            balance.record(Engine.vector, products[:, number])
            for dst, side, moving in (
                (sums[0], group.query_rows, score_gradients),
                (sums[1], group.grad_rows, weights),
            ):
                self._add_product(dst, number, side[tile][number], moving[:, number])
        self._add_query_gradients(group, at, start, score_gradients)

    def _weights(
        self, group: _HeadGroup, queries: tuple[int, int], keys: tuple[int, int]
    ) -> Tensor:
        """``exp(scale * scores - log-sum-exp)``, zero where a key is masked."""
        (at, rows), (start, columns) = queries, keys
        shape = rows, len(group.heads), columns
        scores, weights = new(shape, nl.float32, nl.psum), new(shape, self.dtype)
        for number, index in enumerate(group.heads):
            for query, key in zip(group.query[number], group.key[number], strict=True):
                nisa.nc_matmul(
                    dst=scores[:, number],
                    stationary=query[:, at : at + rows],
                    moving=key[:, start : start + columns],
                )
            self.add_bias(scores[:, number], (index, at, rows), start)
            nisa.activation(
                dst=weights[:, number],
                op=nl.exp,
                data=scores[:, number],
                scale=self.scale,
                bias=self._negated_logs(index, at, rows),
            )
            balance.record(Engine.scalar, scores[:, number])
        if self._is_visible(at, start + columns - 1):
            return weights
        visible = new(shape, self.dtype)
        nisa.affine_select(
            dst=visible,
            pattern=[[0, shape[1]], [-1, columns]],
            offset=at - start,
            channel_multiplier=1,
            on_true_tile=weights,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        return visible

    def _add_query_gradients(
        self, group: _HeadGroup, at: int, start: int, score_gradients: Tensor
    ) -> None:
        """Add the contribution of a stretch of keys to the gradients of 128 queries."""
        rows, many, columns = score_gradients.shape
        blocks = -(-columns // P)
        flipped = new((min(P, columns), many * blocks, rows), self.dtype, nl.psum)
        for number in range(many):
            for block, (key, count) in enumerate(tiles.pieces(columns, P)):
                dst = flipped[:count, number * blocks + block]
                nisa.nc_transpose(dst=dst, data=score_gradients[:, number, key : key + count])
        transposed = copy_from_psum(flipped, columns, blocks)
        sums = self._new_sums(self.E, many, rows)
        for number in range(many):
            for block, (key, count) in enumerate(tiles.pieces(columns, P)):
                keys = group.key_rows[(start + key) // P][number]
                self._add_product(sums, number, keys, transposed[:count, number * blocks + block])
        before = group.query_gradients.get(at)
        if before is not None:
            pairs = [
                (new(earlier.shape), earlier, later)
                for earlier, later in zip(before, sums, strict=True)
            ]
            for total, earlier, later in pairs:
                nisa.tensor_tensor(dst=total, data1=earlier, data2=later, op=nl.add)
            sums = [total for total, _, _ in pairs]
        elif self.stretch < self.S:
            sums = [copied(part, nl.float32) for part in sums]
        group.query_gradients[at] = sums

    # Storing

    def _store_gradient(
        self, out: TensorPlace, group: _HeadGroup, start: int, parts: list[Tensor], scale: float
    ) -> None:
        """Store the sums `parts` times `scale`, from row `start` on; contiguous heads together."""
        matrices = [head_of(out, index) for index in group.heads]
        if self.is_in_rows:
            (part,) = parts
            store_rows(matrices, copy_scaled(new(part.shape, self.dtype), part, scale))
            return
        rows, first = parts[0].shape[2], 0
        while first < len(matrices):
            end = first + 1
            while end < len(matrices) and _is_contiguous(matrices, first, end, rows):
                end += 1
            for number, part in enumerate(parts):
                width = part.shape[0]
                target = matrices[first].sliced((rows, width), (start, number * P), (1, 1))
                flat = part[:, first:end].reshape((width, (end - first) * rows))
                store_head(target, flat, self.dtype, scale)
            first = end


def _is_contiguous(matrices: list[TensorPlace], first: int, last: int, rows: int) -> bool:
    """True if head `last` lies right after the heads from `first` on, and `rows` are all rows."""
    start, end = matrices[first], matrices[last]
    if start.steps[0][-1] != 1 or any(start.steps[0][:-1]) or rows != start.shape[0]:
        return False
    return end.offset == (*start.offset[:-1], start.offset[-1] + (last - first) * rows)
