"""One layer of a model on a chip: what a second layer adds to a program of one."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trnsim import arch
from trnsim.lower.bound import hbm_rate
from trnsim.profile.measures.metrics import peak_flop_per_s
from trnsim.torch.models.answer import Answer, ExchangeTime, answer, of_model
from trnsim.torch.models.config import read_config
from trnsim.torch.models.shape import ModelShape


@dataclass(frozen=True, slots=True)
class CompiledLayer:
    """What one more layer takes of a program.

    Attributes:
        shape: the phase and the sizes, ranks included.
        target: the chip, one NeuronCore of which is a rank.
        time_s: of the program, without exchanges.
        exchanges_s: of its exchanges between ranks.
        mfu: its products over those of the bfloat16 peak in `time_s`.
        mbu: its weights, keys and values, each once, over what a core can take of HBM in `time_s`.
    """

    shape: ModelShape
    target: str
    time_s: float
    exchanges_s: float
    mfu: float
    mbu: float


def compiled_layer(
    path: Path, shape: ModelShape, target: str, exchange_s: ExchangeTime
) -> CompiledLayer:
    """A layer of the model of a configuration: programs of two layers and of one, compared.

    Raises:
        BadInput: for what is no configuration, or a shape that it does not have.
        OutOfDeviceMemory: for two layers over the HBM of a NeuronCore.
    """
    config = read_config(path)
    one, two = (_of(config, count, path.name, shape, target, exchange_s) for count in (1, 2))
    time_s = two.program.device_time_s - one.program.device_time_s
    flop, nbytes = (
        getattr(two.program.bound, name) - getattr(one.program.bound, name)
        for name in ("flop", "hbm_bytes")
    )
    return CompiledLayer(
        shape,
        target,
        time_s,
        two.whole.exchanges_s - one.whole.exchanges_s,
        flop / (peak_flop_per_s(arch.target(target).core) * time_s),
        nbytes / (hbm_rate(target) * time_s),
    )


def _of(
    config: Any, layers: int, name: str, shape: ModelShape, target: str, exchange_s: ExchangeTime
) -> Answer:
    """The model with so many of its layers."""
    short = copy.deepcopy(config)
    short.num_hidden_layers = layers
    if getattr(short, "layer_types", None):
        short.layer_types = short.layer_types[:layers]
    return answer(of_model(short, name, shape), target, exchange_s, lnc=1)
