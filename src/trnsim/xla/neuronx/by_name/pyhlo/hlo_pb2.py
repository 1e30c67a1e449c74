"""`torch_neuronx.pyhlo.hlo_pb2`; other classes are refused where they are called."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.protobufs import serve

_TABLE: Final = {"HloModuleProto": "trnsim.xla.neuronx.program_modules"}

__getattr__ = serve("torch_neuronx.pyhlo.hlo_pb2", _TABLE)
