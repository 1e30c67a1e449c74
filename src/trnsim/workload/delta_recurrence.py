"""The recurrence of the gated delta rule: what a token writes replaces what its key recalls.

In a chunk the writes of its tokens depend on each other by a triangular system, whose inverse is
built from blocks. Source: gated delta networks (arXiv:2412.06464), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from trnsim.graph import Value
from trnsim.workload.mixer import Mixer
from trnsim.workload.rank_graph import RankGraph
from trnsim.workload.recurrence import FLOAT_DTYPE, ChunkRows, HeadRows, Recurrence


class DeltaRecurrence(Recurrence):
    """The recurrence ``S = a S + b k (v - a S^T k)^T`` of B sequences and H heads.

    Attributes:
        is_in_turn: whether each chunk has the state after the one before. Else all have zeros: the
            products, which plans need alone, are the same.
    """

    def __init__(
        self,
        rank_graph: RankGraph,
        mixer: Mixer,
        rows: HeadRows,
        state: Value | None,
        *,
        is_in_turn: bool = True,
    ) -> None:
        super().__init__(rank_graph, mixer, rows, state)
        self.is_in_turn = is_in_turn

    def _new_value(self, key: Value, state: Value) -> Value:
        recalled_values = self._product("recalled values", key, state, is_cast=False)
        self.rank_graph.operator("recurrence")
        return self.graph.elementwise("subtract", self.rows.value, recalled_values)

    def _results(self, rows: ChunkRows) -> tuple[Value, Value]:
        graph, (value, recall_keys) = self.graph, self._corrected(rows)
        query = self._weighted(self._spread(rows.query), self._exp(rows.sums))
        key = self._weighted(self._spread(rows.key), self._decays_to_end(rows.sums))
        parts = value, recall_keys, query, key, rows.scores, self._exp(self._last(rows.sums))
        if not self.is_in_turn:
            zeros = self._zeros((*value.shape[:3], self.mixer.state, self.head_dim))
            results, states = self._chunk_results(parts, zeros)
            return results, self._without_chunks(self._part(states, 0, 1))
        outputs: list[Value] = []
        state = self._zeros(self._state_shape) if self.state is None else self.state
        for place in range(self.count):
            chunk_parts = [self._part(part, place, 1) for part in parts]
            state_before = graph.reshape(state, (*state.shape[:2], 1, *state.shape[2:]))
            result, state_after = self._chunk_results(chunk_parts, state_before)
            state = self._without_chunks(state_after)
            outputs.append(result)
        return graph.concatenate(outputs, 2), state

    def _corrected(self, rows: ChunkRows) -> tuple[Value, Value]:
        """Values of chunks, and keys that recall states, less what earlier tokens have written.

        ``(I + A)^-1 b v`` and ``(I + A)^-1 b exp(c) k`` for ``A_ij = b_i (k_i k_j) exp(c_i - c_j)``
        below the diagonal.
        """
        graph, rank_graph = self.graph, self.rank_graph
        system = self._spread(self._scores("key scores", rows.key, rows.key))
        rank_graph.operator("recurrence")
        system = self._weighted(self._times(system, rows.pairs), rows.strength)
        value = self._weighted(rows.value, rows.strength)
        key = self._weighted(self._spread(rows.key), rows.strength)
        pairs = graph.concatenate((value, self._weighted(key, self._exp(rows.sums))), 4)
        solution = self._product("corrected rows", self._inverse(system), pairs)
        new_value, new_key = (
            graph.slice(solution, (0, 0, 0, 0, start), (*solution.shape[:4], width))
            for start, width in ((0, self.head_dim), (self.head_dim, self.mixer.state))
        )
        return new_value, new_key

    def _inverse(self, system: Value) -> Value:
        """``(I + A)^-1`` for the part A of a system [B, H, C, L, L] below the diagonal.

        It grows from blocks of s rows to those of 2 s: the block below is ``-D^-1 A B^-1`` of the
        inverses on the diagonal.
        """
        inverse, size = self._mask(system.shape, "EQ"), 1
        while size < self.chunk:
            self.rank_graph.operator("recurrence")
            lower_blocks = self._times(system, self._blocks_below(system.shape, size))
            if size > 1:
                lower_blocks = self._product("inverse", inverse, lower_blocks, is_cast=False)
                lower_blocks = self._product("inverse", lower_blocks, inverse, is_cast=False)
            self.rank_graph.operator("recurrence")
            inverse = self.graph.elementwise("subtract", inverse, lower_blocks)
            size *= 2
        return inverse

    def _chunk_results(self, parts: Sequence[Value], state: Value) -> tuple[Value, Value]:
        """Results and states after chunks [B, H, C, L, *], by the states before them."""
        graph = self.graph
        value, recall_keys, query, key, scores, total = parts
        recalled_values = self._product("recalled values", recall_keys, state)
        self.rank_graph.operator("recurrence")
        value = graph.elementwise("subtract", value, recalled_values)
        inner_results = self._product("chunk values", scores, value)
        state_results = self._product("read states", query, state)
        update = self._product("chunk states", key, value, is_left_turned=True)
        self.rank_graph.operator("recurrence")
        decayed_state = self._times(state, graph.broadcast_in_dim(total, state.shape, (0, 1, 2, 3)))
        states = graph.elementwise("add", decayed_state, update)
        return graph.elementwise("add", inner_results, state_results), states

    def _blocks_below(self, shape: tuple[int, ...], size: int) -> Value:
        """1 in the lower left quarter of each block of 2 `size` rows on the diagonal, else 0."""
        graph = self.graph
        sides = [
            graph.elementwise("convert", graph.iota(shape, dim), dtype=FLOAT_DTYPE)
            for dim in (3, 4)
        ]
        is_below, is_in_block = (
            graph.elementwise(
                "compare",
                *(self._floor_quotient(side, rows) for side in sides),
                dtype=FLOAT_DTYPE,
                direction=direction,
            )
            for rows, direction in ((size, "GT"), (2 * size, "EQ"))
        )
        return self._times(is_below, is_in_block)

    def _floor_quotient(self, x: Value, size: int) -> Value:
        """``floor(x / size)`` of whole numbers, for a power of two."""
        return self.graph.elementwise("floor", self.graph.elementwise("multiply", x, 1 / size))
