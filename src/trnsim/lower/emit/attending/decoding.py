"""Attention of few queries with keys of their own, as in decoding.

Up to 128 queries share the partitions though each reads its own keys: the stationary operand of a
product has zeros in the columns of all other queries, and the products with the keys of all queries
add up in one tile of PSUM. The result is transposed: a column for each query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trnsim.lower.emit.attending.operands import KeyStretch, Operands, Stretch
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.attending.attention import AttentionEmitter

_FEW_QUERIES: Final = 32
"""Most queries of a group of heads with which groups share the partitions."""
_SCORE_BANKS: Final = 4
"""Banks of PSUM for scores; a last short stretch takes one more."""
_PASS_BYTES: Final = 64 * 1024
"""Bytes of a partition for the keys and values of all heads in one pass."""
_PASSES_IN_SBUF: Final = 2
"""Passes whose keys are in SBUF: one is read while the next is loaded."""

Head = tuple[int, ...]


@dataclass
class _Member:
    """A group of heads that share keys, and its queries among those of the pack.

    Attributes:
        start: the number of its first query in the pack.
        rows: number of its queries.
        queries: [E, queries of the pack], zero in the columns of other groups.
    """

    heads: list[Head]
    start: int
    rows: int
    queries: Tensor


def pack_groups(
    groups: list[list[Head]], L: int, most_groups: int = P
) -> list[list[list[Head]]] | None:
    """Groups of heads in packs of up to 128 queries, with at most `most_groups` each.

    None for a single group, or if a group has many queries.
    """
    if len(groups) == 1 or any(len(heads) * L > _FEW_QUERIES for heads in groups):
        return None
    most_groups = -(-len(groups) // -(-len(groups) // most_groups))  # packs of nearly equal size
    packs: list[list[list[Head]]] = [[]]
    rows = 0
    for heads in groups:
        if rows + len(heads) * L > P or len(packs[-1]) == most_groups:
            packs.append([])
            rows = 0
        packs[-1].append(heads)
        rows += len(heads) * L
    return packs


def groups_of_long_runs(operands: Operands) -> int:
    """The most groups whose keys and values fit in SBUF in passes of the greatest length.

    With more groups, a pass would have fewer keys of each group: shorter runs in HBM, which take a
    DMA engine longer for each byte.
    """
    keys = min(operands.S, _SCORE_BANKS * BANK)
    return max(_PASS_BYTES // (_key_bytes(operands) * keys), 1)


def _key_bytes(operands: Operands) -> int:
    """Bytes of a partition for each key of a head, and its value."""
    return int(operands.dtype.itemsize) * (1 + -(-operands.V // P))


class DecodingAttention:
    """The attention of one pack: groups of heads whose queries share the partitions.

    Attributes:
        n: number of queries in the pack.
        members: the groups.
        largest: the maximum of each query's scores so far, [n, 1]; None before the first pass.
        total: the sum of each query's weights so far, [n, 1].
        result: the sums of weighted values so far, [V, n].
        is_single_pass: whether one pass reads all keys.
    """

    def __init__(self, emitter: AttentionEmitter, groups: list[list[Head]]) -> None:
        self.emitter = emitter
        self.n = sum(len(heads) * emitter.L for heads in groups)
        self.members = list(self._members(groups))
        self.largest: Any = None
        self.total: Any = None
        self.result: Any = None
        self.is_single_pass = True

    def _members(self, groups: list[list[Head]]) -> Iterator[_Member]:
        """The groups, with their queries loaded."""
        emitter, start = self.emitter, 0
        queries = new((emitter.E, len(groups), self.n), emitter.dtype)
        nisa.memset(dst=queries, value=0.0)
        for number, heads in enumerate(groups):
            rows = len(heads) * emitter.L
            for head_number, head in enumerate(heads):
                at = start + head_number * emitter.L
                nisa.tensor_copy(
                    dst=queries[:, number, at : at + emitter.L], src=emitter.queries_of(head)
                )
            yield _Member(heads, start, rows, queries[:, number])
            start += rows

    def run(self, out: TensorPlace) -> None:
        """Compute the pack, and store each head."""
        passes = self._passes()
        self.is_single_pass = len(passes) == 1
        for stretches in passes:
            self._pass(stretches, self.emitter.passes % _PASSES_IN_SBUF)
            self.emitter.passes += 1
        inverse = new((self.n, 1))
        nisa.reciprocal(dst=inverse, data=self.total)
        scaled_result = new((self.emitter.V, self.n), self.emitter.dtype)
        nisa.tensor_tensor(
            dst=scaled_result, data1=self.result, data2=self._on_partitions(inverse), op=nl.multiply
        )
        for member in self.members:
            for head_number, head in enumerate(member.heads):
                at = member.start + head_number * self.emitter.L
                self.emitter.store_head(out, head, scaled_result[:, at : at + self.emitter.L])

    def _passes(self) -> list[list[Stretch]]:
        """By pass, the stretches of keys whose scores are in PSUM at once.

        A last stretch of up to a bank joins the pass before.
        """
        emitter = self.emitter
        key_bytes = _key_bytes(emitter) * len(self.members)
        banks = min(max(_PASS_BYTES // (key_bytes * BANK), 1), _SCORE_BANKS)
        passes = [[stretch] for stretch in emitter.stretches(banks * BANK)]
        if len(passes) > 1 and passes[-1][0].count <= BANK:
            last = passes.pop()
            passes[-1] += last
        return passes

    def _pass(self, stretches: list[Stretch], slot: int) -> None:
        """Add the weighted values of a pass; its keys and values are loaded into `slot`."""
        scale, n = self.emitter.scale, self.n
        keys_of_stretches = [
            self._load_stretch(stretch, (slot, at)) for at, stretch in enumerate(stretches)
        ]
        chunks = [
            (keys, start, count)
            for keys in keys_of_stretches
            for start, count in tiles.pieces(keys[0].length, BANK)
        ]
        scores = [self._scores(*chunk) for chunk in chunks]
        maxima = new((n, len(chunks) + 1))
        nisa.memset(dst=maxima, value=-3.0e38)
        for number, part in enumerate(scores):
            nisa.tensor_reduce(dst=maxima[:, number : number + 1], op=nl.maximum, data=part, axis=1)
        if self.largest is not None:
            nisa.tensor_copy(dst=maxima[:, len(chunks) :], src=self.largest)
        largest, shift = new((n, 1)), new((n, 1))
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=maxima, axis=1)
        nisa.tensor_scalar(dst=shift, data=largest, op0=nl.multiply, operand0=-scale)
        totals = new((n, len(chunks)))
        sums = new((self.emitter.V, n), nl.float32, nl.psum)
        for number, ((keys, start, _), part) in enumerate(zip(chunks, scores, strict=True)):
            powers = new(part.shape, self.emitter.dtype)
            self.emitter.exponentials(powers, part, shift, totals[:, number : number + 1])
            self._weigh(powers, keys, start, sums)
        total = new((n, 1))
        nisa.tensor_reduce(dst=total, op=nl.add, data=totals, axis=1)
        self._accumulate(largest, total, sums)

    def _load_stretch(self, stretch: Stretch, slot: tuple[int, int]) -> list[KeyStretch]:
        """A stretch of each member's keys and values; all keys are loaded before the values.

        `slot` is the slot of the pass, and the number of the stretch within it.
        """
        emitter, members = self.emitter, list(enumerate(self.members))
        keys = [
            emitter.keys_at(member.heads, stretch, ((slot, number), "keys"))
            for number, member in members
        ]
        values = [
            emitter.values_at(member.heads, stretch, ((slot, number), "values"))
            for number, member in members
        ]
        pairs = zip(keys, values, strict=True)
        return [KeyStretch(stretch.first, stretch.count, *pair) for pair in pairs]

    def _scores(self, keys: list[KeyStretch], start: int, columns: int) -> Tensor:
        """The products of each query with the keys of its group, [queries, keys]."""
        sums = new((self.n, columns), nl.float32, nl.psum)
        for member, member_keys in zip(self.members, keys, strict=True):
            (tile,) = member_keys.keys
            moving = tile[:, start : start + columns]
            nisa.nc_matmul(dst=sums, stationary=member.queries, moving=moving)
        return sums

    def _weigh(self, powers: Tensor, keys: list[KeyStretch], start: int, sums: Tensor) -> None:
        """Add weighted values, a column for each query."""
        for at, count in tiles.pieces(powers.shape[1], P):
            transposed = new((count, self.n), powers.dtype, nl.psum)
            nisa.nc_transpose(dst=transposed, data=powers[:, at : at + count])
            weights = copied(transposed, powers.dtype)
            for member, member_keys in zip(self.members, keys, strict=True):
                values = member_keys.values[(start + at) // P]
                rows = slice(member.start, member.start + member.rows)
                nisa.nc_matmul(dst=sums[:, rows], stationary=values, moving=weights[:, rows])

    def _accumulate(self, largest: Tensor, total: Tensor, sums: Tensor) -> None:
        """Add the sums of earlier passes, rescaled to the new maximum."""
        if self.largest is not None:
            difference, factor, rescaled = (new((self.n, 1)) for _ in range(3))
            nisa.tensor_tensor(dst=difference, data1=self.largest, data2=largest, op=nl.subtract)
            nisa.activation(dst=factor, op=nl.exp, data=difference, scale=self.emitter.scale)
            nisa.scalar_tensor_tensor(
                dst=rescaled,
                data=self.total,
                op0=nl.multiply,
                operand0=factor,
                op1=nl.add,
                operand1=total,
            )
            rescaled_result, new_result = new(sums.shape), new(sums.shape)
            result = self.result
            if result.buffer is nl.psum:
                result = copied(result, nl.float32)
            nisa.tensor_tensor(
                dst=rescaled_result, data1=result, data2=self._on_partitions(factor), op=nl.multiply
            )
            nisa.tensor_tensor(dst=new_result, data1=rescaled_result, data2=sums, op=nl.add)
            total, sums = rescaled, new_result
        elif not self.is_single_pass:
            sums = copied(sums, nl.float32)
        self.largest, self.total, self.result = largest, total, sums

    def _on_partitions(self, column: Tensor) -> Tensor:
        """A column [queries, 1] as a row on every partition, [V, queries]."""
        diagonal = new((self.n, self.n))
        identity_tile = self.emitter.emission.constants.get_or_make(("identity",), identity)
        nisa.tensor_scalar(
            dst=diagonal, data=identity_tile[: self.n, : self.n], op0=nl.multiply, operand0=column
        )
        ones = self.emitter.emission.constants.ones(nl.float32)
        sums = new((self.emitter.V, self.n), nl.float32, nl.psum)
        nisa.nc_matmul(dst=sums, stationary=ones[: self.n, : self.emitter.V], moving=diagonal)
        return copied(sums, nl.float32)


def identity(dtype: Any = nl.float32) -> Tensor:
    """Ones on the diagonal, [128, 128]."""
    ones, diagonal = new((P, P), dtype), new((P, P), dtype)
    nisa.memset(dst=ones, value=1.0)
    nisa.affine_select(
        dst=diagonal,
        pattern=[[-1, P]],
        offset=0,
        channel_multiplier=1,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return diagonal
