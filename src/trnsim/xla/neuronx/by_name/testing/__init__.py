"""`torch_neuronx.testing`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.testing",
    __name__,
    dict.fromkeys(
        (
            "assert_close",
            "neuron_allclose",
            "custom_allclose",
            "logit_validation",
            "AllCloseSummary",
        ),
        "trnsim.xla.neuronx.comparison",
    ),
)
