"""Encoder-decoder models: T5, BART, Whisper and similar architectures.

Source: configuration_*.py and modeling_*.py of transformers 5.23; each family's parameter counts
are compared with those of its model in transformers (tests/clients/test_workload_counts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.workload.architecture import Attention, Layer, Projection, Tower
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import (
    MOST_HEADS,
    MOST_LAYERS,
    Spelling,
    check_head,
    classes_of,
    has_scores,
    heads_of,
    mlp_of,
    named_class,
)

_T5: Final = Spelling(("d_model",), ("num_layers",), ("num_heads",), intermediate=("d_ff",))
_T5_DECODER: Final = replace(_T5, layers=("num_decoder_layers", "num_layers"))
_DEFAULT_BUCKETS: Final = 32
_DEFAULT_HEAD_WIDTH: Final = 64
_TAPS: Final = 3
"""Taps of a convolution over sound."""


def _side_spelling(name: str) -> Spelling:
    return Spelling(
        ("d_model",),
        (f"{name}_layers",),
        (f"{name}_attention_heads",),
        intermediate=(f"{name}_ffn_dim",),
    )


_NAMES_OF_SIDES: Final = {name: _side_spelling(name) for name in ("encoder", "decoder")}


@dataclass(frozen=True)
class BartFamily:
    """A family like BART.

    Attributes:
        places: rows of the table of learned positions beyond the longest sequence; None for no
            table.
        has_table_norm: whether a norm follows the embedding table.
        has_last_norm: whether a norm follows the layers.
        is_sound: whether the encoder reads sound, and attention's projection to keys has no bias.
    """

    places: int | None = 2
    has_table_norm: bool = False
    has_last_norm: bool = True
    is_sound: bool = False


BART_ROWS: Final[dict[str, BartFamily]] = {
    "bart": BartFamily(has_table_norm=True, has_last_norm=False),
    "mbart": BartFamily(has_table_norm=True),
    "pegasus": BartFamily(places=0),
    "blenderbot": BartFamily(places=0),
    "marian": BartFamily(places=0, has_last_norm=False),
    "m2m_100": BartFamily(places=None),
    "whisper": BartFamily(places=0, is_sound=True),
}
T5_NAMES: Final = ("t5", "mt5", "umt5")
NAMES: Final = (*T5_NAMES, *BART_ROWS)


def towers(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """The encoder and the decoder.

    Raises:
        BadInput: for sizes that do not go together.
    """
    check_head(keys, "ForCausalLM", "ForAudioClassification")
    if model_type in T5_NAMES:
        return _of_t5(keys, model_type)
    row = BART_ROWS[model_type]
    return _of_bart(keys, row, "encoder"), _of_bart(keys, row, "decoder")


def _of_t5(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """T5 and models with its table of relative position biases, one per stack or one per layer."""
    has_table_each = model_type == "umt5"
    usual_mlp = "relu" if model_type == "t5" else "gated-gelu"
    hidden, words = keys.whole("d_model"), keys.whole("vocab_size")
    table = keys.whole("relative_attention_num_buckets", default=_DEFAULT_BUCKETS) * keys.whole(
        "num_heads"
    )

    # crossed: 1 for the decoder, whose layers attend to the encoder too; else 0.
    def layers(names: Spelling, cross_count: int) -> tuple[Layer, ...]:
        heads = keys.whole(*names.heads, maximum=MOST_HEADS)
        dim = keys.whole("d_kv", default=_DEFAULT_HEAD_WIDTH)
        self_attention = Attention(heads, heads, dim, dim, is_causal=bool(cross_count))
        cross_attention = replace(self_attention, is_causal=False, is_cross=True)
        is_gated = keys.text("feed_forward_proj", usual_mlp).startswith("gated")
        mlp = mlp_of(hidden, keys.whole(*names.intermediate), is_gated=is_gated)
        own_table = table if has_table_each else 0
        attentions = (self_attention,) + (cross_attention,) * cross_count
        return (
            Layer(
                keys.whole(*names.layers, maximum=MOST_LAYERS),
                attentions,
                mlp,
                (2 + cross_count) * hidden,
                own_table,
            ),
        )

    shared_table = 0 if has_table_each else table
    encoder = Tower(
        "encoder",
        hidden,
        layers(_T5, 0),
        table_rows=words,
        embedding_parameters=shared_table,
        head_parameters=hidden,
    )
    name = named_class(keys)
    if name.endswith(("EncoderModel", "TokenClassification")):
        return (replace(encoder, output_projections=_classifier(keys, hidden)),)
    decoder = Tower(
        "decoder",
        hidden,
        layers(_T5_DECODER, 1),
        table_rows=words,
        embedding_parameters=shared_table,
        output_projections=_classifier(keys, hidden),
        head_parameters=hidden,
        outputs=words if has_scores(keys) else 0,
        is_tied=keys.flag("tie_word_embeddings", default=True),
        is_table_shared=True,
    )
    return encoder, decoder


def _of_bart(keys: ConfigKeys, row: BartFamily, side: str) -> Tower:
    """One side of BART or of a model like it."""
    names, is_decoder = _NAMES_OF_SIDES[side], side == "decoder"
    hidden, words = keys.whole(*names.hidden), keys.whole("vocab_size")
    norm, places = 2 * hidden, _places(keys, row, side)
    tower = Tower(
        side,
        hidden,
        (_bart_layer(keys, row, names, hidden, is_decoder=is_decoder),),
        table_rows=words,
        positions=places,
        has_position_table=places > 0,
        embedding_parameters=norm if row.has_table_norm else 0,
        head_parameters=norm if row.has_last_norm else 0,
    )
    if is_decoder:
        outputs = words if has_scores(keys) else 0
        is_tied = outputs > 0 and keys.flag("tie_word_embeddings", default=True)
        return replace(
            tower,
            output_projections=_classifier(keys, hidden),
            outputs=outputs,
            is_tied=is_tied,
            is_table_shared=not row.is_sound,
        )
    return _sound_encoder(keys, tower) if row.is_sound else tower


def _classifier(keys: ConfigKeys, hidden: int) -> tuple[Projection, ...]:
    """The products of a classifier behind the layers; none for other heads."""
    classes = classes_of(keys, hidden)
    if classes is None:
        return ()
    if not named_class(keys).endswith("SequenceClassification"):
        return (classes,)
    dense = Projection("dense", hidden, hidden, hidden, is_each_token=False)
    return dense, replace(classes, is_each_token=False)


def _places(keys: ConfigKeys, row: BartFamily, side: str) -> int:
    if row.places is None:
        return 0
    sound_key = "max_source_positions" if side == "encoder" else "max_target_positions"
    return keys.whole(sound_key if row.is_sound else "max_position_embeddings") + row.places


def _bart_layer(
    keys: ConfigKeys, row: BartFamily, names: Spelling, hidden: int, *, is_decoder: bool
) -> Layer:
    heads, dim = heads_of(keys, names, hidden)
    biases = (3 if row.is_sound else 4) * hidden
    self_attention = Attention(heads, heads, dim, dim, is_causal=is_decoder, biases=biases)
    cross_attention = replace(self_attention, is_causal=False, is_cross=True)
    size = keys.whole(*names.intermediate)
    return Layer(
        keys.whole(*names.layers, maximum=MOST_LAYERS),
        (self_attention, cross_attention) if is_decoder else (self_attention,),
        mlp_of(hidden, size, is_gated=False, has_biases=True),
        2 * (2 + is_decoder) * hidden,
    )


def _sound_encoder(keys: ConfigKeys, tower: Tower) -> Tower:
    """Whisper's encoder: two convolutions before the layers; the second halves the length."""
    hidden, bins = tower.hidden, keys.whole("num_mel_bins", default=80)
    first = Projection("first convolution", _TAPS * bins, hidden, hidden, rows=2)
    second = Projection("second convolution", _TAPS * hidden, hidden, hidden)
    tokens = keys.whole("max_source_positions")
    return replace(tower, table_rows=0, input_projections=(first, second), tokens=tokens)
