"""`torch_neuronx.pyhlo.xla_data_pb2`: classes that are refused where they are called."""

from trnsim.xla.neuronx.protobufs import serve

__getattr__ = serve("torch_neuronx.pyhlo.xla_data_pb2")
