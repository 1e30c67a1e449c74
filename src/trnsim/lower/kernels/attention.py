"""Attention in one kernel, in tiles: no matrix of all scores ever lies in HBM.

Forward, each tile of 128 queries walks the keys and keeps its running maximum, the sum of its
exponentials, and its result so far, all rescaled where the maximum grows. Backward, exponentials
are computed again from the logarithm of that sum, keys outside and queries inside. Blocks that a
causal mask hides are left out.

The method is that of Dao et al., FlashAttention (arXiv:2205.14135), algorithms 1 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.graph import Node
from trnsim.graph.ops.contraction import Attending, Attention, AttentionBackward
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.elementwise import binary
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.lower.rules import kernel
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_HIDDEN: Final = -3.0e38
"""The score of a key that a query does not see: finite, so that differences are."""
_RESIDENT_BYTES: Final = 64 * 1024
"""Bytes of a partition for the sums of all queries' gradients: a third of SBUF."""


@dataclass(frozen=True)
class _Sizes:
    """One head's sizes: queries L, keys S, width E of queries and keys, V of values."""

    L: int
    S: int
    E: int
    V: int
    scale: float
    is_causal: bool

    def sees(self, query: int, key: int) -> bool:
        """Whether a query up to `query` sees the key."""
        return not self.is_causal or key <= query


def _sizes(op: Attending, node: Node) -> _Sizes:
    query, key, value = (operand.shape for operand in node.values[:3])
    return _Sizes(
        query[-2],
        key[-2],
        query[-1],
        value[-1],
        float(op.scale),
        op.is_causal,
    )


class _Matrix:
    """One head's matrix [rows, width] in HBM."""

    def __init__(self, tensor: Tensor, head: int, rows: int, width: int) -> None:
        self.tensor, self.head, self.rows, self.width = tensor, head, rows, width

    def view(self, start: int, count: int) -> Tensor:
        """Rows of it in HBM."""
        place = (self.head * self.rows + start) * self.width
        return tiles.strided(self.tensor, [(self.width, count), (1, self.width)], place)

    def load(self, start: int, count: int) -> Tensor:
        """Rows of it as a tile [count, width]."""
        return tiles.load(self.view(start, count))

    def flipped(self, start: int, count: int) -> list[Tensor]:
        """Columns of it as tiles [up to 128 of width, count]."""
        parts = [new((columns, count), self.tensor.dtype) for _, columns in _pieces(self.width)]
        for row, rows in _pieces(count):
            block = self.load(start + row, rows)
            for part, (column, columns) in zip(parts, _pieces(self.width), strict=True):
                flipped = transposed(block[:, column : column + columns])
                nisa.tensor_copy(dst=part[:, row : row + rows], src=flipped)
        return parts


def _pieces(length: int) -> list[tuple[int, int]]:
    return list(tiles.pieces(length, P))


def _product(stationary: list[Tensor], moving: list[Tensor]) -> Tensor:
    """The sum of ``a.T @ b`` in PSUM; in SBUF where it is longer than a bank."""
    shape = stationary[0].shape[1], moving[0].shape[1]
    if shape[1] > BANK:
        result = new(shape)
        for at, count in tiles.pieces(shape[1], BANK):
            part = _product(stationary, [one[:, at : at + count] for one in moving])
            nisa.tensor_copy(dst=result[:, at : at + count], src=part)
        return result
    sums = new(shape, nl.float32, nl.psum)
    for left, right in zip(stationary, moving, strict=True):
        nisa.nc_matmul(dst=sums, stationary=left, moving=right)
    return sums


def _scores(
    queries: list[Tensor], keys: list[Tensor], n: _Sizes, place: tuple[int, int], bias: Any
) -> Tensor:
    """Scaled scores [queries, keys], hidden where the mask says so."""
    sums = _product(queries, keys)
    scores = binary(nl.multiply, sums, n.scale)
    if bias is not None:
        rows, columns = scores.shape
        step = n.S
        offset = (bias.head * n.L + place[0]) * step + place[1]
        view = tiles.strided(bias.tensor, [(step, rows), (1, columns)], offset)
        scores = binary(nl.add, scores, tiles.load(view, nl.float32))
        scores = binary(nl.maximum, scores, _HIDDEN)
    if not n.sees(place[0], place[1] + scores.shape[1] - 1):
        seen = new(scores.shape)
        nisa.affine_select(
            dst=seen,
            pattern=[[-1, scores.shape[1]]],
            offset=place[0] - place[1],
            channel_multiplier=1,
            on_true_tile=scores,
            on_false_value=_HIDDEN,
            cmp_op=nl.greater_equal,
        )
        scores = seen
    return scores


def _column(op: Any, tile: Tensor) -> Tensor:
    result = new((tile.shape[0], 1))
    nisa.tensor_reduce(dst=result, op=op, data=tile, axis=1)
    return result


def _exponential(scores: Tensor, largest: Tensor) -> Tensor:
    """``exp(scores - largest)``, with a number to a row."""
    result = new(scores.shape)
    negated = binary(nl.multiply, largest, -1.0)
    nisa.activation(dst=result, op=nl.exp, data=scores, bias=negated)
    return result


@kernel(Attention)
def attention(op: Attention, node: Node, *given: Tensor) -> tuple[Tensor, Tensor]:
    """``softmax(scale * Q @ K.T + bias) @ V`` and the logarithm of each row's sum.

    Q is [*B, L, E], K [*B, S, E], V [*B, S, V], the bias [*B, L, S]; the results are [*B, L, V] and
    [*B, L].
    """
    n = _sizes(op, node)
    out = tiles.output(node.result.shape, node.result.dtype)
    logs = tiles.output(node.results[1].shape, node.results[1].dtype)
    for head in range(prod(node.result.shape[:-2])):
        query, key, value = (
            _Matrix(tensor, head, rows, width)
            for tensor, rows, width in zip(given, (n.L, n.S, n.S), (n.E, n.E, n.V), strict=False)
        )
        bias = _Matrix(given[3], head, n.L, n.S) if len(given) > 3 else None  # noqa: PLR2004  a fourth
        for start, rows in _pieces(n.L):
            result, log = _attend(query, key, value, bias, n, start, rows)
            tiles.store(_Matrix(out, head, n.L, n.V).view(start, rows), result)
            tiles.store(tiles.strided(logs, [(1, rows), (1, 1)], head * n.L + start), log)
    return out, logs


def _attend(
    query: _Matrix, key: _Matrix, value: _Matrix, bias: Any, n: _Sizes, start: int, rows: int
) -> tuple[Tensor, Tensor]:
    """The result of one tile of queries, and the logarithms of its sums."""
    queries = query.flipped(start, rows)
    largest, total, result = new((rows, 1)), new((rows, 1)), new((rows, n.V))
    nisa.memset(dst=largest, value=_HIDDEN)
    nisa.memset(dst=total, value=0.0)
    nisa.memset(dst=result, value=0.0)
    for first, columns in tiles.pieces(n.S, BANK):
        if not n.sees(start + rows - 1, first):
            break
        scores = _scores(queries, key.flipped(first, columns), n, (start, first), bias)
        higher = binary(nl.maximum, largest, _column(nl.maximum, scores))
        powers, shrunk = _exponential(scores, higher), _exponential(largest, higher)
        total = binary(nl.add, binary(nl.multiply, total, shrunk), _column(nl.add, powers))
        sums = [new((rows, width), nl.float32, nl.psum) for _, width in tiles.pieces(n.V, BANK)]
        for at, count in _pieces(columns):
            weights = transposed(_as(powers[:, at : at + count], value.tensor.dtype))
            values = value.load(first + at, count)
            for dst, (column, width) in zip(sums, tiles.pieces(n.V, BANK), strict=True):
                moving = values[:, column : column + width]
                nisa.nc_matmul(dst=dst, stationary=weights, moving=moving)
        scaled, result = binary(nl.multiply, result, shrunk), new((rows, n.V))
        for part, (column, width) in zip(sums, tiles.pieces(n.V, BANK), strict=True):
            here = slice(column, column + width)
            nisa.tensor_tensor(dst=result[:, here], data1=scaled[:, here], data2=part, op=nl.add)
        largest = higher
    inverse, log = new((rows, 1)), new((rows, 1))
    nisa.reciprocal(dst=inverse, data=total)
    nisa.activation(dst=log, op=nl.log, data=total)
    return binary(nl.multiply, result, inverse), binary(nl.add, log, largest)


def _as(tile: Tensor, dtype: Any) -> Tensor:
    """A tile in the format that the products take."""
    result = new(tile.shape, dtype)
    nisa.tensor_copy(dst=result, src=tile)
    return result


@kernel(AttentionBackward)
def attention_backward(op: AttentionBackward, node: Node, *given: Tensor) -> tuple[Tensor, ...]:
    """Gradients of Q, K and V from that of the result, the result and its logarithms.

    Operands: Q, K, V, the gradient and the result [*B, L, V], the logarithms [*B, L], and a bias.
    """
    n = _sizes(op, node)
    if -(-n.L // P) * n.E * nl.float32.itemsize > _RESIDENT_BYTES:
        raise NotModelled(
            f"the gradient of attention over {n.L} queries of {n.E}; their sums do not fit on the "
            "chip together",
            fix="attend in shorter pieces",
        )
    outs = tuple(tiles.output(value.shape, value.dtype) for value in node.results)
    for head in range(prod(node.result.shape[:-2])):
        _Backward(given, outs, head, n).run()
    return outs


class _Backward:
    """The gradients of one head."""

    def __init__(
        self, given: Sequence[Tensor], outs: tuple[Tensor, ...], head: int, n: _Sizes
    ) -> None:
        sizes = ((n.L, n.E), (n.S, n.E), (n.S, n.V), (n.L, n.V), (n.L, n.V))
        self.query, self.key, self.value, self.grad, self.result = (
            _Matrix(tensor, head, *size) for tensor, size in zip(given, sizes, strict=False)
        )
        self.logs, self.outs, self.head, self.n = given[5], outs, head, n
        self.bias = _Matrix(given[6], head, n.L, n.S) if len(given) > 6 else None  # noqa: PLR2004
        self.to_query: dict[int, Tensor] = {}

    def run(self) -> None:
        """Keys outside, queries inside; the queries' sums stay on the chip."""
        n = self.n
        drops = {start: self._drop(start, rows) for start, rows in _pieces(n.L)}
        for first, columns in _pieces(n.S):
            sums = new((columns, n.E)), new((columns, n.V))
            for tile in sums:
                nisa.memset(dst=tile, value=0.0)
            for start, rows in _pieces(n.L):
                if n.sees(start + rows - 1, first):
                    sums = self._block((start, rows), (first, columns), drops[start], sums)
            for out, width, tile in zip(self.outs[1:], (n.E, n.V), sums, strict=True):
                tiles.store(_Matrix(out, self.head, n.S, width).view(first, columns), tile)
        for start, rows in _pieces(n.L):
            view = _Matrix(self.outs[0], self.head, n.L, n.E).view(start, rows)
            tiles.store(view, self.to_query[start])

    def _drop(self, start: int, rows: int) -> Tensor:
        """Each query's sum of its gradient times its result."""
        both = binary(nl.multiply, self.grad.load(start, rows), self.result.load(start, rows))
        return _column(nl.add, both)

    def _block(
        self,
        queries: tuple[int, int],
        keys: tuple[int, int],
        drop: Tensor,
        sums: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """The sums of the keys' and values' gradients with one tile of queries more."""
        (start, rows), (first, columns), n = queries, keys, self.n
        query, grad = self.query.load(start, rows), self.grad.load(start, rows)
        log = tiles.load(tiles.strided(self.logs, [(1, rows), (1, 1)], self.head * n.L + start))
        flipped = self.query.flipped(start, rows), self.key.flipped(first, columns)
        scores = _scores(*flipped, n, (start, first), self.bias)
        powers = _exponential(scores, log)
        kind = self.query.tensor.dtype
        to_value = _product([_as(powers, kind)], [grad])
        products = _product(self.grad.flipped(start, rows), self.value.flipped(first, columns))
        slope = binary(nl.multiply, powers, binary(nl.subtract, products, drop))
        slope = _as(binary(nl.multiply, slope, n.scale), kind)
        to_key = _product([slope], [query])
        to_query = _product([transposed(slope)], [self.key.load(first, columns)])
        before = self.to_query.get(start)
        self.to_query[start] = (
            binary(nl.multiply, to_query, 1.0)
            if before is None
            else binary(nl.add, before, to_query)
        )
        return binary(nl.add, sums[0], to_key), binary(nl.add, sums[1], to_value)
