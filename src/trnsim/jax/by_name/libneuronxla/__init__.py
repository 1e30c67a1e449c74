"""The package that `import libneuronxla` gives without AWS's: compilations through the cache.

In the place of a NEFF is a file of `trnsim.compiler.stand_in`. A JAX program that imports the
package asks for the platform by name, so it gets it: see `trnsim.jax.autoload`.

Source: its callers, aws-neuron/neuronx-distributed src/neuronx_distributed/trace/functions.py and
model_builder.py; aws-neuron-samples torch-neuronx/training/dp_bert_hf_pretrain.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from trnsim.absence import Absence, AbsentNames
from trnsim.jax import initialize
from trnsim.jax.by_name.libneuronxla.compile_calls import neuron_xla_compile, neuron_xla_wlo_compile
from trnsim.jax.snapshots import register_hlo_snapshot_callback
from trnsim.version import VERSION

__version__ = VERSION
__all__ = ["neuron_xla_compile", "neuron_xla_wlo_compile", "register_hlo_snapshot_callback"]

_ABSENT: Final = {
    "neuron_cc_wrapper": (
        "the wrapper that XLA's plugin starts is not here",
        "neuron_xla_compile, or the program neuronx-cc",
    ),
    "libncc": ("it is AWS's own compiler's library", "neuron_xla_compile"),
    "libneuronpjrt_path": ("AWS's library of the runtime is not here", "trnsim's JAX platform"),
    "supported_clients": ("it lists versions of AWS's wheels", "pip index of AWS"),
}

if "jax" in sys.modules:  # later, JAX asks for its plugins by itself
    initialize()


def _explain(name: str) -> Absence | None:
    row = _ABSENT.get(name)
    return None if row is None else Absence(f"libneuronxla.{name}: {row[0]}", row[1], "")


AbsentNames("libneuronxla", "libneuronxla", _explain)
__getattr__: Any = AbsentNames(__name__, "libneuronxla", _explain).serve
