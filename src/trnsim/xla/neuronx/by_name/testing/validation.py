"""`torch_neuronx.testing.validation`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.testing.validation",
    __name__,
    dict.fromkeys(
        (
            *(
                "AllCloseSummary",
                "DEFAULT_DIVERGENCE_DIFFERENCE_TOLERANCE",
                "DEFAULT_TOLERANCE_MAP",
            ),
            *("assert_close", "custom_allclose", "logit_validation", "neuron_allclose"),
        ),
        "trnsim.xla.neuronx.comparison",
    ),
)
