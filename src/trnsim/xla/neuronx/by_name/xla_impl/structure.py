"""`torch_neuronx.xla_impl.structure`; other classes are refused where they are called."""

from trnsim.xla.neuronx.protobufs import serve

__getattr__ = serve(
    "torch_neuronx.xla_impl.structure",
    dict.fromkeys(("Flattener", "Packer"), "trnsim.xla.neuronx.list_forms"),
)
