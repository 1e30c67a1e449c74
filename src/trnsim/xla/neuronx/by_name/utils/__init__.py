"""`torch_neuronx.utils`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.utils", __name__, {"get_platform_target": "trnsim.xla.neuronx.platform"}
)
