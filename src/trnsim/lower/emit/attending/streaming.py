"""Attention of many queries: scores of the next stretch overlap the sums of this one.

A step has 128 queries and a stretch of keys. Its scores lie in PSUM, a bank at a time, from which
the Vector Engine takes the maximum and the Scalar Engine the exponentials. Their sums come from the
product with the values, which have a column of ones. Steps overlap bank by bank: scores of a step
are issued in turn with the weights of the step before, so that all engines have work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from trnsim.isa import Engine
from trnsim.lower.emit.attending.heads import copy_from_psum, head_of, store_head
from trnsim.lower.emit.attending.neighbours import lies_in_rows
from trnsim.lower.emit.attending.operands import KeyStretch, QueryRows
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.kernels import balance, tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.attending.attention import AttentionEmitter


@dataclass
class _Step:
    """Up to 128 queries and a stretch of keys.

    Attributes:
        rows: the queries, and their running softmax.
        keys: the stretch of keys.
        first: a key of the stretch before which all are masked, at a multiple of 128.
        end: the key of the stretch after the last that is not masked.
        is_last: whether it is the last stretch for these queries.
        scores: the scores of each bank of keys, [queries, keys] in PSUM.
        earlier_shift: ``-scale * maximum`` of each query's scores in all earlier stretches, [rows,
            1]; None in the first.
        shift: the same with this stretch included.
        result: the sums of weighted values and of the weights, [rows, V + 1].
    """

    rows: QueryRows
    keys: KeyStretch
    first: int
    end: int
    is_last: bool
    scores: list[Tensor]
    earlier_shift: Any = None
    shift: Any = None
    result: Any = None


class StreamedAttention:
    """Attention step by step, two steps overlapped."""

    def __init__(self, emitter: AttentionEmitter) -> None:
        self.emitter = emitter

    def run(self, groups: list[list[tuple[int, ...]]], out: TensorPlace) -> None:
        """Emit every group of heads that share keys, 128 queries at a time."""
        before: _Step | None = None
        with balance.balanced():
            for step in self._steps(groups):
                self._overlap(step, before, out)
                before = step
            self._overlap(None, before, out)

    def _steps(self, groups: list[list[tuple[int, ...]]]) -> Iterator[_Step]:
        """The steps of all groups of heads, without stretches that are masked for all queries."""
        emitter = self.emitter
        for heads in groups:
            for rows in emitter.tiles_of(heads):
                first, end = self._visible_keys(rows)
                visible = [
                    keys
                    for keys in emitter.keys_of(heads)
                    if keys.start < end and keys.start + keys.length > first
                ]
                for keys in visible:
                    begin = max(first - keys.start, 0) // P * P
                    last = min(keys.length, end - keys.start)
                    yield _Step(rows, keys, begin, last, keys is visible[-1], [])

    def _visible_keys(self, rows: QueryRows) -> tuple[int, int]:
        """The first key that is not masked for all of some queries, and that after the last."""
        emitter, first, end = self.emitter, 0, self.emitter.S
        if emitter.is_causal:
            end = min(max(at + n for _, at, n in rows.stretches), emitter.S)
        if emitter.window:
            first = max(min(at for _, at, _ in rows.stretches) + 1 - emitter.window, 0)
        return first, end

    def _overlap(self, step: _Step | None, before: _Step | None, out: TensorPlace) -> None:
        """Score a step and sum the values of the step before, bank by bank."""
        scores, banks = self._score_banks(step), self._weigh_banks(before)
        for _ in zip_longest(scores, banks):
            pass
        if before is not None and before.is_last:
            self._store(before.rows, out)

    def _score_banks(self, step: _Step | None) -> Iterator[None]:
        """Compute the scores of a step and their maxima, a bank at each iteration."""
        if step is None:
            return
        emitter, rows, keys = self.emitter, step.rows, step.keys
        pieces = [(step.first + at, n) for at, n in tiles.pieces(step.end - step.first, BANK)]
        maxima = new((rows.rows, len(pieces)))
        for number, (start, count) in enumerate(pieces):
            part = new((rows.rows, count), nl.float32, nl.psum)
            for query, key in zip(rows.queries, keys.keys, strict=True):
                moving = key[:, start : start + count]
                nisa.nc_matmul(dst=part, stationary=query, moving=moving)
            emitter.add_bias(part, rows.stretches[0], keys.start + start)
            emitter.mask_out(part, rows, keys.start + start)
            largest = maxima[:, number : number + 1]
            nisa.tensor_reduce(dst=largest, op=nl.maximum, data=part, axis=1)
            balance.record(Engine.vector, part)
            step.scores.append(part)
            yield
        self._shift(step, maxima)

    def _shift(self, step: _Step, maxima: Tensor) -> None:
        """Compute ``-scale * maximum`` of each row, over all stretches up to this one."""
        rows, scale = step.rows, -self.emitter.scale
        step.earlier_shift, step.shift = rows.shift, new((rows.rows, 1))
        if balance.gpsimd_has_own_port():
            self._shift_on_gpsimd(step, maxima)
        else:
            largest = maxima
            if maxima.shape[1] > 1:
                largest = new((rows.rows, 1))
                nisa.tensor_reduce(dst=largest, op=nl.maximum, data=maxima, axis=1)
            minimum = {} if rows.shift is None else {"op1": nl.minimum, "operand1": rows.shift}
            nisa.tensor_scalar(
                dst=step.shift, data=largest, op0=nl.multiply, operand0=scale, **minimum
            )
        rows.shift = step.shift

    def _shift_on_gpsimd(self, step: _Step, maxima: Tensor) -> None:
        """Compute the shift on GpSimd, which is idle meanwhile: the maximum by halving columns."""
        while maxima.shape[1] > 1:
            half = -(-maxima.shape[1] // 2)
            halves = new((maxima.shape[0], half))
            _on_gpsimd(halves, maxima[:, :half], nl.maximum, maxima[:, maxima.shape[1] - half :])
            maxima = halves
        scale = self.emitter.emission.constants.get_or_make(
            ("number", -self.emitter.scale), lambda: _number_column(-self.emitter.scale)
        )
        scale = scale[: maxima.shape[0]]
        if step.earlier_shift is None:
            _on_gpsimd(step.shift, maxima, nl.multiply, scale)
            return
        scaled_maxima = new(maxima.shape)
        _on_gpsimd(scaled_maxima, maxima, nl.multiply, scale)
        _on_gpsimd(step.shift, scaled_maxima, nl.minimum, step.earlier_shift)

    def _weigh_banks(self, step: _Step | None) -> Iterator[None]:
        """Sum the values of a step, weighted, a bank of keys at each iteration."""
        if step is None:
            return
        emitter, rows = self.emitter, step.rows
        step.result = new((rows.rows, emitter.V + 1), nl.float32, nl.psum)
        for number, part in enumerate(step.scores):
            powers = new(part.shape, emitter.dtype)
            nisa.activation(dst=powers, op=nl.exp, data=part, bias=step.shift, scale=emitter.scale)
            balance.record(Engine.scalar, part)
            self._add_weighted_values(step, powers, step.first + number * BANK)
            yield
        self._accumulate(step)

    def _add_weighted_values(self, step: _Step, powers: Tensor, start: int) -> None:
        """Add the values of a bank of keys, weighted."""
        rows, columns = powers.shape
        blocks = -(-columns // P)
        transposed = new((min(P, columns), blocks, rows), powers.dtype, nl.psum)
        for number, (at, count) in enumerate(tiles.pieces(columns, P)):
            nisa.nc_transpose(dst=transposed[:count, number], data=powers[:, at : at + count])
        weights = copy_from_psum(transposed, columns, blocks)
        for number, (at, count) in enumerate(tiles.pieces(columns, P)):
            values = step.keys.values[(start + at) // P][:count]
            for first, width in tiles.pieces(values.shape[1], BANK):
                dst, moving = (tensor[:, first : first + width] for tensor in (step.result, values))
                nisa.nc_matmul(dst=dst, stationary=weights[:count, number], moving=moving)

    def _accumulate(self, step: _Step) -> None:
        """Add a step's sums to those of earlier steps, rescaled to the new maximum."""
        rows, result = step.rows, step.result
        if step.earlier_shift is not None:
            factor, new_result = new((rows.rows, 1)), new(result.shape)
            nisa.activation(
                dst=factor, op=nl.exp, data=step.earlier_shift, scale=-1.0, bias=step.shift
            )
            nisa.scalar_tensor_tensor(
                dst=new_result,
                data=rows.result,
                op0=nl.multiply,
                operand0=factor,
                op1=nl.add,
                operand1=result,
            )
            result = new_result
            balance.record(Engine.vector, new_result)
        elif not step.is_last:
            result = copied(result, nl.float32)
        rows.result = result

    def _store(self, rows: QueryRows, out: TensorPlace) -> None:
        """Divide by the sums of the weights, transpose, and store each head."""
        emitter = self.emitter
        total = rows.result[:, emitter.V :]
        emitter.store_logs(rows.shift, total, rows.stretches)
        inverse = new((rows.rows, 1))
        nisa.reciprocal(dst=inverse, data=total)
        result = new((rows.rows, emitter.V), emitter.dtype)
        data = rows.result[:, : emitter.V]
        if balance.choose_engine(balance.scalar_operand_times_s(data)) is Engine.scalar:
            nisa.activation(dst=result, op=nl.copy, data=data, scale=inverse)
        else:
            nisa.tensor_scalar(dst=result, data=data, op0=nl.multiply, operand0=inverse)
        first_head = head_of(out, rows.stretches[0][0])
        if len(rows.stretches) == 1 or lies_in_rows(first_head, emitter.V):
            self._store_each(rows, result, out)
            return
        for at, width in tiles.pieces(emitter.V, P):
            transposed, column = new((width, rows.rows), emitter.dtype, nl.psum), 0
            nisa.nc_transpose(dst=transposed, data=result[:, at : at + width])
            for index, start, queries in rows.stretches:
                matrix = head_of(out, index).sliced((queries, width), (start, at), (1, 1))
                store_head(matrix, transposed[:, column : column + queries], emitter.dtype)
                column += queries

    def _store_each(self, rows: QueryRows, result: Tensor, out: TensorPlace) -> None:
        """Transpose and store each stretch of queries by itself."""
        column = 0
        for index, start, queries in rows.stretches:
            self.emitter.transpose_and_store(result[column : column + queries], [index], start, out)
            column += queries


def _on_gpsimd(dst: Tensor, first: Tensor, op: Any, second: Tensor) -> None:
    """``dst = first <op> second`` on the GpSimd Engine."""
    nisa.tensor_tensor(dst=dst, data1=first, data2=second, op=op, engine=nisa.gpsimd_engine)


def _number_column(value: float) -> Tensor:
    """A column [128, 1] of one number."""
    tile = new((P, 1))
    nisa.memset(dst=tile, value=value)
    return tile
