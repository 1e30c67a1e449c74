"""Tensor ranks that divide the heads of a model's layers into equal parts."""

from __future__ import annotations

from collections.abc import Iterable

from trnsim.workload.architecture import Tower
from trnsim.workload.mixer import Mixer


def divides_heads(towers: Iterable[Tower], ranks: int) -> bool:
    """True if the number of tensor ranks divides the heads, and mixers' groups, of every layer."""
    forms = [form for tower in towers for layer in tower.layers for form in layer.attentions]
    return all(
        form.divides(ranks) if isinstance(form, Mixer) else form.heads % ranks == 0
        for form in forms
    )


def legal_ranks(towers: Iterable[Tower]) -> list[int]:
    """Numbers of tensor ranks, ascending, that `divides_heads` is true of."""
    towers = tuple(towers)
    heads = [form.heads for tower in towers for layer in tower.layers for form in layer.attentions]
    most_ranks = min(filter(None, heads), default=1)
    return [ranks for ranks in range(1, most_ranks + 1) if divides_heads(towers, ranks)]
