"""`torch_neuronx.proto.metaneff_pb2`; other classes are refused where they are called."""

from trnsim.xla.neuronx.protobufs import serve

__getattr__ = serve(
    "torch_neuronx.proto.metaneff_pb2",
    dict.fromkeys(("MetaNeff", "MetaTensor"), "trnsim.torch.traces.metaneff"),
)
