"""`torch_neuronx.xla_impl.custom_op`, which loads operators in C++: not here."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_WHY: Final = (
    "operators in C++ for the GPSIMD engine are not compiled here",
    "an NKI kernel: torch_neuronx.nki_op",
)
_ABSENT: Final = dict.fromkeys(("load", "load_library", "parallel_compile"), _WHY)

__getattr__ = serve("torch_neuronx.xla_impl.custom_op", __name__, {}, _ABSENT)
