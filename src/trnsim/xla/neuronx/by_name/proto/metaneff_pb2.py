"""`torch_neuronx.proto.metaneff_pb2`; other classes are refused where they are called."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.protobufs import serve

_TABLE: Final[dict[str, str]] = dict.fromkeys(
    ("MetaNeff", "MetaTensor"), "trnsim.torch.traces.metaneff"
)

__getattr__ = serve("torch_neuronx.proto.metaneff_pb2", _TABLE)
