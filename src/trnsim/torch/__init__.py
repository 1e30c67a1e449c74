"""A PyTorch device of type "neuron", in pure Python.

Importing this package (as `torch_neuron`, `torch_neuronx` or `trnsim.torch`) makes
`torch.device("neuron")` and the module `torch.neuron` work; `import torch` alone does so too,
through PyTorch's own entry point, unless TRNSIM_AUTOLOAD=0, or TORCH_DEVICE_BACKEND_AUTOLOAD=0,
which is for all backends. `torch.accelerator` is the device where PyTorch has none of its own.

What it promises: tensors that live on the device, with the size of its HBM, under which models
train unmodified; and for what runs on them the time of tile kernels that compute the same. What has
no such kernel is named and gets no time. What it does *not* promise: the chip's numerics by
default. Values are computed by PyTorch's own CPU kernels in the dtype of the tensor: no stochastic
rounding, no flushed denormals. TRNSIM_NUMERICS=exact computes them instruction by instruction.

A device is one physical NeuronCore (`trnsim.device.device_core`). NEURON_RT_VISIBLE_CORES says
which ones this process has, and NEURON_PLATFORM_TARGET_OVERRIDE of which chip (trn2 unless it is
set).

`nki` and `nki_op` are for kernels of one's own in a model.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import EmulatorError

if TYPE_CHECKING:
    from trnsim import nki
    from trnsim.torch.dispatch.custom_ops import nki_op

__all__ = ["autoload", "nki", "nki_op"]

_AUTOLOAD: Final = "TRNSIM_AUTOLOAD"

SUBMODULES: Final = {"nki": "trnsim.nki"}
"""What `import torch_neuronx.nki` finds: the finder of last resort reads this."""

_LATER: Final = {"nki": "trnsim.nki", "nki_op": "trnsim.torch.dispatch.custom_ops"}


def __getattr__(name: str) -> Any:
    """What needs PyTorch whole: while PyTorch imports this package it is not."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_LATER[name])
    return module if name == "nki" else getattr(module, name)


def autoload() -> None:
    """What `import torch` calls: the device, or a warning that says why there is none.

    A PyTorch that works without us must go on working, so nothing is raised here; `import
    torch_neuron` afterwards raises what this call warns of.
    """
    if _asked_by_name:
        return
    if os.environ.get(_AUTOLOAD) == "0":
        sys.modules.pop(__name__, None)  # who imports it by name begins anew
        return
    try:
        _load()
    except EmulatorError as error:
        sys.modules.pop(__name__, None)
        warnings.warn(f"torch.device('neuron') is not available: {error}", stacklevel=2)


def _load() -> None:
    """Check PyTorch's version before anything that touches its private names is imported."""
    import_module("trnsim.torch.versions").check()
    import_module("trnsim.torch.backend").register()


def _is_importing(module: str) -> bool:
    """Whether an import of `module` is under way further up the stack."""
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


# While PyTorch imports us it waits for `autoload`; otherwise somebody imported us by name. Then the
# import of torch inside `_load` calls `autoload` of this half-imported module: nothing to do there.
_asked_by_name = not _is_importing("torch")
if _asked_by_name:
    _load()
    _asked_by_name = False
