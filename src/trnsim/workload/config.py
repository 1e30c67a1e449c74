"""A Hugging Face ``config.json`` as an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

from trnsim.errors import BadInput, NotModelled
from trnsim.reader import load
from trnsim.workload.architecture import Architecture, Tower
from trnsim.workload.families import (
    decoders,
    encoders,
    images,
    images_and_texts,
    texts_to_texts,
)
from trnsim.workload.families.dialects import DEFAULTS
from trnsim.workload.families.gaps import GAPS
from trnsim.workload.families.keys import ConfigGap, ConfigKeys
from trnsim.workload.model_names import model_name
from trnsim.workload.quantization import bits_of, with_listed_bits

_FIX: Final = "give a model's name, e.g. llama-3.1-8b, or the path of a Hugging Face config.json"

FAMILIES: Final[dict[str, Callable[[ConfigKeys, str], tuple[Tower, ...]]]] = {
    **dict.fromkeys(decoders.NAMES, decoders.towers),
    **dict.fromkeys(encoders.NAMES, encoders.towers),
    **dict.fromkeys(texts_to_texts.NAMES, texts_to_texts.towers),
    **dict.fromkeys(images.NAMES, images.towers),
    **dict.fromkeys(images_and_texts.NAMES, images_and_texts.towers),
}
"""Functions that read the towers, by ``model_type``."""
_POSITIONS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "max_sequence_length",
    "max_target_positions",
    "n_ctx",
)
"""Keys of the longest sequence; the first that a file has counts."""
_STRETCH_FACTOR_END: Final = 1e6
"""The smallest factor of stretched positions that is refused."""
_STRETCHES: Final = ("default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
"""Kinds of rotary positions: "default", and those of transformers' ROPE_INIT_FUNCTIONS."""
_OLD_STRETCHES: Final = ("su", "mrope")
"""Older names of such kinds (configuration_phi3.py, configuration_qwen2_vl.py)."""


def read(path: str | Path) -> Architecture:
    """The architecture that the ``config.json`` at `path` describes.

    Raises:
        BadInput: the file is missing, is no JSON object, or has illegal values.
        NotModelled: an architecture whose sizes are not known.
    """
    return from_config(read_values(path), str(path))


def read_values(path: str | Path) -> Mapping[str, Any]:
    """The JSON object in the file at `path`.

    Raises:
        BadInput: it is missing, or is no JSON object.
    """
    # transformers writes an unlimited time step of a state-space model as Infinity.
    document = load(path, _FIX, has_infinity=True)
    config = document.parsed.content
    if not isinstance(config, dict):
        kind = "a list" if isinstance(config, list) else "a single value"
        raise document.refused(1, f"a config.json holds an object, not {kind}")
    return cast("dict[str, Any]", config)


def from_config(config: Mapping[str, Any], file: str) -> Architecture:
    """The architecture that `config` describes; `file` names it in errors.

    Raises:
        BadInput: a key is missing or has an illegal value.
        NotModelled: an architecture whose sizes are not known.
    """
    keys = ConfigKeys(config, file)
    model_type = keys.text("model_type")
    if not model_type:
        line = keys.line("model_type")
        message = f"{line or file}: no model_type, so it is no model's configuration"
        raise BadInput(message, fix=_FIX, line=line)
    # Of a model_type that it knows, transformers runs its own class, and code beside the weights
    # only where trust_remote_code asks for it (dynamic_module_utils.resolve_trust_remote_code).
    family = FAMILIES.get(model_type)
    if family is None and config.get("auto_map") and model_type not in GAPS:
        raise _own_code(keys)
    if family is None:
        raise _not_modelled(keys, model_type)
    towers = family(keys, model_type)
    bits, towers = bits_of(keys), with_listed_bits(keys, model_type, towers)
    positions, name = longest_sequence(keys, model_type)
    return Architecture(
        model_name(file), model_type, towers, positions, **vars(bits), positions_key=name
    )


def _not_modelled(keys: ConfigKeys, model_type: str) -> NotModelled:
    """The error for an architecture without a formula."""
    line, gap = keys.line("model_type"), GAPS.get(model_type)
    reason = f": {gap.reason}" if gap else ""
    legal = ", ".join(sorted(FAMILIES))
    message = (
        f"{line or keys.file}: model_type {model_type!r} is not modelled{reason}; legal: {legal}"
    )
    similar_types = [] if gap else get_close_matches(model_type, FAMILIES, 2)
    suggestion = f"perhaps {' or '.join(map(repr, similar_types))}" if similar_types else ""
    fix = _texts_fix(keys) or (gap.fix if gap else suggestion)
    default_fix = "write the model_type, of these, whose layers the model has"
    return NotModelled(message, fix=fix or default_fix, line=line)


def _texts_fix(keys: ConfigKeys) -> str:
    """Advice to describe the text model of a multimodal one alone; "" if that is unknown too."""
    texts = keys.config.get("text_config")
    kind = texts.get("model_type") if isinstance(texts, Mapping) else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        return ""
    return (
        f"its texts are known ({kind}): write its text_config as a config.json of its own; "
        "weights and time of what reads images or sounds are then not counted"
    )


def longest_sequence(keys: ConfigKeys, model_type: str) -> tuple[int, str]:
    """The longest sequence of the training, stretched if the file says so, and its key.

    The length is 0 where no key states it, and for T5, whose positions are relative.
    """
    prefix = ""
    keys = ConfigKeys({**DEFAULTS.get(model_type, {}), **keys.config}, keys.file, keys.inside)
    if model_type in (*images.PAIRS, *images.TEXTS):
        prefix = "text_config." if model_type in images.PAIRS else ""
        keys = images.texts_of(keys, model_type)
    if model_type in images_and_texts.NAMES:
        keys = images_and_texts.texts_of(keys, model_type)
        prefix = keys.inside
    name = keys.first(_POSITIONS)
    if name is None or model_type in texts_to_texts.T5_NAMES:  # which has relative positions alone
        return 0, _POSITIONS[0]
    reserved = encoders.RESERVED.get(model_type, 0)
    positions = max(0, keys.whole(name, minimum=0) - reserved)
    return max(positions, stretched_length(keys)), prefix + name


def stretched_length(keys: ConfigKeys) -> int:
    """The length to which YaRN and the like stretch rotary positions; 0 without stretching.

    Source: transformers 5.23, modeling_rope_utils.py: ``factor`` of the original length.
    """
    _check_theta(keys)
    name = keys.first(("rope_scaling", "rope_parameters"))
    if name is None:
        return 0
    scaling = keys.nested(name)
    _check_theta(scaling)
    kinds = [scaling.text(key) for key in ("rope_type", "type")]
    for key, kind in zip(("rope_type", "type"), kinds, strict=True):
        if kind and kind not in (*_STRETCHES, *_OLD_STRETCHES):
            raise scaling.unknown(key, kind, ", ".join(_STRETCHES), "others are not known")
    factor = scaling.config.get("factor")
    if factor is None:
        return 0
    if (
        isinstance(factor, bool)
        or not isinstance(factor, int | float)
        or not 0 < factor < _STRETCH_FACTOR_END
    ):
        legal = f"a number above 0 and below {_STRETCH_FACTOR_END:,.0f}"
        raise scaling.refuse("factor", factor, legal, "it stretches positions")
    if "llama3" in kinds:
        return 0  # whose max_position_embeddings is the stretched length (Llama 3.2: 131,072)
    original = scaling.whole("original_max_position_embeddings", default=0, minimum=0)
    return int(original * factor)


def _check_theta(keys: ConfigKeys) -> None:
    """Check the base of rotary frequencies, which transformers computes and no graph holds.

    Raises:
        BadInput: it is no number.
    """
    theta = keys.config.get("rope_theta")
    if theta is not None and (isinstance(theta, bool) or not isinstance(theta, int | float)):
        raise keys.refuse("rope_theta", theta, "a number", "frequencies are its powers")


def _own_code(keys: ConfigKeys) -> ConfigGap:
    """The error for a model whose code lies beside its weights."""
    return keys.unknown(
        "auto_map",
        keys.config["auto_map"],
        "no such key",
        "it names code beside the weights, which is not run; take the key out if the model is "
        "that of transformers, else export it and ask trnsim compile model.pt2",
    )
