"""The compiled layer beside a plan's constant: how near one layer's program comes to the peak.

A plan takes constant shares of the peak and of HBM. A layer is compiled for one rank of a replica,
a logical NeuronCore; its heads are split over as many of these as divide them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from math import gcd
from typing import TYPE_CHECKING, Any, Final

from trnsim.arch import TARGETS
from trnsim.cli.progress import progress
from trnsim.errors import EmulatorError
from trnsim.profile.units import percent_text, time_text
from trnsim.system.platform import platform

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnsim.system.serving import ServingEstimate

_NEEDED: Final = "pip install 'trnsim[torch,models]'"


def serving_layers(config: Path, estimates: Sequence[ServingEstimate]) -> dict[str, Any]:
    """A decode step's layer on each Neuron platform, after the last output token."""
    return {
        e.platform: _layer(
            config,
            e.platform,
            ("decode", e.batch, 1, e.context + e.output_tokens),
            e.chips_per_replica * e.instances,
            e.model.heads,
        )
        for e in estimates
        if platform(e.platform).chip.is_neuron
    }


def layer_lines(found: dict[str, Any], constant: str) -> list[str]:
    """A line for each platform: the layer's time and use, and the constant that the plan takes."""
    lines = [f"one layer compiled, beside the plan's {constant}:"] if found else []
    for name, layer in found.items():
        lines.append(f"  {name}: {_words(layer)}; the plan takes {_constant(name, constant)}")
    return lines


def layer_json(layer: Any, name: str, constant: str) -> dict[str, Any]:
    """A layer, or why there is none, as JSON."""
    value = float(platform(name).facts[constant])
    if isinstance(layer, str):
        return {"error": layer, "constant": value}
    return {
        "time_s": layer.time_s,
        "exchanges_s": layer.exchanges_s,
        "mfu": layer.mfu,
        "mbu": layer.mbu,
        "ranks": layer.shape.ranks,
        "constant": value,
    }


def _layer(
    config: Path, name: str, sizes: tuple[str, int, int, int], chips: int, heads: int
) -> Any:
    """A layer on a platform; why there is none, in words, where it cannot be compiled."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return f"it needs PyTorch and transformers: {_NEEDED}"
    models = import_module("trnsim.torch.models.layer")
    given = platform(name)
    target = next(one.name for one in TARGETS.values() if one.chip == given.chip.name)
    ranks = gcd(chips * given.ranks_per_chip, heads)
    phase, batch, sequence, past = sizes
    shape = models.ModelShape(phase, batch, sequence, past, ranks)
    with progress() as tell:
        tell(f"one layer for {name}")
        try:
            return models.compiled_layer(config, shape, target)
        except EmulatorError as error:
            return error.reason.splitlines()[0]


def _words(layer: Any) -> str:
    if isinstance(layer, str):
        return layer
    shape = layer.shape
    keys = f"{shape.past:,} keys" if shape.past else f"{shape.sequence:,} tokens"
    exchanges = f" and {time_text(layer.exchanges_s)} of exchanges" if layer.exchanges_s else ""
    return (
        f"{time_text(layer.time_s)}{exchanges} ({shape.phase}, batch {shape.batch}, {keys}, one of "
        f"{shape.ranks} ranks), MFU {percent_text(layer.mfu)}, MBU {percent_text(layer.mbu)}"
    )


def _constant(name: str, constant: str) -> str:
    return percent_text(float(platform(name).facts[constant]))
