"""`torch_neuronx.xla_impl.structure`; other classes are refused where they are called."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.protobufs import serve

_TABLE: Final[dict[str, str]] = dict.fromkeys(
    ("Flattener", "Packer"), "trnsim.xla.neuronx.list_forms"
)

__getattr__ = serve("torch_neuronx.xla_impl.structure", _TABLE)
