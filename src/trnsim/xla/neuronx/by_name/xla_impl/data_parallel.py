"""`torch_neuronx.xla_impl.data_parallel`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.xla_impl.data_parallel",
    __name__,
    {"DataParallel": "trnsim.xla.neuronx.data_parallel"},
)
