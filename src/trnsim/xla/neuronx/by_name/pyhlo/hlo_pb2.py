"""`torch_neuronx.pyhlo.hlo_pb2`; other classes are refused where they are called."""

from trnsim.xla.neuronx.protobufs import serve

__getattr__ = serve(
    "torch_neuronx.pyhlo.hlo_pb2", {"HloModuleProto": "trnsim.xla.neuronx.program_modules"}
)
