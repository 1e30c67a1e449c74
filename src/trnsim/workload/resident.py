"""What a rank holds: parameters of its part of a layer, and keys and values of its sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.workload.architecture import Attention, Experts, LatentAttention
from trnsim.workload.operators import WHOLE, bytes_of

if TYPE_CHECKING:
    from trnsim.workload.architecture import Architecture, Layer, Mlp, Tower
    from trnsim.workload.operators import Split


def held_by_table(model: Architecture, tower: Tower, split: Split) -> float:
    """Bytes of tables and of products before the layers that one rank holds.

    The rows' elements of a table are spread over the tensor ranks; a tied table lies here.
    """
    rows = 0 if tower.is_table_shared else tower.looked_up
    table = rows * math.ceil(tower.width / split.tensor)
    places = tower.positions * tower.hidden + tower.extra
    before = sum(_part(one.parameters, split) for one in tower.before)
    return bytes_of(table + places + before, model.other_bits)


def held_by_head(model: Architecture, tower: Tower, split: Split) -> float:
    """Bytes of norms and products behind the layers that one rank holds, but for a tied table."""
    columns = 0 if tower.is_tied else math.ceil(tower.outputs / split.tensor)
    behind = sum(_part(one.parameters, split) for one in tower.behind)
    return bytes_of(columns * tower.width + behind + tower.final, model.other_bits)


def held_by_layer(model: Architecture, tower: Tower, layer: Layer, split: Split) -> float:
    """Bytes of one layer's parameters that one rank holds; of a shared one, its share of times."""
    hidden = tower.hidden
    small = float(layer.norms + layer.extra)
    attention = sum(_of_attention(one, hidden, split.tensor) for one in layer.attentions)
    if isinstance(layer.mlp, Experts):
        mlp = layer.mlp
        small += hidden * mlp.count + mlp.router_biases + mlp.shared_gate
        held = math.ceil(mlp.count / split.expert) * _of_mlp(mlp.expert, hidden, split.tensor)
        held += _of_mlp(mlp.shared, hidden, split.tensor) if mlp.shared else 0.0
    else:
        held = _of_mlp(layer.mlp, hidden, split.tensor)
    nbytes = bytes_of(attention, model.weight_bits) + bytes_of(small, model.other_bits)
    nbytes += bytes_of(held, model.bits_of_mlp)
    return nbytes * layer.copies / layer.times


def cache_bytes(model: Architecture, tokens: int, split: Split = WHOLE, source: int = 0) -> float:
    """Bytes of keys and values of one sequence of `tokens` that one rank keeps.

    A window keeps no more tokens than it sees; cross attention keeps those of `source` tokens.
    """
    layers = model.decoder.layers
    elements = sum(
        layer.times * _kept(one, split.tensor) * _tokens(one, tokens, source)
        for layer in layers
        for one in layer.attentions
    )
    return bytes_of(elements, model.kv_bits) / split.context


def _kept(attention: Attention | LatentAttention, tensor: int) -> int:
    """Elements of a token's keys and values on one of the tensor ranks."""
    if isinstance(attention, LatentAttention):
        return attention.cached  # one for all heads, so every rank has it
    return math.ceil(attention.kv_heads / tensor) * (attention.head_dim + attention.value_dim)


def _tokens(attention: Attention | LatentAttention, tokens: int, source: int) -> int:
    if attention.is_cross:
        return source or tokens
    if not attention.is_causal:
        return 0
    return min(tokens, attention.window) if attention.window else tokens


def _of_attention(attention: Attention | LatentAttention, hidden: int, tensor: int) -> float:
    """Parameters of an attention that one of `tensor` ranks holds, with unused heads."""
    heads = math.ceil(attention.heads / tensor)
    if isinstance(attention, LatentAttention):
        per_head = (attention.parameters(hidden) - attention.fixed(hidden)) / attention.heads
        return attention.fixed(hidden) + heads * per_head
    held = heads + math.ceil(attention.kv_heads / tensor)
    per_head = attention.head_dim + attention.value_dim
    return hidden * per_head * held + attention.biases / tensor + attention.norms


def _of_mlp(mlp: Mlp, hidden: int, tensor: int) -> float:
    columns = math.ceil(mlp.intermediate / tensor)
    return mlp.matrices * hidden * columns + mlp.biases / tensor


def _part(parameters: int, split: Split) -> float:
    return parameters / split.tensor
