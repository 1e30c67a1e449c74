"""Attention in one pass: its products, its cache and its exchanges, as one rank has them.

Query heads of one KV head are rows of one product with its keys. A mask discards results but saves
no multiplication here: `Product.causal` says what it leaves, for programs that skip it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from trnsim.workload.architecture import Attention, LatentAttention
from trnsim.workload.operators import (
    Axis,
    Cache,
    Elementwise,
    Exchange,
    Pass,
    Phase,
    Product,
    Split,
    bytes_of,
)

if TYPE_CHECKING:
    from trnsim.workload.architecture import Architecture

Kind = TypeVar("Kind", Attention, LatentAttention)
_STATISTICS = 2
"""The largest score and the sum of exponentials of a query, by which parts are put together."""


@dataclass(frozen=True)
class Attended:
    """An attention in one pass.

    Attributes:
        products: with weights, and of queries with keys and of scores with values.
        softmax: between these.
        cache: what it reads and writes of keys and values.
        exchanges: of the ranks that share a sequence.
    """

    products: tuple[Product, ...]
    softmax: Elementwise
    cache: Cache
    exchanges: tuple[Exchange, ...]


def attended(
    model: Architecture,
    hidden: int,
    attention: Attention | LatentAttention,
    given: Pass,
    split: Split,
) -> Attended:
    """An attention of a tower of `hidden` elements in a pass."""
    if isinstance(attention, LatentAttention):
        return _Latent(model, hidden, attention, given, split).found()
    return _Grouped(model, hidden, attention, given, split).found()


class _Attending(Generic[Kind]):
    """One rank's part of an attention."""

    def __init__(
        self, model: Architecture, hidden: int, attention: Kind, given: Pass, split: Split
    ) -> None:
        self.model, self.hidden = model, hidden
        self.attention: Kind = attention
        self.given, self.split = given, split
        self.heads = math.ceil(attention.heads / split.tensor)
        self.is_step = given.phase is Phase.DECODE
        # Ranks of a sequence share its new tokens, in a step those before.
        self.new = given.tokens / (1 if self.is_step else split.context)
        self.rows = given.batch * self.new
        self.keys = self._keys() / (split.context if self.is_step else 1)

    def weighted(self, name: str, rows: float, k: float, n: float, times: float = 1) -> Product:
        """A product with weights."""
        bits = self.model.product_bits
        return Product(name, rows, k, n, times, self.model.weight_bits, bits=bits)

    def met(
        self, queries: float, values: float, keys_of: float, share: float
    ) -> tuple[Product, ...]:
        """Queries with keys and scores with values; `share` heads meet each of `keys_of` keys."""
        times = self.given.batch * keys_of
        seen, rows, bits = self.seen, self.new * share, self.model.other_bits
        return (
            Product("scores", rows, queries, self.keys, times, causal=seen, bits=bits),
            Product("values", rows, self.keys, values, times, causal=seen, bits=bits),
        )

    def attended(self, products: tuple[Product, ...], cached: float, width: float) -> Attended:
        """All of it, for `cached` elements a token and results of `width` elements."""
        elements = 2 * self.given.batch * self.heads * self.new * self.keys
        softmax = Elementwise("softmax", elements * self.seen)
        return Attended(products, softmax, self._cache(cached), self._shared(cached, width))

    def _keys(self) -> float:
        """Tokens whose keys and values a query meets, masked ones too."""
        if self.attention.is_cross:
            return float(self.given.source or self.given.tokens)
        keys = self.given.tokens + self.given.past
        if self.attention.window and self.is_step:
            keys = min(keys, self.attention.window + self.given.tokens - 1)
        return float(keys)

    @property
    def seen(self) -> float:
        """The part of scores that no mask discards."""
        one, new, keys = self.attention, self.given.tokens, self._keys()
        if one.is_cross:
            return 1.0
        if not one.is_causal:
            return min(1.0, one.window / keys) if one.window else 1.0
        past = keys - new
        met = new * past + new * (new + 1) / 2
        beyond = max(past + new - (one.window or keys), 0.0)  # keys too far for the last query
        fewer = min(new, beyond)  # queries for which some are too far
        return (met - fewer * (2 * beyond - fewer + 1) / 2) / (new * keys)

    def _cache(self, elements: float) -> Cache:
        """Bytes of `elements` a token: read for tokens before, written for new ones."""
        if self.given.phase not in (Phase.DECODE, Phase.PREFILL):
            return Cache(0.0, 0.0)
        nbytes = bytes_of(elements, self.model.kv_bits) * self.given.batch
        if self.attention.is_cross:
            whole = nbytes * self.keys
            return Cache(whole, 0.0) if self.is_step else Cache(0.0, whole)
        if not self.attention.is_causal:
            return Cache(0.0, 0.0)
        past = self._keys() - self.given.tokens
        return Cache(nbytes * past / self.split.context, nbytes * self.new)

    def _shared(self, cached: float, width: float) -> tuple[Exchange, ...]:
        """Ranks of a sequence pass on keys and values; in a step, they add up parts of results."""
        if self.split.context == 1 or self.attention.is_cross:
            return ()
        if self.is_step:
            elements = self.rows * self.heads * (width + _STATISTICS)
            kind, nbytes = "all_reduce", bytes_of(elements, self.model.other_bits)
        else:
            tokens = self.given.batch * self.given.tokens
            kind, nbytes = "all_gather", bytes_of(tokens * cached, self.model.other_bits)
        return (Exchange(kind, nbytes, Axis.CONTEXT),)


class _Grouped(_Attending[Attention]):
    """Heads with keys and values, which groups of query heads share."""

    def found(self) -> Attended:
        """The attention in the pass."""
        one, rows = self.attention, self.rows
        queries, values = one.head_dim, one.value_dim
        kv_heads = math.ceil(one.kv_heads / self.split.tensor)
        cached = kv_heads * (queries + values)
        products = [self.weighted("query", rows, self.hidden, self.heads * queries)]
        if not (one.is_cross and self.is_step):  # a step finds another tower's keys in the cache
            given = self.given.batch * self.keys if one.is_cross else rows
            products.append(self.weighted("key and value", given, self.hidden, cached))
        products += self.met(queries, values, kv_heads, self.heads / kv_heads)
        products.append(self.weighted("output", rows, self.heads * values, self.hidden))
        return self.attended(tuple(products), cached, values)


class _Latent(_Attending[LatentAttention]):
    """Keys and values made of short vectors for a prompt; in a step, queries meet these."""

    def found(self) -> Attended:
        """The attention in the pass."""
        one, rows, heads = self.attention, self.rows, self.heads
        rank, rotary = one.kv_rank, one.rotary_dim
        products = [
            *self._queries(),
            self.weighted("latent", rows, self.hidden, rank + rotary),
            *(self._absorbed() if self.is_step else self._made()),
            self.weighted("output", rows, heads * one.value_dim, self.hidden),
        ]
        width = rank if self.is_step else one.value_dim
        return self.attended(tuple(products), one.cached, width)

    def _queries(self) -> list[Product]:
        one, rows = self.attention, self.rows
        made = self.heads * (one.plain_dim + one.rotary_dim)
        if not one.query_rank:
            return [self.weighted("query", rows, self.hidden, made)]
        down = self.weighted("query latent", rows, self.hidden, one.query_rank)
        return [down, self.weighted("query", rows, one.query_rank, made)]

    def _made(self) -> list[Product]:
        one, heads = self.attention, self.heads
        made = heads * (one.plain_dim + one.value_dim)
        rows = self.rows + self.given.batch * self.given.past  # of tokens before, made again
        up = self.weighted("keys and values", rows, one.kv_rank, made)
        return [up, *self.met(one.plain_dim + one.rotary_dim, one.value_dim, heads, 1)]

    def _absorbed(self) -> list[Product]:
        """The products that make keys and values are moved to queries and results.

        Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2.
        """
        one, rows, heads = self.attention, self.rows, self.heads
        return [
            self.weighted("keys absorbed", rows, one.plain_dim, one.kv_rank, heads),
            *self.met(one.kv_rank + one.rotary_dim, one.kv_rank, 1, heads),
            self.weighted("values absorbed", rows, one.kv_rank, one.value_dim, heads),
        ]
