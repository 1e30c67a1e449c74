"""Models without a formula: transformers or diffusers builds them without values, for their graphs.

`workload` gives an `Architecture` where sizes are known, else a `CapturedModel`;
`summaries_of` gives the parts of either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from trnsim.errors import BadInput, NotModelled
from trnsim.workload import passes
from trnsim.workload.architecture import Architecture, check_length
from trnsim.workload.config import FAMILIES, from_config, longest_sequence, read_values
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.kinds import ModelKind
from trnsim.workload.model_names import model_name
from trnsim.workload.operators import WHOLE, Pass, Phase, Split
from trnsim.workload.quantization import dtype_of
from trnsim.workload.summary import PartSummary, captured_summaries

_CLASS_KEY: Final = "_class_name"
"""The key by which diffusers' configurations name a class."""
_INSTALL_COMMAND: Final = "pip install 'trnsim[torch,models]'"
_MOST_CACHED_MODELS: Final = 64
"""Maximum number of models, each with its pass and split, whose parts are kept."""


@dataclass(frozen=True)
class CapturedModel:
    """A model whose parts come from its graph.

    Attributes:
        model_type: its architecture, or its class in diffusers.
        text: its configuration as JSON.
        file: the file that errors name.
    """

    name: str
    model_type: str
    text: str
    file: str

    @property
    def values(self) -> Mapping[str, Any]:
        """The configuration as a mapping."""
        config: dict[str, Any] = json.loads(self.text)
        return config

    @property
    def kind(self) -> ModelKind:
        """Its kind."""
        return ModelKind.DIFFUSION if self.is_of_diffusers else ModelKind.NETWORK

    @property
    def is_of_diffusers(self) -> bool:
        """True if diffusers builds it."""
        return _CLASS_KEY in self.values

    @property
    def max_positions(self) -> int:
        """The longest sequence; 0 if no limit is stated."""
        return longest_sequence(ConfigKeys(self.values, self.file), self.model_type)[0]

    @property
    def length_limit(self) -> int:
        """`max_positions`, as it is not known whether positions are learned."""
        return self.max_positions

    def check_length(self, tokens: int) -> None:
        """Refuse a sequence longer than `length_limit`.

        Raises:
            BadInput: `tokens` exceed it.
        """
        limit, key = longest_sequence(ConfigKeys(self.values, self.file), self.model_type)
        check_length(self.name, tokens, limit, key)

    @property
    def dtype(self) -> str:
        """Element type in which it is built."""
        return dtype_of(ConfigKeys(self.values, self.file))

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, counted on the built model.

        Raises:
            BadInput: a package that it needs is not installed, or cannot build it.
        """
        return _parameters(self)

    def summaries(self, model_pass: Pass, split: Split = WHOLE) -> tuple[PartSummary, ...]:
        """The parts of one forward pass, as one rank has them.

        Raises:
            BadInput: a package that it needs is not installed, or cannot build it at these sizes.
            NotModelled: for ranks that divide experts or a sequence among them.
        """
        for axis in ("expert", "context"):
            if getattr(split, axis) > 1:
                raise NotModelled(
                    f"{axis} ranks of {self.model_type}, whose graph is captured; legal: 1"
                )
        return _blocks(self, model_pass, split)


Workload = Architecture | CapturedModel


def workload(path: str | Path) -> Workload:
    """The model that a ``config.json`` describes.

    Raises:
        BadInput: the file is missing, is no JSON object, or has illegal values; or a package that
            the model needs is not installed.
    """
    return workload_of(read_values(path), str(path))


def workload_of(config: Mapping[str, Any], file: str) -> Workload:
    """The model that `config` describes; `file` names it in errors.

    Raises:
        BadInput: as `workload`.
    """
    if _CLASS_KEY in config:
        name = ConfigKeys(config, file).text(_CLASS_KEY)
        return CapturedModel(model_name(file), name, json.dumps(dict(config)), file)
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type in ("", *FAMILIES) or config.get("auto_map"):
        return from_config(config, file)  # which refuses a missing model_type
    return CapturedModel(model_name(file), model_type, json.dumps(dict(config)), file)


def summaries_of(
    model: Workload, model_pass: Pass, split: Split = WHOLE
) -> tuple[PartSummary, ...]:
    """The parts of one forward pass of either kind of model on one rank.

    Raises:
        BadInput: as `CapturedModel.summaries`.
        NotModelled: likewise.
    """
    if isinstance(model, CapturedModel):
        return model.summaries(model_pass, split)
    return passes.summaries(model, model_pass, split)


def _models(model: CapturedModel) -> Any:
    """The package `trnsim.torch.models`, imported late: it takes seconds.

    Raises:
        BadInput: a package is not installed.
    """
    builder = "diffusers" if model.is_of_diffusers else "transformers"
    missing = [name for name in ("torch", builder) if find_spec(name) is None]
    if missing:
        raise BadInput(
            f"{model.file}: no formula is known for {model.model_type!r}, so its model is built "
            f"and read, which needs {' and '.join(missing)}; formulas: "
            + ", ".join(sorted(FAMILIES)),
            fix=_INSTALL_COMMAND + (" diffusers" if "diffusers" in missing else ""),
        )
    return import_module("trnsim.torch.models")


@lru_cache(_MOST_CACHED_MODELS)
def _blocks(model: CapturedModel, model_pass: Pass, split: Split) -> tuple[PartSummary, ...]:
    capture = _graph(model, model_pass, split)
    return captured_summaries(
        capture.graph,
        capture.weights,
        is_generating=model_pass.phase in (Phase.PREFILL, Phase.DECODE)
        and not model.is_of_diffusers,
    )


def _graph(model: CapturedModel, model_pass: Pass, split: Split) -> Any:
    models = _models(model)
    if model.is_of_diffusers:
        diffusion = import_module("trnsim.torch.models.diffusion")
        sizes = model_pass.batch, model_pass.image, model_pass.source
        return diffusion.diffusion_graph(model.values, *sizes, dtype=model.dtype)
    if model_pass.phase is Phase.PREFILL and model_pass.past:
        raise NotModelled(
            f"a prompt of {model.model_type} behind {model_pass.past} tokens; legal: whole prompts"
        )
    # A forward pass of training is one of all tokens at once, without a cache.
    phase = "encode" if model_pass.phase is Phase.TRAIN else str(model_pass.phase)
    sizes = (model_pass.batch, model_pass.tokens, model_pass.past if phase == "decode" else 0)
    shape = models.ModelShape(phase, *sizes, ranks=split.tensor, is_padded=True)
    return models.model_graph(_config(model, model_pass.image), shape, dtype=model.dtype)


def _config(model: CapturedModel, image: int = 0) -> Any:
    """The configuration, as transformers reads it, for images of `image` pixels a side."""
    config_of = import_module("trnsim.torch.models.config").config_of
    return config_of({**model.values, **({"image_size": image} if image else {})}, model.file)


@lru_cache(_MOST_CACHED_MODELS)
def _parameters(model: CapturedModel) -> int:
    models = _models(model)
    if model.is_of_diffusers:
        built_model = import_module("trnsim.torch.models.diffusion").build_diffusion_model(
            model.values, model.dtype
        )
    else:
        build = import_module("trnsim.torch.models.model_graph").build_model
        built_model = build(_config(model), models.ModelShape("encode"), model.dtype)
    return sum(int(parameter.numel()) for parameter in built_model.parameters())
