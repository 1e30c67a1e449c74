"""`torch_neuronx.xla_impl.data_parallel`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = {"DataParallel": "trnsim.xla.neuronx.data_parallel"}

__getattr__ = serve("torch_neuronx.xla_impl.data_parallel", __name__, _TABLE)
