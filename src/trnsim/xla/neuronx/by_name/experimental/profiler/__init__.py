"""`torch_neuronx.experimental.profiler`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = {"profile": "trnsim.xla.neuronx.profiler"}

__getattr__ = serve("torch_neuronx.experimental.profiler", __name__, _TABLE)
