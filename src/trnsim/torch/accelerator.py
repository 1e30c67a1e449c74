"""`torch.accelerator` and the autograd engine, where PyTorch's C++ asks for a device driver.

The driver that PyTorch offers to Python backends knows one device and no allocator, streams or
synchronization. These functions of `torch._C` are replaced by ours; they serve the process's one
accelerator, which is the neuron device once it is registered.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import autograd

from trnsim.torch import device, pytorch
from trnsim.torch.cores import core_index
from trnsim.torch.importer.build import STORED
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable


def register() -> None:
    """Replace the functions."""
    for name, function in _FUNCTIONS.items():
        pytorch.replace_accelerator_function(name, function)
    pytorch.replace_engine(_in_this_thread)


def _nested_stats(index: int) -> dict[str, Any]:
    """The figures of `torch.neuron.memory_stats`; PyTorch flattens what is nested."""
    return dict(device.memory_stats(index))


def _capability(index: int) -> dict[str, Any]:
    """The dtypes that the device holds in the chip's own formats, or as integers of 32 bits."""
    core_index(index)
    return {"supported_dtypes": set(STORED)}


def _keep(index: int) -> None:
    """Nothing: no figure here accumulates."""
    del index


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "synchronizeDevice": device.synchronize,
    "setDeviceIndex": device.set_device,
    "isAllocatorInitialized": device.is_initialized,
    "emptyCache": device.empty_cache,
    "emptyHostCache": device.empty_cache,
    "getDeviceCapability": _capability,
    "getDeviceStats": _nested_stats,
    "resetPeakStats": device.reset_peak_memory_stats,
    "resetAccumulatedStats": _keep,
    "getMemoryInfo": device.mem_get_info,
}


def _in_this_thread(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """Backward passes over neuron tensors run in the thread that asks for them.

    PyTorch would hand them to a thread per device, of which it believes that there is one: the
    gradient of anything on neuron:1 would end in an assertion inside the engine.
    """

    @wraps(run_backward)
    def run(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        is_ours = any(
            isinstance(output, torch.Tensor) and output.device.type == DEVICE_TYPE
            for output in t_outputs
        )
        is_moved = is_ours and pytorch.is_multithreaded()
        aside = pytorch.taken_aside.errors
        aside.clear()
        found = None
        try:
            with autograd.set_multithreading_enabled(False) if is_moved else nullcontext():
                found = run_backward(t_outputs, *args, **kwargs)
        except SystemError:  # of an error that was taken aside C++ knows nothing more
            if not aside:
                raise
        if aside:  # an interrupt may come just then, and C++ go on without it
            raise aside.pop(0) from None
        return found

    return run
