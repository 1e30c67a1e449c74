"""Encoders: BERT and similar architectures.

The first of ``architectures`` decides the head, as in transformers: BertForMaskedLM gives logits of
words, BertForSequenceClassification of classes.

Source: configuration_*.py and modeling_*.py of transformers 5.23; parameter counts of each row are
compared with the model that it builds (tests/clients/test_workload_counts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.workload.architecture import Attention, Layer, Norm, Projection, Tower, Wiring
from trnsim.workload.families.keys import ConfigKeys, Rule
from trnsim.workload.families.layer_kinds import FULL, SHORT, check_kinds, kind_counts
from trnsim.workload.families.sizes import (
    ANSWER_COLUMNS,
    MOST_LAYERS,
    PLAIN_NAMES,
    Spelling,
    heads_of,
    kv_heads_of,
    mlp_of,
    named_class,
)
from trnsim.workload.operators import ACTIVATIONS

_DISTIL: Final = Spelling(("dim",), ("n_layers",), ("n_heads",), intermediate=("hidden_dim",))
_DEFAULT_EPSILON: Final = 1e-12
_CHOICES: Final = ("SequenceClassification", "MultipleChoice")
"""Heads that score a whole sequence: as each of some classes, or as the right one of several."""


@dataclass(frozen=True)
class Encoder:
    """A family of encoders.

    Attributes:
        names: keys of its sizes.
        is_gated: whether its MLP has a gate.
        function: default activation of its MLP.
        has_biases: whether all products in the layers have biases; if not, keys decide.
        norm: parameters of a norm for each element.
        places: whether positions are rows of a learned table.
        reserved: positions that no token takes.
        types: default rows of the table of token types.
        width_default: default elements of a row of the tables; 0 for the hidden size.
        is_projected: whether a projection follows the tables in any case; in other families only
            if rows of the tables are narrower than the hidden size.
        is_shared: whether all layers share weights.
        has_buckets: whether it has a table of relative position biases, by distance and head.
        has_pooler: whether the plain model has a pooler of the first token.
        is_pooler_kept: whether classifiers keep the pooler before the classes; else they have a
            dense layer of their own.
        is_local: whether most layers have a window of attention.
        dense_bias: bias of the dense layer before the logits.
        classified: activation of the dense layer before the classes, in transformers' name.
    """

    names: Spelling = PLAIN_NAMES
    is_gated: bool = False
    function: str = "gelu"
    has_biases: bool = True
    norm: int = 2
    places: bool = True
    reserved: int = 0
    types: int = 2
    width_default: int = 0
    is_projected: bool = False
    is_shared: bool = False
    has_buckets: bool = False
    has_pooler: bool = True
    is_pooler_kept: bool = False
    is_local: bool = False
    dense_bias: Rule = True
    classifier_activation: str = "tanh"


ROWS: Final[dict[str, Encoder]] = {
    "bert": Encoder(is_pooler_kept=True),
    "ernie": Encoder(is_pooler_kept=True),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), Encoder(reserved=2)),
    "distilbert": Encoder(names=_DISTIL, types=0, has_pooler=False, classifier_activation="relu"),
    "electra": Encoder(width_default=128, has_pooler=False, classifier_activation="gelu"),
    "albert": Encoder(
        function="gelu_new",
        width_default=128,
        is_projected=True,
        is_shared=True,
        is_pooler_kept=True,
    ),
    "mpnet": Encoder(reserved=2, types=0, has_buckets=True),
    "modernbert": Encoder(
        is_gated=True,
        has_biases=False,
        norm=1,
        places=False,
        types=0,
        has_pooler=False,
        is_local=True,
        dense_bias=("classifier_bias", False),
    ),
}
NAMES: Final = tuple(ROWS)
RESERVED: Final = {name: row.reserved for name, row in ROWS.items()}
"""Positions that no token takes, by ``model_type``."""


def towers(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """The one tower of an encoder.

    Raises:
        BadInput: for sizes that do not go together.
    """
    row = ROWS[model_type]
    hidden = keys.whole(*row.names.hidden)
    width = keys.whole("embedding_size", default=row.width_default or hidden)
    types = keys.whole("type_vocab_size", default=row.types, minimum=0) if row.types else 0
    places = keys.whole(*row.names.positions) if row.places else 0
    is_projected = row.is_projected or width != hidden
    layers, order = _layers(keys, row, hidden)
    head = _head(keys, row, hidden, width)
    return (
        Tower(
            "encoder",
            hidden,
            layers,
            table_rows=keys.whole("vocab_size"),
            table_width=width,
            input_projections=(Projection("project in", width, hidden, hidden),)
            if is_projected
            else (),
            embedding_parameters=(types + places + row.norm) * width + _buckets(keys, row),
            output_projections=head.matrices,
            # No final norm: most families have none. ModernBERT has one, but its first layer has
            # one norm instead of the two that are counted for each layer, so the sum is right.
            head_parameters=head.parameters,
            outputs=head.outputs,
            is_tied=head.outputs > 0 and keys.flag("tie_word_embeddings", default=True),
            has_position_table=row.places,
            order=tuple(order),
            wiring=_wiring(keys, row, head, (types, places)),
        ),
    )


def _wiring(keys: ConfigKeys, row: Encoder, head: _Head, tables: tuple[int, int]) -> Wiring | None:
    """Wiring of the encoder; None if sizes alone are known."""
    is_known = not (row.is_local or row.has_buckets or head.has_two_results) and not keys.flag(
        "is_decoder"
    )
    is_absolute = keys.text("position_embedding_type", "absolute") == "absolute"
    if not (is_known and is_absolute and _function(keys, row) in ACTIVATIONS):
        return None
    return Wiring(
        Norm(row.norm, _epsilon(keys), is_centered=True),
        norm_position="sum",
        has_score_bias=head.outputs > 0,
        has_last_norm=False,
        token_types=tables[0],
        position_rows=tables[1],
        # RoBERTa's first token takes the row after that of padding.
        first_position_row=keys.whole("pad_token_id", default=1, minimum=0) + 1
        if row.reserved
        else 0,
        has_table_norm=True,
        has_mask=True,
    )


def _function(keys: ConfigKeys, row: Encoder) -> str:
    """Activation of an MLP, by transformers' name."""
    return keys.text(keys.first(("hidden_act", "activation")) or "hidden_act", row.function)


def _epsilon(keys: ConfigKeys) -> float:
    """Epsilon of norms.

    Raises:
        BadInput: it is no number.
    """
    epsilon = keys.config.get("layer_norm_eps", _DEFAULT_EPSILON)
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise keys.refuse("layer_norm_eps", epsilon, "a small number", "norms add it")
    return float(epsilon)


def _layers(keys: ConfigKeys, row: Encoder, hidden: int) -> tuple[tuple[Layer, ...], list[int]]:
    """Groups of equal layers, and for each layer the number of its group."""
    heads, dim = heads_of(keys, row.names, hidden)
    kv_heads_of(keys, row.names, heads)
    count = keys.whole(*row.names.layers, maximum=MOST_LAYERS)
    bias = row.has_biases or keys.flag("attention_bias")
    has_mlp_biases = row.has_biases or keys.flag("mlp_bias")
    mlp = mlp_of(
        hidden,
        keys.whole(*row.names.intermediate),
        is_gated=row.is_gated,
        has_biases=has_mlp_biases,
    )
    is_causal = keys.flag("is_decoder")
    output_biases = hidden if bias else 0  # bias of the product behind attention
    attention = Attention(
        heads,
        heads,
        dim,
        dim,
        is_causal=is_causal,
        biases=3 * heads * dim + output_biases if bias else 0,
        output_biases=output_biases,
    )
    layer_windows = _windows(keys, row, count)
    groups = kind_counts(layer_windows)
    layers = tuple(
        Layer(
            times,
            (replace(attention, window=window),),
            replace(mlp, activation=_function(keys, row)),
            2 * row.norm * hidden,
            is_shared=row.is_shared,
        )
        for window, times in groups
    )
    # Window -> number of its group.
    places = {window: number for number, (window, _) in enumerate(groups)}
    return layers, [places[window] for window in layer_windows]


def _windows(keys: ConfigKeys, row: Encoder, layers: int) -> list[int]:
    """Windows of ModernBERT's layers, which reach half their length to each side.

    Raises:
        BadInput: for a list of kinds of another length, or with a kind that is not known.
    """
    if not row.is_local:
        return [0] * layers
    window = keys.whole("local_attention", default=128) // 2 * 2 + 1
    kinds = keys.items("layer_types", str, f"{FULL}, sliding_attention")
    if not kinds:
        every = keys.whole("global_attn_every_n_layers", default=3)
        return [window if place % every else 0 for place in range(layers)]
    check_kinds(keys, "layer_types", kinds, (FULL, *SHORT), layers)
    return [0 if kind == FULL else window for kind in kinds]


def _buckets(keys: ConfigKeys, row: Encoder) -> int:
    """Elements of the table of relative position biases."""
    if not row.has_buckets:
        return 0
    buckets = keys.whole("relative_attention_num_buckets", default=32)
    return buckets * keys.whole(*row.names.heads)


@dataclass(frozen=True)
class _Head:
    """The products after the last layer: the model's head.

    Attributes:
        small: parameters of norms and biases.
        outputs: size of the vocabulary of its logits.
        is_two: whether it has two results: logits of words, and whether the second sentence
            follows the first.
    """

    matrices: tuple[Projection, ...]
    parameters: int = 0
    outputs: int = 0
    has_two_results: bool = False


def _head(keys: ConfigKeys, row: Encoder, hidden: int, width: int) -> _Head:
    """The products that the named class has behind the layers."""
    name = named_class(keys)
    kind = "CausalLM" if name.endswith("LMHeadModel") else name.partition("For")[2]
    has_dense_bias = keys.has_feature(row.dense_bias)
    dense = Projection(
        "dense",
        hidden,
        hidden,
        hidden * has_dense_bias,
        is_each_token=False,
        activation=row.classifier_activation if kind in _CHOICES else "tanh",
    )
    if kind in ("MaskedLM", "CausalLM") or (kind == "PreTraining" and row.is_pooler_kept):
        return _words(keys, row, hidden, width, is_paired=kind == "PreTraining")
    if kind == "NextSentencePrediction":
        return _Head((dense, _classes(hidden, 2, is_each_token=False)))
    labels = 1 if kind == "MultipleChoice" else keys.labels()
    norm = row.norm * hidden if row.is_local else 0
    if kind in _CHOICES:
        return _Head((dense, _classes(hidden, labels, is_each_token=False)), norm)
    if kind in ("TokenClassification", "QuestionAnswering"):
        columns = ANSWER_COLUMNS if kind == "QuestionAnswering" else labels
        dense_products = (
            (Projection("dense", hidden, hidden, hidden * has_dense_bias),) if row.is_local else ()
        )
        return _Head((*dense_products, _classes(hidden, columns, is_each_token=True)), norm)
    if kind == "PreTraining":  # of ELECTRA: whether each token was replaced
        dense_products = (
            Projection("dense", hidden, hidden, hidden, activation=_function(keys, row)),
        )
        return _Head((*dense_products, _classes(hidden, 1, is_each_token=True)))
    return _Head((dense,) if row.has_pooler else ())


def _classes(hidden: int, labels: int, *, is_each_token: bool) -> Projection:
    return Projection("classes", hidden, labels, labels, is_each_token=is_each_token)


def _words(keys: ConfigKeys, row: Encoder, hidden: int, width: int, *, is_paired: bool) -> _Head:
    """A dense product, a norm, and logits of words: products with the rows of the embedding table.

    With `is_paired`, as in BERT's training, also scores that the second sentence follows the first.
    """
    words = keys.whole("vocab_size")
    has_bias = keys.has_feature(row.dense_bias)
    dense = Projection(
        "dense", hidden, width, width * has_bias, activation=_function(keys, row), is_normed=True
    )
    pairs = (
        Projection("pooler", hidden, hidden, hidden, is_each_token=False),
        _classes(hidden, 2, is_each_token=False),
    )
    return _Head((dense, *(pairs if is_paired else ())), row.norm * width + words, words, is_paired)
