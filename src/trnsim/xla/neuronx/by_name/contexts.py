"""`torch_neuronx.contexts`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = {"disable_nrt_load": "trnsim.xla.neuronx.modules"}

__getattr__ = serve("torch_neuronx.contexts", __name__, _TABLE)
