"""Attention of one rank: its operations in a layer's graph.

Query heads of one KV head are rows of one product with its keys. A mask discards results but saves
no multiplication here: `Product.causal` says what it leaves, for programs that skip it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from trnsim.graph.ops.contraction import Attention as Met
from trnsim.workload.architecture import LatentAttention
from trnsim.workload.operators import Axis, Pass, Phase, Split

if TYPE_CHECKING:
    from trnsim.graph import Value
    from trnsim.workload.architecture import Architecture, Attention
    from trnsim.workload.rank_graph import RankGraph

_CACHING: Final = (Phase.DECODE, Phase.PREFILL)


def attention(
    rank: RankGraph,
    model: Architecture,
    given: tuple[Attention | LatentAttention, Pass, Split],
    rows: Value,
) -> Value:
    """An attention of a layer: [rows, hidden], a sum of which each tensor rank has a part."""
    form = _Latent if isinstance(given[0], LatentAttention) else _Grouped
    return form(rank, model, given, rows).result()


class _Attending:
    """One rank's part of an attention in a pass.

    Attributes:
        heads: query heads of the rank; those that the tensor ranks do not divide are made up.
        new: tokens of a sequence that are the rank's; in a step, ranks share those before.
        keys: tokens whose keys and values its queries meet, masked ones too.
    """

    def __init__(
        self,
        rank: RankGraph,
        model: Architecture,
        given: tuple[Attention | LatentAttention, Pass, Split],
        rows: Value,
    ) -> None:
        self.rank, self.model, self.rows = rank, model, rows
        self.form, self.given, self.split = given
        self.heads = math.ceil(self.form.heads / self.split.tensor)
        self.is_step = self.given.phase is Phase.DECODE
        self.new = math.ceil(self.given.tokens / (1 if self.is_step else self.split.context))
        self.keys = math.ceil(self._keys() / (self.split.context if self.is_step else 1))

    def weighted(self, name: str, rows: Value, columns: int) -> Value:
        """``rows @ weight`` with a weight of so many columns."""
        return self.rank.product(name, rows, self.weight((rows.shape[-1], columns)))

    def weight(self, shape: tuple[int, ...]) -> Value:
        """A weight of the attention's products."""
        return self.rank.weight(shape, self.model.weight_bits, multiplied=self.model.product_bits)

    def _keys(self) -> int:
        """Tokens whose keys and values a query of the whole meets, masked ones too."""
        if self.form.is_cross:
            return self.given.source or self.given.tokens
        keys = self.given.tokens + self.given.past
        if self.form.window and self.is_step:
            keys = min(keys, self.form.window + self.given.tokens - 1)
        return keys

    @property
    def mask(self) -> Met:
        """Which keys the rank's queries see; those of ranks of a sequence take turns in it."""
        if self.form.is_cross:
            return Met()
        window = self.form.window
        if not self.form.is_causal:
            return Met(window=window)
        if self.is_step:  # the tokens before are shared out, and all of them are seen
            return Met(is_causal=True, first=max(self.keys - self.new, 0), window=window)
        apart = self.split.context
        first = self._keys() - self.given.tokens + (apart - 1) // 2
        return Met(is_causal=True, first=first, apart=apart, window=window)

    def met(self, query: Value, key: Value, value: Value) -> Value:
        """Results [rows, heads x width] of queries that meet keys and values."""
        found = self.rank.attended(query, key, value, self.mask)
        rows = self.rank.joined(found)
        if self.split.context > 1 and self.is_step and not self.form.is_cross:
            return self._added_up(rows)
        return rows

    def _added_up(self, rows: Value) -> Value:
        """The sum of all parts of a sequence: results, each query's largest score and sum."""
        rank, width = self.rank, rows.shape[1]
        statistics = rank.statistics
        if statistics is None:
            return rows
        short = rank.cast(rank.graph.reshape(statistics, (rows.shape[0], self.heads)), rank.bits)
        whole = rank.graph.concatenate((rows, short, short), 1)
        summed = rank.exchange("all_reduce", whole, Axis.CONTEXT, self.split.context)
        return rank.columns(summed, width)[0]

    def past_and_new(self, new: Value) -> Value:
        """Keys and values [B, T, C] of all tokens that are met: earlier ones, and the new ones.

        Ranks of a sequence pass on theirs; in a step, each meets its part of the earlier ones.
        """
        rank, given, graph = self.rank, self.given, self.rank.graph
        rank.operator("cache")
        batch, _, width = new.shape
        if given.phase in _CACHING and self.form.is_causal:
            rank.keep(new, self.model.kv_bits)
            before = math.ceil((self._keys() - given.tokens) / self.split.context)
            before = self.keys - self.new if self.is_step else before
            if before > 0:
                earlier = rank.earlier((batch, before, width), self.model.kv_bits)
                new = graph.concatenate((earlier, new), 1)
        if self.split.context == 1 or self.is_step:
            return new
        rows = graph.reshape(new, (batch * new.shape[1], width))
        whole = rank.exchange("all_gather", rows, Axis.CONTEXT, self.split.context)
        rank.operator("cache")
        every = graph.reshape(whole, (batch, new.shape[1] * self.split.context, width))
        return graph.slice(every, (0, 0, 0), (batch, self.keys, width))


class _Grouped(_Attending):
    """Heads with keys and values, which groups of query heads share."""

    form: Attention

    def result(self) -> Value:
        """The attention's output."""
        form, rank, batch = self.form, self.rank, self.given.batch
        groups = math.ceil(form.kv_heads / self.split.tensor)
        query = self.weighted("query", self.rows, self.heads * form.head_dim)
        query = rank.heads(query, batch, self.heads)
        widths = groups * form.head_dim, groups * form.value_dim
        met = self._source(sum(widths)) if form.is_cross else self._own(sum(widths))
        flat = rank.graph.reshape(met, (batch * met.shape[1], sum(widths)))
        key, value = (rank.heads(one, batch, groups) for one in rank.columns(flat, *widths))
        found = self.met(query, key, value)
        return self.weighted("output", found, self.rows.shape[1])

    def _own(self, width: int) -> Value:
        """Keys and values [B, T, C] of the tower's own tokens."""
        made = self.weighted("key and value", self.rows, width)
        new = self.rank.graph.reshape(made, (self.given.batch, self.new, width))
        return self.past_and_new(new)

    def _source(self, width: int) -> Value:
        """Those of the tower before; a step finds them in the cache."""
        rank, batch, bits = self.rank, self.given.batch, self.model.kv_bits
        shape = batch, self.keys, width
        if self.is_step:
            return rank.earlier(shape, bits)
        source = rank.input(batch * self.keys, self.rows.shape[1])
        made = rank.graph.reshape(self.weighted("key and value", source, width), shape)
        if self.given.phase in _CACHING:
            rank.keep(made, bits)
        return made


class _Latent(_Attending):
    """Keys and values made of short vectors for a prompt; in a step, queries meet these."""

    form: LatentAttention

    def result(self) -> Value:
        """The attention's output."""
        form, rank, batch = self.form, self.rank, self.given.batch
        query = rank.heads(self._queries(), batch, self.heads)
        width = form.kv_rank + form.rotary_dim
        made = self.weighted("latent", self.rows, width)
        latent = self.past_and_new(rank.graph.reshape(made, (batch, self.new, width)))
        found = self._absorbed(query, latent) if self.is_step else self._made(query, latent)
        return self.weighted("output", found, self.rows.shape[1])

    def _queries(self) -> Value:
        """Queries [rows, heads x (plain + rotary)], made of a short vector where there is one."""
        rows = self.rows
        if self.form.query_rank:
            rows = self.weighted("query latent", rows, self.form.query_rank)
        each = self.form.plain_dim + self.form.rotary_dim
        return self.weighted("query", rows, self.heads * each)

    def _made(self, query: Value, latent: Value) -> Value:
        """Each head has keys and values of its own; the part with a place is that of all."""
        form, rank = self.form, self.rank
        batch, keys, _ = latent.shape
        flat = rank.graph.reshape(latent, (batch * keys, latent.shape[2]))
        short, rotary = rank.columns(flat, form.kv_rank, form.rotary_dim)
        each = form.plain_dim + form.value_dim
        made = rank.heads(
            self.weighted("keys and values", short, self.heads * each), batch, self.heads
        )
        shape = batch, self.heads, keys
        plain = rank.graph.slice(made, (0, 0, 0, 0), (*shape, form.plain_dim))
        value = rank.graph.slice(made, (0, 0, 0, form.plain_dim), (*shape, form.value_dim))
        placed = rank.heads(rotary, batch, 1)
        placed = rank.graph.broadcast_in_dim(placed, (*shape, form.rotary_dim), (0, 1, 2, 3))
        return self.met(query, rank.graph.concatenate((plain, placed), 3), value)

    def _absorbed(self, query: Value, latent: Value) -> Value:
        """The products that make keys and values are moved to queries and results.

        Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2.
        """
        form, rank, heads = self.form, self.rank, self.heads
        batch, _, tokens, _ = query.shape
        rows = (heads, batch * tokens)
        by_head = rank.graph.transpose(query, (1, 0, 2, 3))
        by_head = rank.graph.reshape(by_head, (*rows, query.shape[3]))
        plain = rank.graph.slice(by_head, (0, 0, 0), (*rows, form.plain_dim))
        placed = rank.graph.slice(by_head, (0, 0, form.plain_dim), (*rows, form.rotary_dim))
        up = self.weight((heads, form.plain_dim, form.kv_rank))
        whole = rank.graph.concatenate((rank.product("keys absorbed", plain, up), placed), 2)
        apart = rank.graph.reshape(whole, (heads, batch, tokens, whole.shape[2]))
        absorbed = rank.graph.transpose(apart, (1, 0, 2, 3))
        key = rank.graph.reshape(latent, (batch, 1, *latent.shape[1:]))
        value = rank.graph.slice(key, (0, 0, 0, 0), (*key.shape[:3], form.kv_rank))
        found = self.met(absorbed, key, value)
        apart = rank.graph.reshape(found, (batch * tokens, heads, form.kv_rank))
        down = self.weight((heads, form.kv_rank, form.value_dim))
        results = rank.product("values absorbed", rank.graph.transpose(apart, (1, 0, 2)), down)
        moved = rank.graph.transpose(results, (1, 0, 2))
        return rank.graph.reshape(moved, (batch * tokens, heads * form.value_dim))
