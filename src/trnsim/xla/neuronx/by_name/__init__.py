"""The module that `import torch_neuronx` gives without the real package.

It registers the device "neuron", as newer programs expect of it, and has all names of
`trnsim.torch`; the names of the tracing API are imported at their first use.
"""

from __future__ import annotations

import pkgutil
from types import SimpleNamespace
from typing import Any, Final

import torch

import trnsim.torch
from trnsim.xla.neuronx.lazy_names import serve

__version__: Final = "2.9.0.2.15.32035"
"""The release whose names these are: programs compare it.

Source: aws-neuron-sdk setup/pytorch, torch-neuronx==2.9.0.2.15.32035.
"""

SUBMODULES: Final = trnsim.torch.SUBMODULES | {
    module.name: f"trnsim.torch.{module.name}"
    for module in pkgutil.iter_modules(trnsim.torch.__path__)
}
"""Submodules of the device for `import torch_neuronx.nki`; the finder of last resort reads this."""

_TABLE: Final = {
    "trace": "trnsim.xla.neuronx.trace",
    "analyze": "trnsim.xla.neuronx.analysis",
    "DataParallel": "trnsim.xla.neuronx.data_parallel",
    "PartitionerConfig": "trnsim.xla.neuronx.partitions",
    "BucketModelConfig": "trnsim.xla.neuronx.buckets",
    "bucket_model_trace": "trnsim.xla.neuronx.buckets",
    "nki_jit": "trnsim.xla.neuronx.kernels",
    "xla_hlo_call": "trnsim.xla.neuronx.hlo_calls",
    **dict.fromkeys(
        (
            *("replace_weights", "move_trace_to_device", "set_neuron_cores", "set_multicore"),
            *("neuron_cores_context", "multicore_context", "lazy_load", "async_load"),
            "dynamic_batch",
        ),
        "trnsim.xla.neuronx.modules",
    ),
}
"""Names of the tracing API, each with the module that has it."""
_ABSENT: Final = {
    "Stream": ("streams are PyTorch's", "torch.Stream(device='neuron')"),
    "stream": ("streams are PyTorch's", "the context of a torch.Stream"),
    "synchronize": ("a device synchronizes by PyTorch's name", "torch.neuron.synchronize()"),
    "profiling": ("the profiler is PyTorch's", "torch.profiler"),
}


def _of_device(name: str) -> Any:
    """A name of the device's package."""
    try:
        return getattr(trnsim.torch, name)
    except AttributeError as error:
        if type(error) is not AttributeError:  # it says what is here instead
            raise
        raise AttributeError(f"module 'torch_neuronx' has no attribute {name!r}") from None


_get_class: Final = serve(
    "torch.classes.neuron",
    __name__,
    dict.fromkeys(
        ("LayoutTransformation", "Runtime", "SPMDModel"), "trnsim.xla.neuronx.runtime_classes"
    ),
)


class _Classes(SimpleNamespace):
    """`torch.classes.neuron`: AWS's classes in C++, as classes of Python."""

    def __getattr__(self, name: str) -> Any:
        return _get_class(name)


_torch_classes: Any = torch.classes
_torch_classes.neuron = _Classes()
__getattr__ = serve("torch_neuronx", __name__, _TABLE, _ABSENT, fallback=_of_device)
