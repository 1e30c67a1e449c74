"""Kinds of a decoder's layers: those with a window, and those with experts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, TypeVar

from trnsim.workload.families.decoder_rows import AFTER_FIRST, ALL_LAYERS, NO_WINDOW, Decoder
from trnsim.workload.families.keys import ConfigKeys

FULL: Final = "full_attention"
SHORT: Final = ("sliding_attention", "chunked_attention", "local_attention")
"""Kinds of attention to a limited range of tokens."""
_SPARSE_KIND: Final = "sparse"
"""The kind of an MLP with experts."""
_MLP_KINDS: Final = (_SPARSE_KIND, "dense")

Kind = TypeVar("Kind")


def windows(keys: ConfigKeys, row: Decoder, layers: int) -> list[int]:
    """The window of each layer; 0 for none.

    A chunk, whose tokens attend to no other chunk, counts as a window of its length: the most that
    a query attends to.

    Raises:
        BadInput: for a list of kinds of another length, or with a kind that is not known.
    """
    window = keys.whole(*row.window_names, default=0, minimum=0)
    kinds = keys.items("layer_types", str, f"{layers} of {FULL}, {', '.join(SHORT[:2])}")
    if kinds:
        return [window if is_short else 0 for is_short in _short_flags(keys, kinds, layers)]
    is_used = keys.flag("use_sliding_window", default=True)
    if not window or row.window == NO_WINDOW or not is_used:
        return [0] * layers
    # With a window after the first layers it begins there; a pattern of windows ends there.
    window_border = keys.whole("max_window_layers", default=layers, minimum=0)
    if row.window == AFTER_FIRST:
        return [window if place >= window_border else 0 for place in range(layers)]
    names = ("sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval")
    # A pattern may be a text (EXAONE 4: "LLLG"): then the family's period, the default, holds.
    is_text = isinstance(keys.config.get(names[0]), str)
    every = keys.whole(*names[is_text:], default=row.window)
    if row.window == ALL_LAYERS:
        return [window] * layers
    return [
        window if (place + 1) % every and place < window_border else 0 for place in range(layers)
    ]


def _short_flags(keys: ConfigKeys, kinds: list[str], layers: int) -> list[bool]:
    """For each layer, True if its attention is limited to a range of tokens."""
    check_kinds(keys, "layer_types", kinds, (FULL, *SHORT), layers)
    return [kind != FULL for kind in kinds]


def check_kinds(
    keys: ConfigKeys, name: str, kinds: list[str], legal: tuple[str, ...], layers: int
) -> None:
    """Check that the list of key `name` has a legal kind for each layer.

    Raises:
        BadInput: for a list of another length, or with a kind that is not known.
    """
    for kind in kinds:
        if kind not in legal:
            raise keys.unknown(name, kind, ", ".join(legal), "no other kind is known")
    if len(kinds) != layers:
        raise keys.refuse(
            name, f"a list of {len(kinds)}", f"a list of {layers}", "one for each layer"
        )


def expert_layers(keys: ConfigKeys, layers: int) -> list[bool]:
    """For each layer, True if it has experts.

    Raises:
        BadInput: for a list of kinds of another length, or with a kind that is not known, and for
            the number of a layer that the model does not have.
    """
    places = range(layers)
    dense_layers = _layer_numbers(keys, "mlp_only_layers", layers)
    if keys.config.get("moe_layers") is not None:
        numbers = _layer_numbers(keys, "moe_layers", layers)
        return [place in numbers for place in places]
    kinds = keys.items("mlp_layer_types", str, f"{layers} of {', '.join(_MLP_KINDS)}")
    if kinds:
        check_kinds(keys, "mlp_layer_types", kinds, _MLP_KINDS, layers)
        return [kind == _SPARSE_KIND for kind in kinds]
    first_sparse = keys.whole(
        "first_k_dense_replace", "moe_layer_start_index", default=0, minimum=0
    )
    last_sparse = keys.whole("moe_layer_end_index", default=layers - 1, minimum=-1)
    last_sparse = layers - 1 if last_sparse == -1 else last_sparse
    names = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
    step = keys.whole(*names, "moe_layer_freq", default=1)
    # Layers count from 1 for a key of `names`, and from 0 for DeepSeek's `moe_layer_freq`.
    first_number = 0 if keys.first(names) is None else 1
    return [
        first_sparse <= place <= last_sparse
        and (place + first_number) % step == 0
        and place not in dense_layers
        for place in places
    ]


def _layer_numbers(keys: ConfigKeys, name: str, layers: int) -> set[int]:
    """The layers that the list of key `name` numbers, from 0.

    Raises:
        BadInput: for the number of a layer that the model does not have.
    """
    numbers: set[int] = set(keys.items(name, int, "numbers of layers"))
    for number in sorted(numbers):
        if not 0 <= number < layers:
            raise keys.refuse(
                name, number, f"a list of 0 to {layers - 1}", f"the model has {layers} layers"
            )
    return numbers


def kind_counts(kinds: Iterable[Kind]) -> list[tuple[Kind, int]]:
    """Each kind with its number of layers, in the order of first occurrence."""
    counts: dict[Kind, int] = {}
    for kind, run in groupby(kinds):
        counts[kind] = counts.get(kind, 0) + len(list(run))
    return list(counts.items())
