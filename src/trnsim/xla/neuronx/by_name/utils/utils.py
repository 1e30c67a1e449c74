"""`torch_neuronx.utils.utils`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = dict.fromkeys(
    ("SUPPORTED_TYPES", "get_platform_target"), "trnsim.xla.neuronx.platform"
)

__getattr__ = serve("torch_neuronx.utils.utils", __name__, _TABLE)
