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
from trnsim.workload.mixer import Mixer
from trnsim.workload.rank_graph import RankGraph

_FLOAT_DTYPE: Final = "float32"
_PADDING_SCORE: Final = -3.0e38
"""Term added to the score of a padding token."""


def rotations(tower: Tower) -> tuple[Rotary, ...]:
    """The distinct rotary embeddings of a tower's layers."""
    forms = [form for layer in tower.layers for form in layer.attentions]
    rotaries = [form.rotary for form in forms if not isinstance(form, Mixer)]
    return tuple(dict.fromkeys(rotary for rotary in rotaries if rotary is not None))


def add_rotations(rank_graph: RankGraph, rows: int, rotary: Rotary) -> None:
    """Add the cosines and sines [rows, width] of the angles ``position * frequency``.

    Both elements of a pair have one angle.
    """
    rank_graph.operator("rotation")
    graph, half = rank_graph.graph, rotary.width // 2
    frequencies = rank_graph.input(half, name=f"frequencies{rotary.table}", dtype=_FLOAT_DTYPE)
    positions = rank_graph.input(rows, name="places", dtype="int32")
    float_positions = graph.elementwise("convert", positions, dtype=_FLOAT_DTYPE)
    angles = graph.elementwise(
        "multiply",
        graph.broadcast_in_dim(float_positions, (rows, half), (0,)),
        graph.broadcast_in_dim(frequencies, (rows, half), (1,)),
    )
    if rotary.is_paired:
        angles = graph.broadcast_in_dim(angles, (rows, half, 2), (0, 1))
        angles = graph.reshape(angles, (rows, rotary.width))
    else:
        angles = graph.concatenate((angles, angles), 1)
    for name in ("cosine", "sine"):
        values = rank_graph.scale("rotation", graph.elementwise(name, angles), rotary.factor)
        rank_graph.named_outputs[f"{name}{rotary.table}"] = rank_graph.cast(values, rank_graph.bits)


def rotated_heads(rank_graph: RankGraph, heads: Value, rotary: Rotary | None) -> Value:
    """Heads [B, H, T, D] with their first elements rotated by their positions' angles."""
    if rotary is None:
        return heads
    batch, count, tokens, width = heads.shape
    tables = [
        rank_graph.input(batch * tokens, rotary.width, name=f"{name}{rotary.table}")
        for name in ("cosine", "sine")
    ]
    rank_graph.operator("rotation")
    graph, shape = rank_graph.graph, (batch, count, tokens, rotary.width)
    cosine, sine = (
        graph.broadcast_in_dim(
            graph.reshape(table, (batch, 1, tokens, rotary.width)), shape, range(4)
        )
        for table in tables
    )
    unrotated = graph.slice(heads, (0, 0, 0, 0), shape)
    swapped = _rotated_pairs(rank_graph, unrotated, is_paired=rotary.is_paired)
    results = graph.elementwise(
        "add",
        graph.elementwise("multiply", unrotated, cosine),
        graph.elementwise("multiply", swapped, sine),
    )
    if width == rotary.width:
        return results
    rest = (batch, count, tokens, width - rotary.width)
    return graph.concatenate((results, graph.slice(heads, (0, 0, 0, rotary.width), rest)), 3)


def _rotated_pairs(rank_graph: RankGraph, x: Value, *, is_paired: bool) -> Value:
    """Halves of the last dimension, or neighbours in it, exchanged, one of each pair negated."""
    graph, (*outer, width) = rank_graph.graph, x.shape
    half, zeros = (*outer, width // 2), (0,) * len(outer)
    steps = (*(1 for _ in outer), 2) if is_paired else ()
    first = graph.slice(x, (*zeros, 0), half, steps)
    second = graph.slice(x, (*zeros, 1 if is_paired else width // 2), half, steps)
    parts = graph.elementwise("negate", second), first
    if not is_paired:
        return graph.concatenate(parts, len(outer))
    apart = [graph.reshape(part, (*half, 1)) for part in parts]
    return graph.reshape(graph.concatenate(apart, len(half)), x.shape)


def with_learned_positions(rank_graph: RankGraph, x: Value, table: Value, first_row: int) -> Value:
    """Rows of x plus the rows of a table of positions, the first token's being `first_row`."""
    rows = rank_graph.input(x.shape[0], name="places", dtype="int32")
    rank_graph.operator("learned places")
    if first_row:
        rows = rank_graph.graph.elementwise("add", rows, first_row)
    return rank_graph.graph.elementwise("add", x, rank_graph.graph.gather(table, rows))


def with_token_types(rank_graph: RankGraph, x: Value, table: Value) -> Value:
    """Rows of x plus the rows of a table of token types."""
    rows = rank_graph.input(x.shape[0], name="kinds", dtype="int32")
    rank_graph.operator("kinds of tokens")
    return rank_graph.graph.elementwise("add", x, rank_graph.graph.gather(table, rows))


def alibi_bias(rank_graph: RankGraph, heads: int, keys: int) -> None:
    """Add ALiBi's bias of scores: the slope of the head times the position of the key."""
    rank_graph.operator("slopes")
    graph, shape = rank_graph.graph, (heads, keys)
    slopes = rank_graph.input(heads, name="slopes", dtype=_FLOAT_DTYPE)
    positions = graph.elementwise("convert", graph.iota(shape, 1), dtype=_FLOAT_DTYPE)
    values = graph.elementwise("multiply", positions, graph.broadcast_in_dim(slopes, shape, (0,)))
    rank_graph.named_outputs["bias"] = rank_graph.cast(values, rank_graph.bits)


def padding_bias(rank_graph: RankGraph, batch: int, tokens: int) -> None:
    """Add the bias of scores by the padding mask: 0 for a token, very negative for padding."""
    mask = rank_graph.input(batch, tokens, name="mask", dtype="int32")
    rank_graph.operator("mask")
    is_token = rank_graph.graph.elementwise(
        "convert", mask, dtype=rank_graph.dtype_of(rank_graph.bits)
    )
    rank_graph.named_outputs["bias"] = rank_graph.graph.elementwise(
        "multiply", rank_graph.graph.elementwise("subtract", 1.0, is_token), _PADDING_SCORE
    )


def bias(rank_graph: RankGraph, query: Value, keys: int, *, of_heads: bool) -> Value:
    """The bias of the scores of heads [B, H, L, D] with keys: [B, H, L, S]."""
    batch, heads, tokens, _ = query.shape
    bias_values = rank_graph.input(heads if of_heads else batch, keys, name="bias")
    rank_graph.operator("attention")
    dims = (1, 3) if of_heads else (0, 3)
    return rank_graph.graph.broadcast_in_dim(bias_values, (batch, heads, tokens, keys), dims)
