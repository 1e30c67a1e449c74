"""Visibility of keys in attention: windows, diagonals, and packed sequences.

Queries of packed sequences are ``[length, heads, width]``, sequence after sequence; tensors of a
batch are ``[batch, length, heads, width]``. If the numbers of queries and keys differ, the last
query is aligned with the last key.

Source: PyTorch, torch/nn/attention/varlen.py, `varlen_attn` (`window_size`, `cu_seq_q`); the
alignment, and the result of a query without a key: flash-attention README, 2.1.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch

from trnsim.device.numerics import mode
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor


class Window(NamedTuple):
    """The keys that a query sees besides the key at its own position.

    Attributes:
        left: number of keys before its own position; None for all.
        right: number of keys after its own position; None for all.
        is_from_start: true if the first query and key are aligned, instead of the last.
    """

    left: int | None = None
    right: int | None = None
    is_from_start: bool = False

    @staticmethod
    def of(left: int | None, right: int | None, *, is_causal: bool) -> Window:
        """The window of a call, in which -1 stands for all."""
        reaches = [None if reach is None or reach < 0 else reach for reach in (left, right)]
        return Window(reaches[0], 0 if is_causal else reaches[1])

    def _shift(self, queries: int, keys: int) -> int:
        return 0 if self.is_from_start else keys - queries

    def hidden_queries(self, queries: int, keys: int) -> int:
        """The number of leading queries that see no key."""
        if not keys:
            return queries
        if self.right is None:
            return 0
        return min(max(-self._shift(queries, keys) - self.right, 0), queries)

    def is_causal(self, queries: int, keys: int) -> bool:
        """True if it hides exactly the keys later than the query's own position."""
        is_all_left = self.left is None or self.left >= keys - 1
        return self.right == 0 and is_all_left and self._shift(queries, keys) == 0

    def bias(self, queries: int, keys: int, hidden_queries: int) -> Tensor | None:
        """Bias ``[queries - hidden_queries, keys]``: 0 or -infinity; None if nothing is hidden."""
        if self.right is None and (self.left is None or self.left >= keys - 1):
            return None
        positions = torch.arange(hidden_queries, queries, device="cpu")[:, None]
        positions += self._shift(queries, keys)
        key_positions = torch.arange(keys, device="cpu")[None]
        is_hidden = torch.zeros(queries - hidden_queries, keys, dtype=torch.bool, device="cpu")
        if self.left is not None:
            is_hidden |= key_positions < positions - self.left
        if self.right is not None:
            is_hidden |= key_positions > positions + self.right
        return torch.zeros(is_hidden.shape, device="cpu").masked_fill_(is_hidden, -math.inf)


class PackedPiece(NamedTuple):
    """A packed sequence: its slice of all queries, and of all keys."""

    queries: slice
    keys: slice


def pieces(
    starts_q: Tensor, starts_k: Tensor, totals: tuple[int, int], key_counts: Tensor | None
) -> list[PackedPiece]:
    """The sequences of a call, from the positions where each begins and the last ends.

    Args:
        starts_q: positions of queries, `[sequences + 1]`, on the host.
        starts_k: positions of keys, `[sequences + 1]`, on the host.
        totals: the numbers of queries and of keys.
        key_counts: the number of keys of each sequence that count, or None for all.

    Raises:
        BadInput: for positions that decrease, or lie beyond the end.
    """
    queries = list(pairwise(_sequence_bounds("queries", starts_q, totals[0])))
    keys = list(pairwise(_sequence_bounds("keys", starts_k, totals[1])))
    if len(queries) != len(keys):
        raise BadInput(
            f"{len(queries)} sequences of queries and {len(keys)} of keys",
            fix="give cu_seq_q and cu_seq_k one length",
        )
    if key_counts is not None and mode.kind != "shapes":
        keys = _used_keys(keys, key_counts.tolist())
    return [
        PackedPiece(slice(*query_bounds), slice(*key_bounds))
        for query_bounds, key_bounds in zip(queries, keys, strict=True)
    ]


def _used_keys(keys: list[tuple[int, int]], key_counts: list[int]) -> list[tuple[int, int]]:
    """The first and the last position of each sequence's keys that count.

    Raises:
        BadInput: for other numbers than one for each sequence, up to the number of its keys.
    """
    lengths = [end - start for start, end in keys]
    if len(key_counts) != len(keys) or not all(
        0 <= n <= m for n, m in zip(key_counts, lengths, strict=True)
    ):
        raise BadInput(
            f"seqused_k {key_counts} for sequences of {lengths} keys; legal: a number for each, "
            "from 0 to that of its keys",
            fix="leave seqused_k out, or count keys of the sequence alone",
        )
    return [(start, start + count) for (start, _), count in zip(keys, key_counts, strict=True)]


def _sequence_bounds(name: str, starts: Tensor, total: int) -> list[int]:
    """Positions at which each sequence begins, and the last ends.

    In the mode `shapes`, which has no values, the sequences have equal lengths.
    """
    count = starts.numel() - 1
    if mode.kind == "shapes" and count > 0:
        return [total * index // count for index in range(count + 1)]
    bounds: list[int] = [] if count < 1 else starts.tolist()
    if not bounds or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > total:
        raise BadInput(
            f"sequences of {name} begin at {bounds}; legal: growing places from 0 to {total}",
            fix="torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()",
        )
    return bounds


def uniform_lengths(pieces: list[PackedPiece]) -> tuple[int, int, int] | None:
    """Number of sequences, and of queries and keys of each; None unless equal and contiguous."""
    lengths = {
        (piece.queries.stop - piece.queries.start, piece.keys.stop - piece.keys.start)
        for piece in pieces
    }
    if len(lengths) != 1:
        return None
    ((queries, keys),) = lengths
    is_dense = all(
        (piece.queries.start, piece.keys.start) == (index * queries, index * keys)
        for index, piece in enumerate(pieces)
    )
    return (len(pieces), queries, keys) if is_dense and queries and keys else None
