"""The recurrence of a mixer's states, in chunks of tokens or one step.

In a chunk, ``y_i = exp(c_i) S^T q_i + sum_{j <= i} exp(c_i - c_j) (q_i k_j) v_j`` for c the running
sums of logarithms of decays, and S the state before the chunk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.graph import Value
from trnsim.graph.types import TensorType
from trnsim.workload.mixer import Mixer
from trnsim.workload.rank_graph import RankGraph

FLOAT_DTYPE: Final = "float32"


@dataclass(frozen=True)
class HeadRows:
    """Float32 inputs of a recurrence.

    Attributes:
        value: [B, H, T, P].
        key: [B, G, T, N].
        query: [B, G, T, N].
        decay: logarithms of the factors of states, [B, H, T].
        strength: factors of what tokens add to states, [B, H, T].
    """

    value: Value
    key: Value
    query: Value
    decay: Value
    strength: Value


@dataclass(frozen=True)
class ChunkRows:
    """`HeadRows` in C chunks of L tokens, and what follows of their decays.

    Attributes:
        value: [B, H, C, L, P].
        key: [B, G, C, L, N].
        query: [B, G, C, L, N].
        strength: [B, H, C, L].
        sums: sums of the logarithms of decays from the chunk's first token on, [B, H, C, L].
        pairs: decays between the tokens of a row and of a column, [B, H, C, L, L].
        scores: products of queries and keys, times `pairs`.
    """

    value: Value
    key: Value
    query: Value
    strength: Value
    sums: Value
    pairs: Value
    scores: Value


class Recurrence:
    """The recurrence ``S = a S + k v^T`` of B sequences and H heads.

    Attributes:
        state: the state before the tokens, [B, H, N, P]; None for zeros.
    """

    def __init__(
        self,
        rank_graph: RankGraph,
        mixer: Mixer,
        rows: HeadRows,
        state: Value | None,
    ) -> None:
        self.rank_graph, self.graph, self.mixer = rank_graph, rank_graph.graph, mixer
        self.rows, self.state = rows, state
        self.batch, self.heads, self.tokens, self.head_dim = rows.value.shape
        self.chunk = min(mixer.chunk, self.tokens)
        self.count = math.ceil(self.tokens / self.chunk)

    def step(self) -> tuple[Value, Value]:
        """Results [B, H, 1, P] and states after one token."""
        rank_graph, graph, rows = self.rank_graph, self.graph, self.rows
        rank_graph.operator("recurrence")
        key, query = self._spread(rows.key), self._spread(rows.query)
        shape = self._state_shape
        state = self._zeros(self._state_shape) if self.state is None else self.state
        factor = self._exp(graph.reshape(rows.decay, shape[:2]))
        state = self._times(state, graph.broadcast_in_dim(factor, shape, (0, 1)))
        value = self._weighted(self._new_value(key, state), rows.strength)
        added = self._times(
            graph.broadcast_in_dim(graph.reshape(key, shape[:3]), shape, (0, 1, 2)),
            graph.broadcast_in_dim(
                graph.reshape(value, (*shape[:2], self.head_dim)), shape, (0, 1, 3)
            ),
        )
        state = graph.elementwise("add", state, added)
        return self._product("read states", query, state, is_cast=False), state

    def chunks(self) -> tuple[Value, Value]:
        """Results [B, H, T, P] and states after the last token."""
        rank_graph, rows = self.rank_graph, self.rows
        rank_graph.operator("chunks")
        value, key, query = map(self._chunked, (rows.value, rows.key, rows.query))
        decay, strength = map(self._chunked, (rows.decay, rows.strength))
        sums = self._running_sums(decay)
        rank_graph.operator("recurrence")
        pairs = self._pair_decays(sums)
        scores = self._scores("chunk scores", query, key)
        rank_graph.operator("recurrence")
        scores = self._times(self._spread(scores), pairs)
        results, state = self._results(ChunkRows(value, key, query, strength, sums, pairs, scores))
        rank_graph.operator("rows of chunks")
        flat = self.graph.reshape(results, (*results.shape[:2], self.padded, self.head_dim))
        shape = self.batch, self.heads, self.tokens, self.head_dim
        return self.graph.slice(flat, (0, 0, 0, 0), shape), state

    def _new_value(self, key: Value, state: Value) -> Value:
        """A token's value for the decayed state at its key [B, H, 1, N], before its strength."""
        del key, state
        return self.rows.value

    @property
    def _state_shape(self) -> tuple[int, ...]:
        return self.batch, self.heads, self.mixer.state, self.head_dim

    @property
    def padded(self) -> int:
        """Tokens of all chunks."""
        return self.count * self.chunk

    def _results(self, rows: ChunkRows) -> tuple[Value, Value]:
        """Results [B, H, C, L, P] and the last state: each state is the one before and a sum."""
        value = self._weighted(rows.value, rows.strength)
        inner_results = self._product("chunk values", rows.scores, value)
        weighted_values = self._weighted(value, self._decays_to_end(rows.sums))
        chunk_sums = self._product(
            "chunk states", self._spread(rows.key), weighted_values, is_left_turned=True
        )
        totals = self.graph.reshape(self._last(rows.sums), rows.sums.shape[:3])
        states = self._after_chunks(chunk_sums, totals)
        states_before, last_state = (
            self._part(states, 0, self.count),
            self._part(states, self.count, 1),
        )
        state_results = self._product("read states", self._spread(rows.query), states_before)
        self.rank_graph.operator("recurrence")
        state_results = self._weighted(state_results, self._exp(rows.sums))
        return self.graph.elementwise("add", inner_results, state_results), self._without_chunks(
            last_state
        )

    def _after_chunks(self, added: Value, totals: Value) -> Value:
        """States [B, H, C + 1, N, P] before the first and after each of C chunks.

        ``S_r = exp(E_r) S_0 + sum_{z < r} exp(E_r - E_{z + 1}) added_z``, E the sums of `totals`.
        """
        graph, rank_graph = self.graph, self.rank_graph
        ends = self._running_sums(totals)
        rank_graph.operator("recurrence")
        all_ends = graph.pad(ends, (0, 0, 1), (0, 0, 0))
        shape = *ends.shape[:2], self.count + 1, self.count
        differences = graph.elementwise(
            "subtract",
            graph.broadcast_in_dim(all_ends, shape, (0, 1, 2)),
            graph.broadcast_in_dim(ends, shape, (0, 1, 3)),
        )
        factors = self._times(self._exp(differences), self._mask(shape, "GT"))
        *outer, count, state, width = added.shape
        flat = graph.reshape(added, (*outer, count, state * width))
        states = self._product("states", factors, flat, is_cast=False)
        states = graph.reshape(states, (*outer, count + 1, state, width))
        if self.state is None:
            return states
        rank_graph.operator("recurrence")
        first = graph.broadcast_in_dim(self.state, states.shape, (0, 1, 3, 4))
        first = self._times(
            first, graph.broadcast_in_dim(self._exp(all_ends), states.shape, (0, 1, 2))
        )
        return graph.elementwise("add", states, first)

    def _decays_to_end(self, sums: Value) -> Value:
        """Decays from each token to the last one of its chunk."""
        return self._exp(self._differences(self._last(sums), sums))

    def _without_chunks(self, states: Value) -> Value:
        """States [B, H, 1, N, P] as [B, H, N, P]."""
        return self.graph.reshape(states, (*states.shape[:2], *states.shape[3:]))

    def _part(self, x: Value, first: int, count: int) -> Value:
        """Some chunks of [B, H, C, *]."""
        starts = [0, 0, first, *(0 for _ in x.shape[3:])]
        return self.graph.slice(x, starts, (*x.shape[:2], count, *x.shape[3:]))

    def _chunked(self, x: Value) -> Value:
        """[B, H, T, *] as [B, H, C, L, *], with zeros behind the last token."""
        padding = self.padded - self.tokens
        zeros = [0] * len(x.shape)
        x = self.graph.pad(x, zeros, [0, 0, padding, *zeros[3:]])
        return self.graph.reshape(x, (*x.shape[:2], self.count, self.chunk, *x.shape[3:]))

    def _running_sums(self, x: Value) -> Value:
        """Running sums along the last dimension, by a product with a triangle of ones."""
        self.rank_graph.operator("running sums")
        rows, last = math.prod(x.shape[:-1]), x.shape[-1]
        if last == 1:
            return x
        ones = self._mask((last, last), "LE")
        sums = self.graph.dot_general(self.graph.reshape(x, (rows, last)), ones, (1, 0))
        return self.graph.reshape(sums, x.shape)

    def _pair_decays(self, sums: Value) -> Value:
        """``exp(c_i - c_j)`` for j <= i, else 0: [B, H, C, L, L]."""
        shape, graph = (*sums.shape, self.chunk), self.graph
        differences = graph.elementwise(
            "subtract",
            graph.broadcast_in_dim(sums, shape, (0, 1, 2, 3)),
            graph.broadcast_in_dim(sums, shape, (0, 1, 2, 4)),
        )
        return self._times(self._exp(differences), self._mask(shape, "GE"))

    def _mask(self, shape: tuple[int, ...], direction: str) -> Value:
        """1 where the row compares so with the column, else 0."""
        row, column = (self.graph.iota(shape, len(shape) - place) for place in (2, 1))
        return self.graph.elementwise(
            "compare", row, column, dtype=FLOAT_DTYPE, direction=direction
        )

    def _spread(self, x: Value) -> Value:
        """Of each group [B, G, *], for each of its heads [B, H, *]."""
        batch, groups, *rest = x.shape
        if groups == self.heads:
            return x
        shape = batch, groups, self.heads // groups, *rest
        dims = 0, 1, *range(3, len(shape))
        spread = self.graph.broadcast_in_dim(x, shape, dims)
        return self.graph.reshape(spread, (batch, self.heads, *rest))

    def _scores(self, name: str, rows: Value, columns: Value) -> Value:
        """``rows columns^T`` over the last dimension, in float32."""
        self.rank_graph.operator(name)
        bits, last = self.rank_graph.bits, len(rows.shape) - 1
        lhs, rhs = (self.rank_graph.cast(side, bits) for side in (rows, columns))
        return self.graph.dot_general(lhs, rhs, (last, last), FLOAT_DTYPE)

    def _product(
        self,
        name: str,
        lhs: Value,
        rhs: Value,
        *,
        is_left_turned: bool = False,
        is_cast: bool = True,
    ) -> Value:
        """``lhs rhs``, or ``lhs^T rhs``, in float32; operands in the activations' type."""
        self.rank_graph.operator(name)
        if is_cast:
            lhs, rhs = (self.rank_graph.cast(side, self.rank_graph.bits) for side in (lhs, rhs))
        last = len(lhs.shape) - 1
        return self.graph.dot_general(lhs, rhs, (last - is_left_turned, last - 1), FLOAT_DTYPE)

    def _last(self, sums: Value) -> Value:
        """The last element of [B, H, C, L]: [B, H, C, 1]."""
        *outer, length = sums.shape
        return self.graph.slice(sums, (0, 0, 0, length - 1), (*outer, 1))

    def _differences(self, x: Value, y: Value) -> Value:
        """``x - y`` of [B, H, C, 1] and [B, H, C, L]."""
        return self.graph.elementwise(
            "subtract", self.graph.broadcast_in_dim(x, y.shape, (0, 1, 2, 3)), y
        )

    def _zeros(self, shape: tuple[int, ...]) -> Value:
        return self.graph.constant(0.0, TensorType(shape, FLOAT_DTYPE))

    def _exp(self, x: Value) -> Value:
        """``exp(min(x, 0))``: decays are at most 1."""
        return self.graph.elementwise("exponential", self.graph.elementwise("minimum", x, 0.0))

    def _times(self, x: Value, y: Value) -> Value:
        return self.graph.elementwise("multiply", x, y)

    def _weighted(self, rows: Value, weights: Value) -> Value:
        """Rows [*, L, W] times weights [*, L]."""
        dims = range(len(weights.shape))
        return self._times(rows, self.graph.broadcast_in_dim(weights, rows.shape, dims))
