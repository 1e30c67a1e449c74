"""`torch_neuronx.xla_impl.torchscript`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = {"replace_weights": "trnsim.xla.neuronx.modules"}

__getattr__ = serve("torch_neuronx.xla_impl.torchscript", __name__, _TABLE)
