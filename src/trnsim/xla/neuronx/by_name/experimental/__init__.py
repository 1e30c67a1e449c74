"""`torch_neuronx.experimental`: names that AWS's package had here before they were stable."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.experimental",
    __name__,
    dict.fromkeys(
        ("multicore_context", "neuron_cores_context", "set_multicore", "set_neuron_cores"),
        "trnsim.xla.neuronx.modules",
    ),
)
