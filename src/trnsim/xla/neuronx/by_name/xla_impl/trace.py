"""`torch_neuronx.xla_impl.trace`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_COMMANDS: Final = (
    "the compiler is called in this process",
    "torch_neuronx.trace(model, example_inputs, compiler_workdir=...)",
)
_TABLE: Final = {
    "trace": "trnsim.xla.neuronx.trace",
    **dict.fromkeys(
        (
            *("HloArtifacts", "NeffArtifacts", "_trace", "create_neuron_model", "generate_hlo"),
            *("generate_neff", "get_torch_dtype"),
        ),
        "trnsim.xla.neuronx.artifacts",
    ),
}
_ABSENT: Final = dict.fromkeys(
    ("get_compile_command", "save_compile_command", "setup_compiler_dirs"), _COMMANDS
)

__getattr__ = serve("torch_neuronx.xla_impl.trace", __name__, _TABLE, _ABSENT)
