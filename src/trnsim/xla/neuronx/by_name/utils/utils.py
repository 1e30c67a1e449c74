"""`torch_neuronx.utils.utils`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.utils.utils",
    __name__,
    dict.fromkeys(("SUPPORTED_TYPES", "get_platform_target"), "trnsim.xla.neuronx.platform"),
)
