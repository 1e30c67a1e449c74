"""`torch_neuronx.experimental`: names that AWS's package had here before they were stable."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = dict.fromkeys(
    ("multicore_context", "neuron_cores_context", "set_multicore", "set_neuron_cores"),
    "trnsim.xla.neuronx.modules",
)

__getattr__ = serve("torch_neuronx.experimental", __name__, _TABLE)
