"""`torch_neuronx.experimental.profiler`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.experimental.profiler", __name__, {"profile": "trnsim.xla.neuronx.profiler"}
)
