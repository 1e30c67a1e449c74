"""One layer of a model on a chip: what a second layer adds to a program of one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trnsim.torch.models.answer import Answer, answer, of_model
from trnsim.torch.models.config import read_config
from trnsim.torch.models.shape import ModelShape


@dataclass(frozen=True, slots=True)
class CompiledLayer:
    """What one more layer takes of a program.

    Attributes:
        shape: the phase and the sizes, ranks included.
        target: the chip, one device of which is a rank.
        time_s: of the program, without what it waits for exchanges.
        exchanges_s: of its exchanges between ranks, as far as nothing hides them.
        mfu: the time of its products at a rank's peak, over `time_s`.
        mbu: the time of its weights, keys and values over a rank's HBM, each once, over `time_s`.
    """

    shape: ModelShape
    target: str
    time_s: float
    exchanges_s: float
    mfu: float
    mbu: float


def compiled_layer(path: Path, shape: ModelShape, target: str) -> CompiledLayer:
    """A layer of the model of a configuration: programs of two layers and of one, compared.

    Raises:
        BadInput: for what is no configuration, or a shape that it does not have.
        OutOfDeviceMemory: for two layers over the HBM of a NeuronCore.
    """
    config = read_config(path)
    one, two = (_of(config, count, path.name, shape, target) for count in (1, 2))
    exchanges_s = two.exposed_s - one.exposed_s
    time_s = two.whole.time_s - one.whole.time_s - exchanges_s
    return CompiledLayer(
        shape,
        target,
        time_s,
        exchanges_s,
        (two.program.bound.products_s - one.program.bound.products_s) / time_s,
        (two.program.bound.hbm_s - one.program.bound.hbm_s) / time_s,
    )


def _of(config: Any, layers: int, name: str, shape: ModelShape, target: str) -> Answer:
    """The model with so many of its layers."""
    short = copy.deepcopy(config)
    short.num_hidden_layers = layers
    if getattr(short, "layer_types", None):
        short.layer_types = short.layer_types[:layers]
    return answer(of_model(short, name, shape), target)
