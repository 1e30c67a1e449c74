"""`torch_neuronx.xla_impl.ops`."""

from trnsim.xla.neuronx.lazy_names import serve

__getattr__ = serve(
    "torch_neuronx.xla_impl.ops",
    __name__,
    {
        "nki_jit": "trnsim.xla.neuronx.kernels",
        "xla_hlo_call": "trnsim.xla.neuronx.hlo_calls",
        **dict.fromkeys(
            ("Argmax", "ConcatenateOp", "RmsNorm", "Softmax", "TopK"),
            "trnsim.xla.neuronx.operators",
        ),
    },
)
