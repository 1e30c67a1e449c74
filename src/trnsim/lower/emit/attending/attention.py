"""Attention on the chip: scores stay in PSUM, and the result has the layout of the next product.

The scores of up to 128 queries that read the same keys form a matrix: a query on each partition, a
key in each column. Keys are read in stretches; with several, earlier sums are rescaled when the
maximum grows. The method is that of Dao et al., FlashAttention (arXiv:2205.14135).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from trnsim.dtypes import float_range
from trnsim.graph import Node
from trnsim.graph.ops.contraction import Attention
from trnsim.isa import Engine
from trnsim.lower.emit.attending.decoding import (
    DecodingAttention,
    groups_of_long_runs,
    identity,
    pack_groups,
)
from trnsim.lower.emit.attending.heads import (
    copy_from_psum,
    head_of,
    is_next_head,
    rows_of,
    store_head,
)
from trnsim.lower.emit.attending.neighbours import lies_in_rows, store_rows
from trnsim.lower.emit.attending.operands import Operands, QueryRows
from trnsim.lower.emit.attending.streaming import StreamedAttention
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import Frame
from trnsim.lower.kernels import balance, tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_RESIDENT_BIAS_STRETCHES: Final = 8
"""Most stretches of a bias that stay in SBUF for the next head."""
_SHORT_KEYS: Final = 256
"""Most keys of a head that is computed together with other heads."""
_MASKED_SCORE: Final = -3.0e38
"""The score of a key that is masked for a query; differences of such finite scores are no NaN."""


@emitter(Attention)
def attention(emission: Emission, node: Node) -> None:
    """Emit ``softmax(scale * Q @ K.T + bias) @ V``, and the log-sum-exps if a node reads them."""
    AttentionEmitter(emission, node).run()


class AttentionEmitter(Operands):
    """The emission of one attention."""

    def run(self) -> None:
        """Emit every group of heads that share keys, 128 queries at a time."""
        groups = self._groups()
        self._allocate_logs()
        heads_at_once = self._heads_at_once()
        packs = None
        is_narrow = max(self.E, self.V) <= P
        if self.bias is None and not self.is_causal and is_narrow and self.logs is None:
            packs = pack_groups(groups, self.L, groups_of_long_runs(self))
        out = self._allocate_output() if packs is None else self._allocate()
        self.transposes_heads_together = packs is None
        if packs is not None:
            with balance.balanced():
                for pack in packs:
                    DecodingAttention(self, pack).run(out)
        elif heads_at_once > 1 and all(len(heads) == 1 for heads in groups):
            with balance.balanced():
                for at, count in tiles.pieces(len(groups), heads_at_once):
                    self._attend_together([heads[0] for heads in groups[at : at + count]], out)
        else:
            self.has_ones_column = True
            StreamedAttention(self).run(groups, out)
        self.emission.places[self.node.result.number] = [out]

    def _allocate_output(self) -> TensorPlace:
        """A place for the result: rows in HBM if no node reads it, else that of `_allocate`."""
        value, emission = self.node.result, self.emission
        if emission.facts.is_output_only(value):
            return in_hbm(tiles.output(value.shape, value.dtype), value.shape)
        return self._allocate()

    def _allocate(self) -> TensorPlace:
        """A place for the result with heads on partitions as in Q, in SBUF if there is room."""
        frame = self.head_frame(self.node.result.shape, self.query)
        return self.emission.residents.allocate(frame, self.node.result)

    def _heads_at_once(self) -> int:
        """The number of heads whose scores lie side by side in a bank of PSUM.

        Their transposed weights fit in a bank too, and so do their results.
        """
        if self.S > _SHORT_KEYS or self.L > P or len(self.parts) > 1 or self.window:
            return 1
        return min(BANK // self.S, BANK // self.V, BANK // (-(-self.S // P) * self.L))

    # Where operands lie

    def head_frame(self, shape: tuple[int, ...], like: TensorPlace) -> Frame:
        """A frame with the last dimension, and some dimensions of heads, along partitions.

        The dimensions of heads are those that `like` has along partitions; if it lies in HBM, all
        but the first. No head straddles two blocks of partitions.
        """
        rank, width = len(shape), shape[-1]
        heads = [dim for dim in range(rank - 2) if shape[dim] > 1]
        p_heads = [dim for dim in heads if like.steps[dim][0]] if like.is_on_chip else []
        if not like.is_on_chip:
            p_heads = heads[1:] or heads
        if width > P and width % P:  # a head would begin within a block
            p_heads = []
        f_heads = tuple(dim for dim in range(rank - 2) if dim not in p_heads)
        block = P if P % width == 0 or not p_heads or width > P else P // width * width
        return Frame(shape, (*p_heads, rank - 1), (*f_heads, rank - 2), block)

    def _allocate_logs(self) -> None:
        """Allocate the log-sum-exps, queries along partitions, if a node reads them."""
        value = self.node.results[1]
        if not self.emission.facts.uses.get(value.number, 0):
            return
        rank = len(value.shape)
        frame = Frame(value.shape, (rank - 1,), tuple(range(rank - 1)))
        self.logs = frame.matrix(nl.float32)
        self.emission.residents.add(value, self.logs)
        self.emission.places[value.number] = [self.logs]

    # A head's result

    def store_head(self, out: TensorPlace, index: tuple[int, ...], columns: Tensor) -> None:
        """Store the result of a head, [V, L]."""
        matrix = head_of(out, index).sliced((self.L, self.V), (0, 0), (1, 1))
        store_head(matrix, columns, self.dtype)

    # Computing

    def mask_out(self, scores: Tensor, rows: QueryRows, first: int) -> None:
        """Add `_MASKED_SCORE` to the scores of masked keys in PSUM, by products.

        `first` is the number of the key in the first column.
        """
        columns, stretches = scores.shape[1], rows.stretches
        if not self.is_causal:
            return
        start = max(0, min(at for _, at, _ in stretches) + 1 - first)
        if start < columns:
            self._mask_columns(scores[:, start:], rows, 1, -first - start)
        end = min(columns, max(at + n for _, at, n in stretches) - self.window - first)
        if self.window and end > 0:
            self._mask_columns(scores[:, :end], rows, -1, 1 - self.window - first)

    def _mask_columns(self, scores: Tensor, rows: QueryRows, side: int, offset: int) -> None:
        """Mask the scores of a query at position p, except in columns up to ``p + offset``.

        With `side` -1, the columns from ``p + offset`` on are the exception.
        """
        offsets = tuple((at + offset, n) for _, at, n in rows.stretches)
        mask = self._masks_of(offsets, scores.shape[1], side)
        unit = self._identity()[: rows.rows, : rows.rows]
        nisa.nc_matmul(dst=scores, stationary=unit, moving=mask)

    def _identity(self) -> Tensor:
        """The identity matrix [128, 128] in bfloat16."""
        return self.emission.constants.get_or_make(
            ("identity", "bfloat16"), partial(identity, nl.bfloat16)
        )

    def add_bias(self, sums: Tensor, stretch: tuple[tuple[int, ...], int, int], first: int) -> None:
        """Add the bias, divided by the scale, to scores in PSUM, by a product.

        `stretch` has the queries, as in `QueryRows.stretches`; `first` is the number of the key in
        the first column. A bias that all queries share is one row, which the product with a column
        of ones repeats. Minus infinity becomes a finite number, as the product multiplies each bias
        by zeros too.
        """
        if self.bias is None:
            return
        (index, at, count), columns = stretch, sums.shape[1]
        bias = head_of(self.bias, index)
        is_row = not any(bias.steps[0])
        part = bias.sliced((1 if is_row else count, columns), (0 if is_row else at, first), (1, 1))
        key = ("bias", part.offset, part.shape)
        if key not in self._constants:
            stored = self.bias.storage.tile if self.bias.is_on_chip else self.bias.storage
            bias_rows = rows_of(part, columns, 0, part.shape[0], stored.dtype)
            tile = new(bias_rows.shape, bias_rows.dtype)
            lowest = max(_MASKED_SCORE * min(self.scale, 1.0), -float_range(tile.dtype).largest)
            nisa.tensor_scalar(dst=tile, data=bias_rows, op0=nl.maximum, operand0=lowest)
            if len(self._constants) > _RESIDENT_BIAS_STRETCHES:
                self._constants.clear()
            self._constants[key] = tile
        tile = self._constants[key]
        unit = self._inverse_scale(tile.dtype, count, is_row=is_row)
        nisa.nc_matmul(dst=sums, stationary=unit, moving=tile)

    def _inverse_scale(self, dtype: Any, count: int, *, is_row: bool) -> Tensor:
        """``1 / scale`` on the diagonal of [count, count], or in a row [1, count]."""

        def make() -> Tensor:
            tile = new((1 if is_row else P, P), dtype)
            if is_row:
                nisa.memset(dst=tile, value=1 / self.scale)
                return tile
            constant, diagonal = new((P, P)), new((P, P))
            nisa.memset(dst=constant, value=1 / self.scale)
            nisa.affine_select(
                dst=diagonal,
                pattern=[[-1, P]],
                offset=0,
                channel_multiplier=1,
                on_true_tile=constant,
                on_false_value=0.0,
                cmp_op=nl.equal,
            )
            return copied(diagonal, dtype, tile)

        tile = self.emission.constants.get_or_make(("unit", dtype, self.scale, is_row), make)
        return tile[:, :count] if is_row else tile[:count, :count]

    def _masks_of(
        self, offsets: tuple[tuple[int, int], ...], columns: int, side: int = 1
    ) -> Tensor:
        """The masks of stretches of queries, one below the other; `offsets` has (offset, rows)."""
        if len(offsets) == 1:
            return self._mask(*offsets[0], columns, side)
        key = offsets, columns, side
        if key not in self._joined_masks:
            mask, row = new((sum(count for _, count in offsets), columns), nl.bfloat16), 0
            for offset, count in offsets:
                # Tiles of engines begin at every 32nd partition only, those of transfers at any.
                part = self._mask(offset, count, columns, side)
                nisa.dma_copy(dst=mask[row : row + count], src=part)
                row += count
            self._joined_masks[key] = mask
        return self._joined_masks[key]

    def _mask(self, offset: int, count: int, columns: int, side: int = 1) -> Tensor:
        """A mask [count, columns]: 0 if row i sees column j, else `_MASKED_SCORE`.

        Row i sees column j if ``j <= i + offset``; with `side` -1 if ``j >= i + offset``.
        """
        key = (offset, count, columns, side)
        if key not in self._masks:
            zeros, mask = (new((count, columns), nl.bfloat16) for _ in "zm")
            nisa.memset(dst=zeros, value=0.0)
            nisa.affine_select(
                dst=mask,
                pattern=[[-side, columns]],
                offset=side * offset,
                channel_multiplier=side,
                on_true_tile=zeros,
                on_false_value=_MASKED_SCORE,
                cmp_op=nl.greater_equal,
            )
            self._masks[key] = mask
        return self._masks[key]

    def _attend_together(self, heads: list[tuple[int, ...]], out: TensorPlace) -> None:
        """Emit several heads of few queries and keys at once, their scores beside each other."""
        number, L, S = len(heads), self.L, self.S
        keys_by_head = [self.keys_of([index])[0] for index in heads]
        scores = new((L, number, S), nl.float32, nl.psum)
        for at, (index, keys) in enumerate(zip(heads, keys_by_head, strict=True)):
            queries = self.queries_at(index, 0, L, is_alone=True)
            for query, key in zip(queries, keys.keys, strict=True):
                nisa.nc_matmul(dst=scores[:, at], stationary=query, moving=key)
            self.add_bias(scores[:, at], (index, 0, L), 0)
        scores = self._mask_causal(scores)
        largest, shift, totals = new((L, number)), new((L, number)), new((L, number))
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=2)
        balance.record(Engine.vector, scores)
        nisa.tensor_scalar(dst=shift, data=largest, op0=nl.multiply, operand0=-self.scale)
        powers = new((L, number, S), self.dtype)
        for at in range(number):
            columns = slice(at, at + 1)
            self.exponentials(powers[:, at], scores[:, at], shift[:, columns], totals[:, columns])
        self.store_logs(shift, totals, [(heads[0], 0, L)])
        blocks = -(-S // P)
        flipped = new((min(P, S), number * blocks, L), self.dtype, nl.psum)
        sums = new((L, number, self.V), nl.float32, nl.psum)
        for at in range(number):
            for block, (key, count) in enumerate(tiles.pieces(S, P)):
                dst = flipped[:count, at * blocks + block]
                nisa.nc_transpose(dst=dst, data=powers[:, at, key : key + count])
        weights = copy_from_psum(flipped, S, blocks)
        for at, keys in enumerate(keys_by_head):
            for block, (_, count) in enumerate(tiles.pieces(S, P)):
                stationary = weights[:count, at * blocks + block]
                nisa.nc_matmul(dst=sums[:, at], stationary=stationary, moving=keys.values[block])
        inverse, result = new((L, number)), new((L, number, self.V), self.dtype)
        nisa.reciprocal(dst=inverse, data=totals)
        column = inverse.reshape((L, number, 1)).broadcast(2, self.V)
        nisa.tensor_tensor(dst=result, data1=sums, data2=column, op=nl.multiply)
        balance.record(Engine.vector, result)
        self.transpose_and_store(result.reshape((L, number * self.V)), heads, 0, out)

    def _mask_causal(self, scores: Tensor) -> Tensor:
        """Scores [rows, heads, keys] with the lowest score added to masked keys."""
        if not self.is_causal:
            return scores
        L, number, S = scores.shape
        mask = self._mask(0, L, S).reshape((L, 1, S)).broadcast(1, number)
        masked = new(scores.shape)
        nisa.tensor_tensor(dst=masked, data1=scores, data2=mask, op=nl.add)
        return masked

    def exponentials(self, dst: Tensor, scores: Tensor, shift: Tensor, total: Tensor) -> None:
        """``dst = exp(scale * scores + shift)``, and ``total`` = the sum of each row of dst."""
        nisa.activation_reduce(
            dst=dst,
            op=nl.exp,
            data=scores,
            reduce_op=nl.add,
            reduce_res=total,
            bias=shift,
            scale=self.scale,
        )
        balance.record(Engine.scalar, scores)

    # Storing

    def store_logs(
        self, shift: Tensor, total: Tensor, stretches: list[tuple[tuple[int, ...], int, int]]
    ) -> None:
        """Store the log-sum-exps of queries, ``log(total) - shift``, if a node reads them.

        `shift` and `total` have a row for each query, and a column for each head.
        """
        if self.logs is None:
            return
        log_totals, logs = new(total.shape), new(total.shape)
        nisa.activation(dst=log_totals, op=nl.log, data=total)
        nisa.tensor_tensor(dst=logs, data1=log_totals, data2=shift, op=nl.subtract)
        row, heads = 0, total.shape[1]
        for index, start, count in stretches:
            steps = zip(self.logs.steps, index, strict=False)
            column = sum(step[1] * at for step, at in steps)
            dst = self.logs.storage.tile[:count, start // P, column : column + heads]
            copy = nisa.dma_copy if row else nisa.tensor_copy
            copy(dst=dst, src=logs[row : row + count])
            row += count

    def transpose_and_store(
        self, result: Tensor, heads: list[tuple[int, ...]], start: int, out: TensorPlace
    ) -> None:
        """Store results [queries, heads * V] in `out`, from query `start` on.

        They are stored as they are if `out` lies by rows in HBM. Else they are transposed, several
        heads of one block at once.
        """
        queries, column = result.shape[0], 0
        matrices = [
            head_of(out, index).sliced((queries, self.V), (start, 0), (1, 1)) for index in heads
        ]
        if lies_in_rows(matrices[0], self.V):
            store_rows(matrices, result.reshape((queries, len(heads), self.V)))
            return
        while heads:
            matrix = head_of(out, heads[0]).sliced((queries, self.V), (start, 0), (1, 1))
            head_count = 1
            while head_count < len(heads) and is_next_head(
                out, heads[0], heads[head_count], head_count * self.V
            ):
                head_count += 1
            width = head_count * self.V
            for at, count in tiles.pieces(width, P):
                flipped = new((count, queries), self.dtype, nl.psum)
                nisa.nc_transpose(dst=flipped, data=result[:, column + at : column + at + count])
                store_head(matrix.sliced((queries, count), (0, at), (1, 1)), flipped, self.dtype)
            heads, column = heads[head_count:], column + width
