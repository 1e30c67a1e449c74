"""Sizes common to all families: heads, MLPs, and the names of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.workload.architecture import GATED_MATRICES, PLAIN_MATRICES, Mlp, Projection
from trnsim.workload.families.keys import ConfigKeys

Names = tuple[str, ...]


@dataclass(frozen=True)
class Spelling:
    """The keys of sizes in a family's configuration; errors name the first of each.

    Attributes:
        hidden: elements of a token.
        layers: their number.
        heads: query heads.
        kv_heads: heads of keys and values.
        intermediate: elements between the matrices of an MLP.
        positions: the longest sequence.
    """

    hidden: Names = ("hidden_size",)
    layers: Names = ("num_hidden_layers",)
    heads: Names = ("num_attention_heads",)
    kv_heads: Names = ("num_key_value_heads",)
    intermediate: Names = ("intermediate_size",)
    positions: Names = ("max_position_embeddings",)


PLAIN_NAMES: Final = Spelling()
"""Keys of Llama and most others."""
GPT: Final = Spelling(
    ("n_embd", "hidden_size"),
    ("n_layer", "num_hidden_layers"),
    ("n_head", "num_attention_heads"),
    intermediate=("n_inner", "intermediate_size"),
    positions=("n_positions", "max_position_embeddings", "n_ctx"),
)
"""Keys of GPT-2."""
MOST_LAYERS: Final = 10_000
"""Layers above which a file is refused as mistaken."""
MOST_HEADS: Final = 100_000
"""Query heads above which a file is refused as mistaken."""
MOST_EXPERTS: Final = 100_000
"""Experts of a layer above which a file is refused as mistaken."""
_CLASSIFIERS: Final = ("SequenceClassification", "TokenClassification", "QuestionAnswering")
"""Ends of the names of classes that score classes instead of words."""
ANSWER_COLUMNS: Final = 2
"""Columns of the head that finds the first and last word of an answer."""
_SCORING_ENDS: Final = ("LMHeadModel", "MTModel", "DoubleHeadsModel")


def named_class(keys: ConfigKeys) -> str:
    """The class that the configuration names first; "" if it names none."""
    class_names = keys.items("architectures", str, "names of classes")
    return class_names[0] if class_names else ""


def check_head(keys: ConfigKeys, *unknown: str) -> None:
    """Check that the named class has a head whose sizes are known.

    Raises:
        ConfigGap: its name ends in one of `unknown`.
    """
    name = named_class(keys)
    if name.endswith(unknown):
        legal = f"classes that do not end in {' or '.join(unknown)}"
        raise keys.unknown("architectures", name, legal, "the sizes of this head are not known")


def has_scores(keys: ConfigKeys) -> bool:
    """True if the model has logits; False if the named class is a plain model or a classifier."""
    name = named_class(keys)
    return not name.endswith(("Model", *_CLASSIFIERS)) or name.endswith(_SCORING_ENDS)


def classes_of(keys: ConfigKeys, inputs: int, *, has_bias: bool = True) -> Projection | None:
    """The scores of classes for each token; None if the named class is no classifier."""
    name = named_class(keys)
    if not name.endswith(_CLASSIFIERS):
        return None
    columns = ANSWER_COLUMNS if name.endswith("QuestionAnswering") else keys.labels()
    return Projection("classes", inputs, columns, columns * has_bias)


def heads_of(keys: ConfigKeys, names: Spelling, hidden: int, default: int = 0) -> tuple[int, int]:
    """Query heads, and elements of each.

    `default` is the family's size of a head; 0 for an equal part of the hidden elements.

    Raises:
        BadInput: where heads do not divide the hidden size.
    """
    heads = keys.whole(*names.heads, maximum=MOST_HEADS)
    dim = keys.whole("head_dim", default=default or (0 if hidden % heads else hidden // heads))
    if not dim:
        name = keys.first(names.hidden) or names.hidden[0]
        legal = f"multiples of {heads} heads, or any with head_dim"
        raise keys.refuse(name, hidden, legal, "each head has an equal part")
    return heads, dim


def kv_heads_of(keys: ConfigKeys, names: Spelling, heads: int) -> int:
    """Heads of keys and values; as many as query heads by default.

    Raises:
        BadInput: KV heads do not divide the query heads.
    """
    kv_heads = keys.whole(*names.kv_heads, default=heads)
    if heads % kv_heads:
        name = keys.first(names.kv_heads) or names.kv_heads[0]
        legal = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise keys.refuse(name, kv_heads, legal, f"each serves an equal part of {heads} heads")
    return kv_heads


def mlp_of(hidden: int, intermediate: int, *, is_gated: bool, has_biases: bool = False) -> Mlp:
    """An MLP; in a gated one, gate and up have a bias each."""
    ups = (GATED_MATRICES if is_gated else PLAIN_MATRICES) - 1
    biases = ups * intermediate + hidden if has_biases else 0
    return Mlp(intermediate, ups + 1, biases)
