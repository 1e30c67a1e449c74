"""Attention of one rank: its operations in a layer's graph.

Query heads of one KV head are rows of one product with its keys. A mask discards results but saves
no multiplication here: `Product.causal` is the part that it leaves, for programs that skip the
rest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final

from trnsim.graph import Value
from trnsim.graph.ops.contraction import Attention as AttentionOp
from trnsim.workload.architecture import (
    Architecture,
    Attention,
    HeadNorm,
    LatentAttention,
    Norm,
    Wiring,
)
from trnsim.workload.operators import Axis, Pass, Phase, Split
from trnsim.workload.positions import bias, rotated_heads
from trnsim.workload.rank_graph import RankGraph

_CACHING_PHASES: Final = (Phase.DECODE, Phase.PREFILL)
"""Phases that write keys and values to a cache."""
_NO_NORM: Final = HeadNorm(Norm(), "")
_MOST_CACHED_SIZES: Final = 256
"""Maximum number of results of `_sizes_of` that are cached."""


def attention_output(
    rank_graph: RankGraph,
    model: Architecture,
    setting: tuple[Attention | LatentAttention, Pass, Split],
    rows: Value,
    wiring: Wiring | None = None,
) -> Value:
    """Output of a layer's attention [rows, hidden]: each tensor rank has one summand."""
    rank_attention = _Latent if isinstance(setting[0], LatentAttention) else _Grouped
    return rank_attention(rank_graph, model, setting, rows, wiring).result()


@lru_cache(_MOST_CACHED_SIZES)
def _sizes_of(attention: Attention | LatentAttention) -> Attention | LatentAttention:
    """The attention with sizes alone, without wiring."""
    if isinstance(attention, LatentAttention):
        return replace(attention, rotary=None)
    return replace(attention, rotary=None, head_norm=None, has_slopes=False, has_sinks=False)


class _RankAttention:
    """One rank's share of an attention in a pass.

    Attributes:
        heads: query heads of the rank, padded where the tensor ranks do not divide them.
        new_tokens: new tokens of a sequence on the rank; in a decode step the ranks divide the
            earlier ones.
        keys: tokens whose keys and values its queries attend to, masked ones too.
    """

    def __init__(
        self,
        rank_graph: RankGraph,
        model: Architecture,
        setting: tuple[Attention | LatentAttention, Pass, Split],
        rows: Value,
        wiring: Wiring | None,
    ) -> None:
        self.rank_graph, self.model, self.rows, self.wiring = rank_graph, model, rows, wiring
        attention, self.model_pass, self.split = setting
        self.attention = attention if wiring else _sizes_of(attention)
        self.heads = math.ceil(self.attention.heads / self.split.tensor)
        self.is_step = self.model_pass.phase is Phase.DECODE
        self.new_tokens = math.ceil(
            self.model_pass.tokens / (1 if self.is_step else self.split.context)
        )
        self.keys = math.ceil(self._keys() / (self.split.context if self.is_step else 1))

    @property
    def width(self) -> int:
        """Elements of a query."""
        raise NotImplementedError

    def project(self, name: str, rows: Value, columns: int, *, is_biased: bool = False) -> Value:
        """``rows @ weight`` with a weight of `columns` columns, and a bias."""
        weight = self.weight(name, (rows.shape[-1], columns))
        return self.rank_graph.product(name, rows, weight, is_biased=is_biased)

    def weight(self, name: str, shape: tuple[int, ...]) -> Value:
        """A weight of the attention's products."""
        model = self.model
        return self.rank_graph.weight(
            shape, model.weight_bits, product_bits=model.product_bits, name=name
        )

    def _keys(self) -> int:
        """Keys that a query attends to over all context ranks, masked ones too."""
        if self.attention.is_cross:
            return self.model_pass.source or self.model_pass.tokens
        keys = self.model_pass.tokens + self.model_pass.past
        if self.attention.window and self.is_step:
            keys = min(keys, self.attention.window + self.model_pass.tokens - 1)
        return keys

    @property
    def mask(self) -> AttentionOp:
        """The mask of the rank's queries; context ranks take the tokens of a sequence in turn."""
        attention = self.attention
        unmasked = AttentionOp(attention.scale or self.width**-0.5, cap=attention.cap)
        if attention.is_cross:
            return unmasked
        window = (
            attention.window if attention.window < self._keys() or not attention.is_causal else 0
        )
        if not attention.is_causal:
            return replace(unmasked, window=window)
        if self.is_step:  # earlier tokens are shared out, and none of them is masked
            first_position, apart = max(self.keys - self.new_tokens, 0), 1
        else:
            apart = self.split.context
            first_position = self._keys() - self.model_pass.tokens + (apart - 1) // 2
        return replace(unmasked, is_causal=True, first=first_position, apart=apart, window=window)

    def attend(self, query: Value, key: Value, value: Value) -> Value:
        """Attention of the queries to keys and values: [rows, heads x width]."""
        bias_value = None
        if self.attention.has_slopes or (self.wiring and self.wiring.has_mask):
            bias_value = bias(self.rank_graph, query, self.keys, of_heads=self.attention.has_slopes)
        results = self.rank_graph.attention(query, key, value, self.mask, bias_value)
        rows = self.rank_graph.heads_to_rows(self._without_sinks(results))
        if self.split.context > 1 and self.is_step and not self.attention.is_cross:
            return self._context_sum(rows)
        return rows

    def _without_sinks(self, results: Value) -> Value:
        """Results [B, H, L, D] scaled for a sink, whose score is a term of the softmax's divisor.

        ``sum(exp(s)) / (sum(exp(s)) + exp(sink)) = logistic(log(sum(exp(s))) - sink)``.
        """
        rank_graph, statistics = self.rank_graph, self.rank_graph.statistics
        if not self.attention.has_sinks or statistics is None:
            return results
        rank_graph.operator("sinks")
        graph, shape = rank_graph.graph, results.shape
        sink_scores = rank_graph.cast(rank_graph.vector(shape[1], "sinks"), 32)
        logs = graph.reshape(statistics, shape[:3])
        differences = graph.elementwise(
            "subtract", logs, graph.broadcast_in_dim(sink_scores, shape[:3], (1,))
        )
        score_shares = rank_graph.cast(graph.elementwise("logistic", differences), rank_graph.bits)
        return graph.elementwise(
            "multiply", results, graph.broadcast_in_dim(score_shares, shape, (0, 1, 2))
        )

    def _context_sum(self, rows: Value) -> Value:
        """The sum over context ranks of results with their softmax statistics."""
        rank_graph, width = self.rank_graph, rows.shape[1]
        statistics = rank_graph.statistics
        if statistics is None:
            return rows
        cast_statistics = rank_graph.cast(
            rank_graph.graph.reshape(statistics, (rows.shape[0], self.heads)), rank_graph.bits
        )
        packed = rank_graph.graph.concatenate((rows, cast_statistics, cast_statistics), 1)
        summed = rank_graph.exchange("all_reduce", packed, Axis.CONTEXT, self.split.context)
        return rank_graph.columns(summed, width)[0]

    def past_and_new(self, *new: Value) -> list[Value]:
        """Keys and values [*B, T, C] of all tokens: earlier ones from the cache, and the new ones.

        Context ranks gather each other's; in a decode step, each uses its part of the earlier ones.
        """
        self.rank_graph.operator("cache")
        parts = [self._with_past(part) for part in new]
        if self.split.context == 1 or self.is_step:
            return parts
        return self._of_all_ranks(parts)

    def _with_past(self, new: Value) -> Value:
        rank_graph, model_pass = self.rank_graph, self.model_pass
        if model_pass.phase not in _CACHING_PHASES or not self.attention.is_causal:
            return new
        rank_graph.write_cache(new, self.model.kv_bits)
        past_tokens = math.ceil((self._keys() - model_pass.tokens) / self.split.context)
        past_tokens = self.keys - self.new_tokens if self.is_step else past_tokens
        if past_tokens <= 0:
            return new
        *leading_dims, _, width = new.shape
        past_part = rank_graph.cached_input((*leading_dims, past_tokens, width), self.model.kv_bits)
        return rank_graph.graph.concatenate((past_part, new), len(leading_dims))

    def _of_all_ranks(self, parts: list[Value]) -> list[Value]:
        """Keys and values of all context ranks, gathered in one exchange."""
        rank_graph, graph, last = self.rank_graph, self.rank_graph.graph, len(parts[0].shape) - 1
        merged = graph.concatenate(parts, last)
        *leading_dims, tokens, width = merged.shape
        rows = graph.reshape(merged, (math.prod(leading_dims) * tokens, width))
        gathered = rank_graph.exchange("all_gather", rows, Axis.CONTEXT, self.split.context)
        rank_graph.operator("cache")
        gathered = graph.reshape(gathered, (*leading_dims, tokens * self.split.context, width))
        starts, start = [0] * len(merged.shape), 0
        pieces: list[Value] = []
        for part in parts:
            starts[-1] = start
            pieces.append(graph.slice(gathered, starts, (*leading_dims, self.keys, part.shape[-1])))
            start += part.shape[-1]
        return pieces


class _Grouped(_RankAttention):
    """Grouped-query attention: groups of query heads share keys and values."""

    attention: Attention

    def result(self) -> Value:
        """The attention's output."""
        attention = self.attention
        query = self._headed(
            self.project(
                "query", self.rows, self.heads * attention.head_dim, is_biased=self._is_biased
            ),
            self.heads,
            "query norm",
        )
        key, value = self._source() if attention.is_cross else self._own_keys_and_values()
        results = self.attend(self._rotated(query, "query norm"), key, value)
        results = self._gated(results) if attention.has_gate else results
        is_whole = self.wiring is not None and self.split.tensor == 1
        is_biased = is_whole and attention.output_biases > 0
        return self.project("output", results, self.rows.shape[1], is_biased=is_biased)

    def _gated(self, results: Value) -> Value:
        """Results [rows, H D] times the logistic of a projection of the input."""
        graph = self.rank_graph.graph
        gate = self.project("gate", self.rows, results.shape[1], is_biased=self._is_biased)
        self.rank_graph.operator("output gate")
        factor = graph.elementwise("logistic", gate)
        return graph.elementwise("multiply", results, factor)

    @property
    def width(self) -> int:
        """Elements of a query."""
        return self.attention.head_dim

    @property
    def _is_biased(self) -> bool:
        """True if queries, keys and values have biases of known sizes."""
        return self.wiring is not None and self.attention.biases > self.attention.output_biases

    def _headed(self, rows: Value, heads: int, name: str) -> Value:
        """Rows as heads [B, H, T, D], normed if a norm precedes the rotation."""
        rank_graph, norm = self.rank_graph, self.attention.head_norm or _NO_NORM
        if norm.scope == "row":
            rows = rank_graph.norm(rows, norm.norm, name)
        by_head = rank_graph.heads(rows, self.model_pass.batch, heads)
        if norm.scope in ("row", "") or norm.is_after_rotation:
            return by_head
        return rank_graph.norm(by_head, norm.norm, name, heads if norm.scope == "heads" else 0)

    def _rotated(self, heads: Value, name: str) -> Value:
        """Heads rotated, and normed if a norm follows the rotation."""
        norm = self.attention.head_norm or _NO_NORM
        rotated = rotated_heads(self.rank_graph, heads, self.attention.rotary)
        return self.rank_graph.norm(rotated, norm.norm, name) if norm.is_after_rotation else rotated

    def _pair(self, rows: Value) -> tuple[Value, Value]:
        """Keys and values [B, G, T, C] of rows, the keys normed.

        They are two matrices in a wired graph, as most checkpoints have them: a program lays the
        columns of keys along the partitions, and of values the rows.
        """
        attention, rank_graph, batch = self.attention, self.rank_graph, self.model_pass.batch
        groups = math.ceil(attention.kv_heads / self.split.tensor)
        widths = groups * attention.head_dim, groups * attention.value_dim
        if self.wiring is None:
            key, value = rank_graph.columns(
                self.project("key and value", rows, sum(widths)), *widths
            )
        else:
            key, value = (
                self.project(name, rows, width, is_biased=self._is_biased)
                for name, width in zip(("key", "value"), widths, strict=True)
            )
        return self._headed(key, groups, "key norm"), rank_graph.heads(value, batch, groups)

    def _own_keys_and_values(self) -> tuple[Value, Value]:
        """Keys and values of the tower's own tokens, and of those before them."""
        key, value = self._pair(self.rows)
        key, value = self.past_and_new(self._rotated(key, "key norm"), value)
        return key, value

    def _source(self) -> tuple[Value, Value]:
        """Keys and values of the tower before; a decode step reads them from the cache."""
        rank_graph, batch, bits, attention = (
            self.rank_graph,
            self.model_pass.batch,
            self.model.kv_bits,
            self.attention,
        )
        if self.is_step:
            groups = math.ceil(attention.kv_heads / self.split.tensor)
            shape = batch, groups, self.keys
            widths = attention.head_dim, attention.value_dim
            key, value = (rank_graph.cached_input((*shape, width), bits) for width in widths)
            return key, value
        key, value = self._pair(
            rank_graph.input(batch * self.keys, self.rows.shape[1], name="source")
        )
        if self.model_pass.phase in _CACHING_PHASES:
            rank_graph.write_cache(key, bits)
            rank_graph.write_cache(value, bits)
        return key, value


class _Latent(_RankAttention):
    """Latent attention: prompts expand latent vectors to keys and values, steps do not."""

    attention: LatentAttention

    def result(self) -> Value:
        """The attention's output."""
        attention, rank_graph, batch = self.attention, self.rank_graph, self.model_pass.batch
        query = self._rotated_query(rank_graph.heads(self._queries(), batch, self.heads))
        latent = self.project("latent", self.rows, attention.kv_rank + attention.rotary_dim)
        latent_part, shared_key = rank_graph.columns(
            latent, attention.kv_rank, attention.rotary_dim
        )
        if self.wiring:
            latent_part = rank_graph.norm(latent_part, attention.norm, "latent norm")
            rotated = rotated_heads(
                rank_graph, rank_graph.heads(shared_key, batch, 1), attention.rotary
            )
            shared_key = rank_graph.heads_to_rows(rotated)
        merged = rank_graph.graph.concatenate((latent_part, shared_key), 1)
        latent = rank_graph.graph.reshape(merged, (batch, self.new_tokens, latent.shape[1]))
        (latent,) = self.past_and_new(latent)
        results = self._absorbed(query, latent) if self.is_step else self._expanded(query, latent)
        return self.project("output", results, self.rows.shape[1])

    @property
    def width(self) -> int:
        """Elements of a query."""
        return self.attention.plain_dim + self.attention.rotary_dim

    def _rotated_query(self, query: Value) -> Value:
        """Queries with their last elements rotated."""
        attention, rank_graph, zeros = self.attention, self.rank_graph, (0, 0, 0)
        if attention.rotary is None:
            return query
        shape = query.shape[:3]
        plain = rank_graph.graph.slice(query, (*zeros, 0), (*shape, attention.plain_dim))
        rotary_part = rank_graph.graph.slice(
            query, (*zeros, attention.plain_dim), (*shape, attention.rotary_dim)
        )
        return rank_graph.graph.concatenate(
            (plain, rotated_heads(rank_graph, rotary_part, attention.rotary)), 3
        )

    def _queries(self) -> Value:
        """Queries [rows, heads x (plain + rotary)], from a latent vector if there is one."""
        rows = self.rows
        if self.attention.query_rank:
            rows = self.project("query latent", rows, self.attention.query_rank)
            if self.wiring:
                rows = self.rank_graph.norm(rows, self.attention.norm, "query norm")
        width = self.attention.plain_dim + self.attention.rotary_dim
        return self.project("query", rows, self.heads * width)

    def _expanded(self, query: Value, latent: Value) -> Value:
        """Attention to keys and values of each head; the rotated part of a key is shared."""
        attention, rank_graph = self.attention, self.rank_graph
        batch, keys, _ = latent.shape
        flat = rank_graph.graph.reshape(latent, (batch * keys, latent.shape[2]))
        latent_part, rotary = rank_graph.columns(flat, attention.kv_rank, attention.rotary_dim)
        width = attention.plain_dim + attention.value_dim
        pairs = rank_graph.heads(
            self.project("keys and values", latent_part, self.heads * width), batch, self.heads
        )
        shape = batch, self.heads, keys
        plain = rank_graph.graph.slice(pairs, (0, 0, 0, 0), (*shape, attention.plain_dim))
        value = rank_graph.graph.slice(
            pairs, (0, 0, 0, attention.plain_dim), (*shape, attention.value_dim)
        )
        rotary_part = rank_graph.heads(rotary, batch, 1)
        rotary_part = rank_graph.graph.broadcast_in_dim(
            rotary_part, (*shape, attention.rotary_dim), (0, 1, 2, 3)
        )
        return self.attend(query, rank_graph.graph.concatenate((plain, rotary_part), 3), value)

    def _absorbed(self, query: Value, latent: Value) -> Value:
        """Attention to latent vectors, with up-projections moved to queries and results.

        Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2.
        """
        attention, rank_graph, heads = self.attention, self.rank_graph, self.heads
        batch, _, tokens, _ = query.shape
        rows = (heads, batch * tokens)
        by_head = rank_graph.graph.transpose(query, (1, 0, 2, 3))
        by_head = rank_graph.graph.reshape(by_head, (*rows, query.shape[3]))
        plain = rank_graph.graph.slice(by_head, (0, 0, 0), (*rows, attention.plain_dim))
        rotary_part = rank_graph.graph.slice(
            by_head, (0, 0, attention.plain_dim), (*rows, attention.rotary_dim)
        )
        key_weight = self.weight("keys absorbed", (heads, attention.plain_dim, attention.kv_rank))
        merged = rank_graph.graph.concatenate(
            (rank_graph.product("keys absorbed", plain, key_weight), rotary_part), 2
        )
        head_queries = rank_graph.graph.reshape(merged, (heads, batch, tokens, merged.shape[2]))
        absorbed = rank_graph.graph.transpose(head_queries, (1, 0, 2, 3))
        key = rank_graph.graph.reshape(latent, (batch, 1, *latent.shape[1:]))
        value = rank_graph.graph.slice(key, (0, 0, 0, 0), (*key.shape[:3], attention.kv_rank))
        results = self.attend(absorbed, key, value)
        latent_results = rank_graph.graph.reshape(
            results, (batch * tokens, heads, attention.kv_rank)
        )
        value_weight = self.weight(
            "values absorbed", (heads, attention.kv_rank, attention.value_dim)
        )
        results = rank_graph.product(
            "values absorbed", rank_graph.graph.transpose(latent_results, (1, 0, 2)), value_weight
        )
        token_rows = rank_graph.graph.transpose(results, (1, 0, 2))
        return rank_graph.graph.reshape(token_rows, (batch * tokens, heads * attention.value_dim))
