"""`torch.accelerator` and the autograd engine, which need a device driver in C++.

The driver that PyTorch offers to Python backends has a single device, and neither allocator nor
streams nor synchronization. So functions of `torch._C` are replaced here. They serve the process's
accelerator: PyTorch's own if there is any (CUDA, MPS, XPU), else the neuron device. A program that
asks for the accelerator without naming neuron is told once that it gets the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial, wraps
from types import FrameType
from typing import Any, Final

import torch
from torch import autograd

from trnsim.device.hbm import is_used
from trnsim.torch import pytorch
from trnsim.torch.api import device
from trnsim.torch.api.core_index import core_index
from trnsim.torch.aten.spec import STORED
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron


def register() -> None:
    """Replace the functions of `torch._C` that need a driver."""
    for name in {*_FUNCTIONS, *_MODULE_FUNCTIONS}:
        pytorch.replace_accelerator_function(name, partial(_dispatched, name))
    pytorch.replace_accelerator_function("getAccelerator", lambda _: current)
    pytorch.replace_engine(_run_in_caller_thread)
    pytorch.never_compile(sys.modules[__name__])
    pytorch.replace_events(lambda event, is_timed: device.Event(is_timed, device=event.device))


@cache
def builtin_accelerator() -> torch.device | None:
    """PyTorch's own accelerator in this machine, which takes precedence, or None."""
    for name in ("cuda", "mps", "xpu"):
        module: Any = getattr(torch, name)
        if module.is_available():
            return torch.device(name)
    return None


def current() -> torch.device:
    """`torch.accelerator.current_accelerator`: PyTorch's own accelerator, else neuron."""
    builtin = builtin_accelerator()
    _announce_device(builtin)
    return torch.device(DEVICE_TYPE) if builtin is None else builtin


_notices: Final[list[str]] = []


def _announce_device(builtin: torch.device | None) -> None:
    """Tell a program that asks for the accelerator, once and on stderr, which device it gets.

    Calls by PyTorch itself (its compiler, `fork_rng`, checkpoints, process groups) do not count.
    """
    if _notices or is_used() or not sys.modules.keys().isdisjoint(_OWN_PACKAGES) or _is_internal():
        return
    notice = (
        "the accelerator of this program is the emulated device 'neuron', as PyTorch has no other"
        if builtin is None
        else f"the device 'neuron' is there by name alone; the accelerator stays {builtin.type!r}"
    )
    _notices.append(f"trnsim: {notice} (TRNSIM_AUTOLOAD=0 leaves it out)")
    print(_notices[0], file=sys.stderr)  # noqa: T201  a warning would point at PyTorch's own line


def _is_internal() -> bool:
    """True if the caller is PyTorch's own code."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  who calls
    name = __name__
    while frame is not None and name.startswith((__name__, "torch.accelerator")):
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return name.partition(".")[0] == "torch"


_OWN_PACKAGES: Final = ("torch_neuron", "torch_neuronx")
"""Modules that only programs for this device import."""


def _dispatched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """A function for the neuron device, or `original` if PyTorch has its own accelerator."""
    own_function = _FUNCTIONS.get(name, original)

    def function(*args: Any) -> Any:
        builtin_device = builtin_accelerator()
        if builtin_device is None:
            return own_function(*args)
        module = torch.get_device_module(builtin_device)
        return getattr(module, _MODULE_FUNCTIONS[name], original)(*args)

    return function


def _capability(index: int) -> dict[str, Any]:
    """The supported dtypes: the chip's own formats, and those stored as 32-bit integers."""
    core_index(index)
    return {"supported_dtypes": set(STORED)}


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "synchronizeDevice": device.synchronize,
    "setDeviceIndex": device.set_device,
    "getStream": device.current_stream,
    "setStream": device.set_stream,
    "isAllocatorInitialized": device.is_initialized,
    "emptyCache": device.empty_cache,
    "emptyHostCache": device.empty_cache,
    "getDeviceCapability": _capability,
    "getDeviceStats": device.memory_stats,
    "resetPeakStats": device.reset_peak_memory_stats,
    "resetAccumulatedStats": core_index,  # nothing to reset, as no figure accumulates
    "getMemoryInfo": device.mem_get_info,
}


_MODULE_FUNCTIONS: Final = {
    "synchronizeDevice": "synchronize",
    "getDeviceIndex": "current_device",
    "setDeviceIndex": "set_device",
    "exchangeDevice": "_exchange_device",
    "maybeExchangeDevice": "_maybe_exchange_device",
    "getStream": "current_stream",
    "setStream": "set_stream",
    "isAllocatorInitialized": "is_initialized",
    "emptyCache": "empty_cache",
    "emptyHostCache": "empty_host_cache",
    "getDeviceCapability": "get_device_capability",
    "getDeviceStats": "memory_stats_as_nested_dict",
    "resetPeakStats": "reset_peak_memory_stats",
    "resetAccumulatedStats": "reset_accumulated_memory_stats",
    "getMemoryInfo": "mem_get_info",
}
"""The names of these functions in `torch.cuda` and similar modules."""


def _run_in_caller_thread(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """`run_backward`, with backward passes of neuron tensors in the calling thread.

    PyTorch would use a thread per device and takes the number of devices to be one, so a gradient
    on neuron:1 would end in an assertion inside the engine.
    """

    @wraps(run_backward)
    def run(t_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        is_ours = any(
            isinstance(output, torch.Tensor) and is_neuron(output.device) for output in t_outputs
        )
        is_moved = is_ours and pytorch.is_multithreaded()
        deferred = pytorch.deferred_errors.errors
        deferred.clear()
        gradients = None
        try:
            with autograd.set_multithreading_enabled(False) if is_moved else nullcontext():
                gradients = run_backward(t_outputs, *args, **kwargs)
        except SystemError:  # in place of an error that `deferred_errors` took from C++
            if not deferred:
                raise
        if deferred:  # such as an interrupt: C++ has continued without it
            raise deferred.pop(0) from None
        return gradients

    return run
