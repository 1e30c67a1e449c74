"""`torch_neuronx.xla_impl.torchscript`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.xla_impl.torchscript",
    __name__,
    {"replace_weights": "trnsim.xla.neuronx.modules"},
)
