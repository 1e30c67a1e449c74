"""`torch_neuronx.contexts`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.contexts", __name__, {"disable_nrt_load": "trnsim.xla.neuronx.modules"}
)
