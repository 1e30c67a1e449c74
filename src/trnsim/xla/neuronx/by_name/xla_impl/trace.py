"""`torch_neuronx.xla_impl.trace`."""

from __future__ import annotations

from typing import Any, Final

from trnsim.xla.neuronx import protobufs
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
            "generate_neff",
        ),
        "trnsim.xla.neuronx.artifacts",
    ),
    "get_torch_dtype": "trnsim.torch.traces.metaneff",
}
_ABSENT: Final = dict.fromkeys(
    ("get_compile_command", "save_compile_command", "setup_compiler_dirs"), _COMMANDS
)

_OF_PROTOBUFS: Final = (
    *("hlo_entry_computation", "get_hlo_computation_by_id", "get_hlo_root_instruction"),
    "XLA_DTYPE_TO_METANEFF_DTYPE",
)
"""Names that NxD imports where it is loaded, and uses with protobufs of HLO alone."""


def _otherwise(name: str) -> Any:
    if name in _OF_PROTOBUFS:
        return protobufs.stand_in("torch_neuronx.xla_impl.trace", name)
    raise AttributeError(f"module 'torch_neuronx.xla_impl.trace' has no attribute {name!r}")


__getattr__ = serve("torch_neuronx.xla_impl.trace", __name__, _TABLE, _ABSENT, _otherwise)
