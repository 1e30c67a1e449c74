"""`torch_neuronx.utils`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = {"get_platform_target": "trnsim.xla.neuronx.platform"}

__getattr__ = serve("torch_neuronx.utils", __name__, _TABLE)
