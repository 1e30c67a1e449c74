"""A PyTorch device of type "neuron", in pure Python.

Importing this package (as `torch_neuron`, `torch_neuronx` or `trnsim.torch`) registers
`torch.device("neuron")` and the module `torch.neuron`. So does `import torch` alone, through
PyTorch's own entry point, unless TRNSIM_AUTOLOAD=0, or TORCH_DEVICE_BACKEND_AUTOLOAD=0, which
stops all backends. `torch.accelerator` is the device where PyTorch has no accelerator of its own.

The package promises tensors on a device with the size of its HBM, models that train unmodified, and
for each operator the time of tile kernels that compute the same. An operator without such a kernel
is named in reports and has no time. It does *not* promise the chip's numerics by default: PyTorch's
CPU kernels compute values in the dtype of the tensor, without stochastic rounding and without
flushed denormals. TRNSIM_NUMERICS=exact computes them instruction by instruction.

A device is a NeuronCore as AWS's runtime makes it (`trnsim.device.device_core`): on Trn2 and Trn3 a
logical one of two, unless NEURON_LOGICAL_NC_CONFIG=1. NEURON_RT_VISIBLE_CORES selects the devices
of this process, and NEURON_PLATFORM_TARGET_OVERRIDE the chip (trn2 by default).

`nki` and `nki_op` put a user's own kernels into a model.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import EmulatorError

if TYPE_CHECKING:
    from trnsim import nki
    from trnsim.torch.dispatch.custom_ops import nki_op

__all__ = ["autoload", "nki", "nki_op"]

_AUTOLOAD: Final = "TRNSIM_AUTOLOAD"

SUBMODULES: Final = {"nki": "trnsim.nki"}
"""Submodules for `import torch_neuronx.nki`; the finder of last resort reads this."""

_LAZY_NAMES: Final = {"nki": "trnsim.nki", "nki_op": "trnsim.torch.dispatch.custom_ops"}


def __getattr__(name: str) -> Any:
    """Names that need all of PyTorch, imported lazily: PyTorch imports this while it is loading."""
    if name not in _LAZY_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LAZY_NAMES[name])
    return module if name == "nki" else getattr(module, name)


def autoload() -> None:
    """PyTorch's entry point for backends: register the device, or warn why that is not possible.

    PyTorch must go on working, so nothing is raised here; a later `import torch_neuron` raises the
    error that this call warns of.
    """
    if _is_imported_by_name:
        return
    if os.environ.get(_AUTOLOAD) == "0":
        sys.modules.pop(__name__, None)  # an import by name starts anew
        return
    try:
        _load()
    except EmulatorError as error:
        sys.modules.pop(__name__, None)
        warnings.warn(f"torch.device('neuron') is not available: {error}", stacklevel=2)


def _load() -> None:
    """Register the device, after checking PyTorch's version: its private names are used."""
    import_module("trnsim.torch.versions").check()
    with _without_garbage_collection():
        import_module("trnsim.torch.backend").register()


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """Context without garbage collection, which takes 75 ms among all objects of PyTorch."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _is_importing(module: str) -> bool:
    """True if `module` is being imported further up the stack."""
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


# PyTorch imports this package and then calls `autoload`. A program that imports it by name gets the
# device at once; `_load` then imports torch, which calls `autoload` of this half-imported module,
# and that call has nothing to do.
_is_imported_by_name = not _is_importing("torch")
if _is_imported_by_name:
    _load()
    _is_imported_by_name = False
