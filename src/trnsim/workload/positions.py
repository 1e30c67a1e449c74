"""Positions of tokens in a graph: rotations, learned positions, slopes of scores, padding.

Angles are computed once for all layers, from positions (an input) and frequencies (a constant of
the model); layers read their cosines and sines.

Source: transformers 5.23, modeling_llama.py and modeling_gptj.py (halves, neighbours), bloom's
build_alibi_tensor.
"""

from __future__ import annotations

from typing import Final

from trnsim.graph import Value
from trnsim.workload.architecture import Rotary, Tower
from trnsim.workload.rank_graph import RankGraph

_FLOAT_DTYPE: Final = "float32"
_PADDING_SCORE: Final = -3.0e38
"""Term added to the score of a padding token."""


def rotations(tower: Tower) -> tuple[Rotary, ...]:
    """The distinct rotary embeddings of a tower's layers."""
    rotaries = [form.rotary for layer in tower.layers for form in layer.attentions]
    return tuple(dict.fromkeys(rotary for rotary in rotaries if rotary is not None))


def angles(rank: RankGraph, rows: int, rotary: Rotary) -> None:
    """Add the cosines and sines [rows, width] of the angles (`turned`) of positions (`numbers`)."""
    rank.operator("rotation")
    graph, half = rank.graph, rotary.width // 2
    frequencies = rank.input(half, name=f"frequencies{rotary.table}", dtype=_FLOAT_DTYPE)
    numbers = rank.input(rows, name="places", dtype="int32")
    wide = graph.elementwise("convert", numbers, dtype=_FLOAT_DTYPE)
    turned = graph.elementwise(
        "multiply",
        graph.broadcast_in_dim(wide, (rows, half), (0,)),
        graph.broadcast_in_dim(frequencies, (rows, half), (1,)),
    )
    if rotary.is_paired:
        turned = graph.broadcast_in_dim(turned, (rows, half, 2), (0, 1))
        turned = graph.reshape(turned, (rows, rotary.width))
    else:
        turned = graph.concatenate((turned, turned), 1)
    for name in ("cosine", "sine"):
        values = rank.scale("rotation", graph.elementwise(name, turned), rotary.factor)
        rank.named_outputs[f"{name}{rotary.table}"] = rank.cast(values, rank.bits)


def rotated_heads(rank: RankGraph, heads: Value, rotary: Rotary | None) -> Value:
    """Heads [B, H, T, D] whose first elements (`turned`) are rotated by their positions' angles."""
    if rotary is None:
        return heads
    batch, count, tokens, width = heads.shape
    tables = [
        rank.input(batch * tokens, rotary.width, name=f"{name}{rotary.table}")
        for name in ("cosine", "sine")
    ]
    rank.operator("rotation")
    graph, shape = rank.graph, (batch, count, tokens, rotary.width)
    cosine, sine = (
        graph.broadcast_in_dim(
            graph.reshape(table, (batch, 1, tokens, rotary.width)), shape, range(4)
        )
        for table in tables
    )
    turned = graph.slice(heads, (0, 0, 0, 0), shape)
    swapped = _rotated_pairs(rank, turned, is_paired=rotary.is_paired)
    results = graph.elementwise(
        "add",
        graph.elementwise("multiply", turned, cosine),
        graph.elementwise("multiply", swapped, sine),
    )
    if width == rotary.width:
        return results
    rest = (batch, count, tokens, width - rotary.width)
    return graph.concatenate((results, graph.slice(heads, (0, 0, 0, rotary.width), rest)), 3)


def _rotated_pairs(rank: RankGraph, x: Value, *, is_paired: bool) -> Value:
    """Halves of the last dimension, or neighbours in it, exchanged, one of each pair negated."""
    graph, (*outer, width) = rank.graph, x.shape
    half, zeros = (*outer, width // 2), (0,) * len(outer)
    steps = (*(1 for _ in outer), 2) if is_paired else ()
    first = graph.slice(x, (*zeros, 0), half, steps)
    second = graph.slice(x, (*zeros, 1 if is_paired else width // 2), half, steps)
    parts = graph.elementwise("negate", second), first
    if not is_paired:
        return graph.concatenate(parts, len(outer))
    apart = [graph.reshape(part, (*half, 1)) for part in parts]
    return graph.reshape(graph.concatenate(apart, len(half)), x.shape)


def with_learned_places(
    rank: RankGraph, x: Value, table: Value, first: int, name: str = "learned places"
) -> Value:
    """Rows of x plus rows of a table, by position; by token type if `name` is not the default."""
    is_of_places = name == "learned places"
    numbers = rank.input(x.shape[0], name="places" if is_of_places else "kinds", dtype="int32")
    rank.operator(name)
    if first and is_of_places:
        numbers = rank.graph.elementwise("add", numbers, first)
    return rank.graph.elementwise("add", x, rank.graph.gather(table, numbers))


def alibi_bias(rank: RankGraph, heads: int, keys: int) -> None:
    """Add ALiBi's bias of scores: the slope of the head times the position of the key."""
    rank.operator("slopes")
    graph, shape = rank.graph, (heads, keys)
    own = rank.input(heads, name="slopes", dtype=_FLOAT_DTYPE)
    numbers = graph.elementwise("convert", graph.iota(shape, 1), dtype=_FLOAT_DTYPE)
    values = graph.elementwise("multiply", numbers, graph.broadcast_in_dim(own, shape, (0,)))
    rank.named_outputs["bias"] = rank.cast(values, rank.bits)


def padding_bias(rank: RankGraph, batch: int, tokens: int) -> None:
    """Add the bias of scores by the padding mask: 0 for a token, very negative for padding."""
    there = rank.input(batch, tokens, name="mask", dtype="int32")
    rank.operator("mask")
    wide = rank.graph.elementwise("convert", there, dtype=rank.dtype_of(rank.bits))
    rank.named_outputs["bias"] = rank.graph.elementwise(
        "multiply", rank.graph.elementwise("subtract", 1.0, wide), _PADDING_SCORE
    )


def bias(rank: RankGraph, query: Value, keys: int, *, of_heads: bool) -> Value:
    """The bias of the scores of heads [B, H, L, D] with keys: [B, H, L, S]."""
    batch, heads, tokens, _ = query.shape
    added = rank.input(heads if of_heads else batch, keys, name="bias")
    rank.operator("attention")
    dims = (1, 3) if of_heads else (0, 3)
    return rank.graph.broadcast_in_dim(added, (batch, heads, tokens, keys), dims)
