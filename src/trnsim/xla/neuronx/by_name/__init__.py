"""The module that `import torch_neuronx` gives without the real package.

It registers the device "neuron", as newer programs expect of it, and has all names of
`trnsim.torch`; the names of the tracing API are imported when a program asks for one.
"""

from __future__ import annotations

import pkgutil
from typing import Any, Final

import trnsim.torch
from trnsim.xla.neuronx.lazy_names import serve

__version__: Final = "2.9.0.2.15.32035"
"""The release whose names these are: programs compare it.

Source: aws-neuron-sdk setup/pytorch, torch-neuronx==2.9.0.2.15.32035.
"""

SUBMODULES: Final = trnsim.torch.SUBMODULES | {
    found.name: f"trnsim.torch.{found.name}"
    for found in pkgutil.iter_modules(trnsim.torch.__path__)
}
"""Submodules of the device for `import torch_neuronx.nki`; the finder of last resort reads this."""

_MODULES: Final = "trnsim.xla.neuronx.modules"
_TABLE: Final = {
    "trace": "trnsim.xla.neuronx.trace",
    **dict.fromkeys(
        (
            *("replace_weights", "move_trace_to_device", "set_neuron_cores", "set_multicore"),
            *("neuron_cores_context", "multicore_context", "lazy_load", "async_load"),
            "dynamic_batch",
        ),
        _MODULES,
    ),
}
"""Names of the tracing API, each with the module that has it."""


def _of_device(name: str) -> Any:
    """A name of the device's package."""
    return getattr(trnsim.torch, name)


__getattr__ = serve("torch_neuronx", __name__, _TABLE, otherwise=_of_device)
