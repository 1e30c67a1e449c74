"""`torch_neuronx.xla_impl.base`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_CALLS: Final = "trnsim.xla.neuronx.hlo_calls"

__getattr__ = serve(
    "torch_neuronx.xla_impl.base",
    __name__,
    {"xla_hlo_call": _CALLS, "xla_call": f"{_CALLS}:xla_hlo_call"},
)
