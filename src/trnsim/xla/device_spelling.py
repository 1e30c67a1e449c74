"""The neuron device under the name "xla": in `torch.device`, factories and `Tensor.device`.

PyTorch reserves a device type and a dispatch key for XLA, and implements neither. Here the type
gets the device guard of the neuron device, and the key's kernels make neuron tensors. So no tensor
has the type XLA in C++; `torch.Tensor.device` alone shows it. The parts are independent of the
order in which a program imports PyTorch, the device and `torch_xla`.

The file uses private names of PyTorch: `trnsim.torch.versions` checks its version.
"""
# ruff: noqa: SLF001  PyTorch's private names

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, Final

import torch

import trnsim.torch
from trnsim.errors import BadInput
from trnsim.torch import device_name, pytorch
from trnsim.torch.api import device as device_module
from trnsim.torch.clients.imports import when_imported
from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.xla import autocast_lists, precision, tensor_behaviours
from trnsim.xla.absent_names import RefusedImport
from trnsim.xla.seeds import seeds

SPELLING: Final = "xla"

_LIBRARIES: Final = {"darwin": "libc10.dylib", "linux": "libc10.so", "win32": "c10.dll"}
_GUARDS: Final = {
    "win32": "?device_guard_impl_registry@impl@c10@@3V?$array@U?$atomic@PEBUDeviceGuard"
    "ImplInterface@impl@c10@@@std@@$0BF@@std@@A"
}
_ITANIUM_GUARDS: Final = "_ZN3c104impl26device_guard_impl_registryE"
"""C++'s name of the guards' table: c10/core/impl/DeviceGuardImplInterface.h."""
_CPU, _XLA, _OURS, _TYPES = 0, 9, 20, 21
"""Places in that table: the numbers of device types of torch/headeronly/core/DeviceType.h."""
_FACTORIES: Final = (
    "empty.memory_format",
    "empty_strided",
    "tril_indices",
    "triu_indices",
    "_efficientzerotensor",
)
"""Factories without a composite kernel; PyTorch makes all others of these."""

_kernels: Final[list[Any]] = []  # a library removes its kernels when it is freed


class GeneratorRefused(BadInput, RuntimeError):
    """A generator of the device "xla", which the real package lacks too."""


@cache
def spell() -> None:
    """Let programs name the device "xla"; a second call does nothing.

    Raises:
        RefusedImport: where PyTorch's library does not have the table of guards.
    """
    trnsim.torch.__name__  # noqa: B018  its import has registered the device
    share_guard()
    _kernels.append(pytorch.new_library("aten"))
    for name in _FACTORIES:
        _kernels[0].impl(name, _factory(name), "XLA")
    device_name.device_names.add(SPELLING)
    _name_tensors()
    tensor_behaviours.install()
    precision.install(os.environ)
    seeds.begin()
    _install_autocast()
    _install_generators()
    when_imported("torch._subclasses.fake_tensor", _install_fakes)
    pytorch_module: Any = torch  # some of its functions have no types
    pytorch_module._register_device_module(SPELLING, device_module)


def share_guard(system: str = sys.platform, folder: Path | None = None) -> None:
    """Make C++'s guard of XLA's device type that of the neuron device.

    Raises:
        RefusedImport: for a library without the tested table.
    """
    library = (folder or Path(torch.__file__).parent / "lib") / _LIBRARIES.get(system, "libc10.so")
    symbol = _GUARDS.get(system, _ITANIUM_GUARDS)
    try:
        guards = (ctypes.c_void_p * _TYPES).in_dll(ctypes.CDLL(str(library)), symbol)
    except (OSError, ValueError) as error:
        raise _no_table(f"{library.name} has no {symbol} ({error})") from error
    if not guards[_CPU] or not guards[_OURS]:
        raise _no_table(f"{symbol} of {library.name} has no guard of the CPU and of {DEVICE_TYPE}")
    if guards[_XLA] not in (None, guards[_OURS]):
        raise _no_table(f"{symbol} of {library.name} has a guard of XLA's own")
    guards[_XLA] = guards[_OURS]


def _no_table(reason: str) -> RefusedImport:
    return RefusedImport(
        f"the device cannot be spelled 'xla' with PyTorch {torch.__version__} on {sys.platform}: "
        f"{reason}",
        fix="name it torch.device('neuron'), without torch_xla",
    )


def _factory(name: str) -> Callable[..., Any]:
    """The kernel of a factory for XLA's key, which calls the factory for the neuron device."""
    operator: Any = pytorch.overload(f"aten::{name}")

    def make(*args: Any, device: torch.device | None = None, **options: Any) -> Any:
        core = device.index or 0 if device is not None else 0
        return operator(*args, device=torch.device(DEVICE_TYPE, core), **options)

    return make


def _name_tensors() -> None:
    """Let neuron tensors have an xla device."""
    base: Any = torch._C.TensorBase
    tensor: Any = torch.Tensor
    own_device, own_to = base.device.__get__, base.to
    plain_types = (torch.Tensor, torch.nn.Parameter)

    def device(self: torch.Tensor) -> torch.device:
        """The device of the tensor."""
        neuron_device: torch.device = own_device(self)
        return (
            _xla_device(neuron_device.index) if neuron_device.type == DEVICE_TYPE else neuron_device
        )

    def is_xla(self: torch.Tensor) -> bool:
        """True if the tensor is on the device."""
        return bool(own_device(self).type == DEVICE_TYPE)

    @wraps(own_to)
    def to(self: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        # C++ compares devices by type: `t.to("xla")` would copy a tensor that is there already.
        if type(self) in plain_types:
            if args:
                args = (_neuron_device(args[0]), *args[1:])
            if "device" in options:
                options["device"] = _neuron_device(options["device"])
        result: torch.Tensor = own_to(self, *args, **options)
        return result

    tensor.device, tensor.is_xla, tensor.to = property(device), property(is_xla), to


@cache
def _xla_device(core: int) -> torch.device:
    """The xla device of a core."""
    return torch.device(SPELLING, core)


def _neuron_device(device: Any) -> Any:
    """The neuron device for an xla device or its name; every other value unchanged."""
    if isinstance(device, str) and device.partition(":")[0] == SPELLING:
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type == SPELLING:
        return torch.device(DEVICE_TYPE, device.index or 0)
    return device


def _install_autocast() -> None:
    """Make autocast of "xla" that of the neuron device: C++ has switches for each type."""
    torch_module: Any = torch
    for name in (
        *("is_autocast_enabled", "set_autocast_enabled"),
        *("get_autocast_dtype", "set_autocast_dtype"),
    ):
        setattr(torch_module, name, _accept_xla(getattr(torch, name)))
    torch.set_autocast_dtype(DEVICE_TYPE, torch.bfloat16)
    autocast_lists.install(_kernels[0])
    autocast: Any = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    @wraps(init)
    def begin(self: Any, device_type: str, *args: Any, **options: Any) -> None:
        is_spelled = device_type == SPELLING
        init(self, DEVICE_TYPE if is_spelled else device_type, *args, **options)

    autocast.__init__ = begin


def _accept_xla(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the name of a device type, which takes "xla" as the neuron device's."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if args and args[0] == SPELLING:
            args = (DEVICE_TYPE, *args[1:])
        return function(*args, **options)

    return call


def _install_generators() -> None:
    """Refuse `torch.Generator("xla")`, as the real package does."""
    kind: Any = type(torch.Generator)
    make = kind.__call__

    def call(cls: Any, device: Any = "cpu") -> Any:
        if torch.device("cpu" if device is None else device).type == SPELLING:
            raise GeneratorRefused(
                "torch.Generator('xla'): torch_xla has no generators; its device has one seed",
                fix="xm.set_rng_state(seed), or torch.Generator('neuron')",
            )
        return make(cls, device)

    kind.__call__ = call


def _install_fakes(module: Any) -> None:
    """Give PyTorch's tensors without values the device's own type, and "xla" as its name.

    Otherwise a compiled program has tensors of both names, and refuses to mix them.
    """
    kind: Any = module.FakeTensor
    make, own_device = kind.__new__, kind.device.fget

    def new_fake(cls: Any, mode: Any, elem: Any, device: Any, *args: Any, **options: Any) -> Any:
        return make(cls, mode, elem, _neuron_device(device), *args, **options)

    def device(self: Any) -> Any:
        """The device of the tensor."""
        neuron_device = own_device(self)
        return (
            _xla_device(neuron_device.index) if neuron_device.type == DEVICE_TYPE else neuron_device
        )

    kind.__new__, kind.device = staticmethod(new_fake), property(device)
