"""A tiny, randomly initialised model of any architecture of transformers, and inputs for it.

Sizes and inputs come from rules over names, not from a list of models. Where the rules make a
model that PyTorch's CPU cannot run, milder rules are tried, then the architecture's plainer class.
"""

import copy
import inspect
import re
from dataclasses import dataclass

import torch
from inputs import candidates, repaired
from sizes import RUNGS, completed, has_timm, parts_of, tiny_config
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

MOST_PARAMETERS = 50_000_000
MOST_REPAIRS = 3

# The class that a user would take first stands first.
CLASSES = (
    "CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "SPEECH_SEQ_2_SEQ",
    "CTC",
    "IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "TIME_SERIES_PREDICTION",
    "ZERO_SHOT_IMAGE_CLASSIFICATION",
)


class CannotBuild(Exception):
    """No rule makes a model of this architecture that runs on the CPU."""


@dataclass(frozen=True)
class Built:
    """A tiny model, with inputs that it takes."""

    model: torch.nn.Module
    inputs: dict

    def forward(self, device):
        """Every floating-point output by its place, on `device`."""
        torch.manual_seed(3)
        inputs = {name: value.to(device) for name, value in self.inputs.items()}
        return dict(tensors("", self.model(**inputs)))


def tensors(path, value):
    """The floating-point tensors in a result of a model, with their places."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from tensors(f"{path}.{name}", part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from tensors(f"{path}.{place}", part)


def classes_of(kind):
    """The model classes of an architecture, the one to be tried first in front."""
    tables = [getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES") for name in CLASSES]
    others = [
        table
        for name, table in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_FOR_.*_MAPPING_NAMES", name) and table not in tables
    ]
    found = {}
    for table in [*tables, modeling_auto.MODEL_MAPPING_NAMES, *others]:
        names = table.get(kind, ())
        found.update(dict.fromkeys([names] if isinstance(names, str) else names))
    return list(found)


def build(kind):
    """The first model of architecture `kind` that its rules make and the CPU runs.

    Raises:
        CannotBuild: with what the CPU said to the last attempt with the first class.
    """
    said = None
    names = classes_of(kind)
    if not names:
        raise CannotBuild("no model class of its own: a part of other models")
    for name in names[:3]:
        for rung in RUNGS:
            try:
                return name, _built(kind, name, rung)
            except Exception as error:  # noqa: BLE001  any error means: try what comes next
                said = said or error
    if has_timm(CONFIG_MAPPING[kind]()):
        raise CannotBuild("a part of it is a model of the package timm, which is not installed")
    raise CannotBuild(f"{type(said).__name__}: {said}")


def _built(kind, name, rung):
    import transformers

    model_class = getattr(transformers, name)
    if "input" in inspect.signature(model_class.forward).parameters:
        raise CannotBuild("it has no forward pass of its own: it only generates")
    config = _part_for(model_class, tiny_config(kind, rung))
    try:
        model = _made(model_class, config)
    except (AttributeError, KeyError) as error:
        if not (rung.is_filled and completed(config, str(error))):
            raise
        model = _made(model_class, config)
    said = None
    for inputs in candidates(model, config):
        try:
            return _repaired(model, config, inputs)
        except Exception as error:  # noqa: BLE001  other inputs may be what it takes
            said = said or error
    raise said or CannotBuild("no inputs are known for it")


def _part_for(model_class, config):
    """The part of the configuration that the class takes, where it is a part of the model."""
    wanted = model_class.config_class
    if wanted is None or isinstance(config, wanted):
        return config
    return next((part for part in parts_of(config) if isinstance(part, wanted)), config)


def _made(model_class, config):
    """A model with random weights, if it is small enough."""
    try:
        with torch.device("meta"):
            number = sum(parameter.numel() for parameter in model_class(config).parameters())
    except (RuntimeError, TypeError, NotImplementedError):  # it reads values while it is made
        number = 0
    if number > MOST_PARAMETERS:
        raise CannotBuild(f"{number / 1e6:.0f} million parameters are left")
    torch.manual_seed(0)
    return model_class(config).eval().float()


def _repaired(model, config, inputs):
    """The model with inputs that the CPU takes, after what it says about them."""
    for _ in range(MOST_REPAIRS):
        try:
            return _checked(model, inputs)
        except Exception as error:
            better = repaired(config, inputs, str(error))
            if better is None:
                raise
            inputs = better
    return _checked(model, inputs)


def _checked(model, inputs):
    """The model with inputs that the CPU takes."""
    # Some models keep what a forward pass computed, on the device where it ran.
    with torch.no_grad():
        if not Built(copy.deepcopy(model), inputs).forward("cpu"):
            raise CannotBuild("no output is a floating-point tensor")
    return Built(model, inputs)
