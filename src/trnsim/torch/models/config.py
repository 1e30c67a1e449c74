"""Configurations of models, read by transformers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.reader import load

_FIX: Final = "give the config.json of a model of transformers, as it lies beside its weights"


def transformers() -> Any:
    """The package transformers, imported late: it takes seconds.

    Raises:
        BadInput: if it is not installed.
    """
    try:
        return import_module("transformers")
    except ImportError as error:
        raise BadInput(
            f"a config.json needs transformers, which builds the model: {error}",
            fix="pip install 'trnsim[models]'",
        ) from error


def read_config(path: Path) -> Any:
    """The configuration in a file.

    Raises:
        BadInput: for a path that is no file, no configuration, or of no known architecture.
    """
    return config_of(load(path, _FIX).parsed.content, str(path))


def config_of(values: Any, origin: str = "the configuration") -> Any:
    """The configuration that a `config.json` holds, `model_type` among its values.

    Raises:
        BadInput: for values that are no configuration, or of no known architecture.
    """
    if not isinstance(values, dict) or "model_type" not in values:
        raise BadInput(f"{origin} names no model_type, so it is no model's configuration", fix=_FIX)
    fields: dict[str, Any] = dict(values)
    package, model_type = transformers(), fields.pop("model_type")
    mapping = package.CONFIG_MAPPING
    if model_type not in mapping:
        raise BadInput(
            f"{origin} is of architecture {model_type!r}, which transformers {package.__version__} "
            f"does not have; it has {len(tuple(mapping))}, for example llama, mistral, bert, vit",
            fix="install the release that has it, or export the model: trnsim compile model.pt2",
        )
    validation_error = import_module("huggingface_hub.errors").StrictDataclassError
    try:
        return mapping[model_type].from_dict(fields)
    except (TypeError, ValueError, AttributeError, validation_error) as error:
        why = " ".join(str(error).split())
        raise BadInput(f"{origin} is no configuration of {model_type}: {why}", fix=_FIX) from error
