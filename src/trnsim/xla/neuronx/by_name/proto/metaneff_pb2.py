"""`torch_neuronx.proto.metaneff_pb2`: classes that are refused where they are called."""

from __future__ import annotations

from trnsim.xla.neuronx.protobufs import serve

__getattr__ = serve("torch_neuronx.proto.metaneff_pb2")
