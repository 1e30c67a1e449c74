"""A Hugging Face ``config.json`` as an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trnsim import files
from trnsim.errors import BadInput, NotModelled
from trnsim.system.workload.architecture import Architecture, Tower
from trnsim.system.workload.families import decoders
from trnsim.system.workload.keys import Keys

_FIX: Final = "give the path of a Hugging Face config.json, e.g. examples/llama-3.1-8b.json"

FAMILIES: Final[dict[str, Callable[[Keys, str], tuple[Tower, ...]]]] = {
    **dict.fromkeys(decoders.NAMES, decoders.towers),
}
"""By ``model_type``, what reads the towers."""


def read(path: str | Path) -> Architecture:
    """The architecture that the ``config.json`` at `path` describes.

    Raises:
        BadInput: the file is missing, is no JSON object, or holds what cannot be.
        NotModelled: an architecture whose sizes are not known.
    """
    config = files.read_json(path, fix=_FIX)
    if not isinstance(config, dict):
        raise BadInput(
            f"{path}: a config.json holds an object, not a {type(config).__name__}", fix=_FIX
        )
    return from_config(config, str(path))


def from_config(config: Mapping[str, Any], file: str) -> Architecture:
    """The architecture that `config` describes; `file` names it in errors.

    Raises:
        BadInput: a key is missing, or holds what cannot be.
        NotModelled: an architecture whose sizes are not known.
    """
    keys = Keys(config, file)
    model_type = keys.text("model_type")
    if not model_type:
        raise BadInput(f"{file} names no model_type, so it is no model's configuration", fix=_FIX)
    family = FAMILIES.get(model_type)
    if family is None:
        legal = ", ".join(sorted(FAMILIES))
        raise NotModelled(f"{file}: model_type {model_type!r} is not modelled; legal: {legal}")
    return Architecture(
        Path(file).stem,
        model_type,
        family(keys, model_type),
        keys.whole("max_position_embeddings", default=0, least=0),
    )
