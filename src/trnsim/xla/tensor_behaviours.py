"""The behaviours of torch_xla's tensors and modules that differ from PyTorch's on other devices.

- `data_ptr` is the offset within the storage: tensors have no address that a program could use.
- Some elementwise operators take tensors of the host, of any shape; all others refuse them.
- A module that moves between the host and the device has new Parameters. An optimizer that was made
  before trains the old Parameters, and weights that two modules share are shared no more.
- `torch.manual_seed` leaves the device's seed as it is.

Each was measured with torch_xla 2.9.0: tests/xla/oracle.
"""
# ruff: noqa: SLF001  PyTorch's private names

from __future__ import annotations

from functools import cache, wraps
from typing import Any, Final

import torch

from trnsim.torch.device_name import DEVICE_TYPE
from trnsim.torch.dispatch.host_kernels import host_operands

_XLA_NAME: Final = "xla"
"""The device's name in torch_xla, and so in the names of types."""
_ELEMENTWISE: Final = ("add", "sub", "mul", "div", "fmod")
_BITWISE: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
HOST_OPERANDS: Final = frozenset(
    {
        *(
            f"aten::{name}{form}.Tensor"
            for name in (*_ELEMENTWISE, *_BITWISE)
            for form in ("", "_")
        ),
        *("aten::div.Tensor_mode", "aten::div_.Tensor_mode", "aten::pow.Tensor_Tensor"),
        "aten::pow_.Tensor",
        *("aten::floor_divide", "aten::floor_divide_.Tensor", "aten::rsub.Tensor"),
    }
)
"""Operators that take tensors of the host. All operators of two tensors that torch_xla 2.9.0 lowers
were tried: `maximum`, `remainder`, `atan2` and comparisons refuse them."""


@cache
def install() -> None:
    """Give tensors and modules these behaviours; a second call does nothing."""
    host_operands.update(HOST_OPERANDS)
    _install_addresses_and_types()
    _install_modules()
    _install_seeds()


def _install_addresses_and_types() -> None:
    base: Any = torch._C.TensorBase
    tensor: Any = torch.Tensor
    torch_data_ptr, torch_type, torch_device = base.data_ptr, base.type, base.device.__get__

    @wraps(torch_data_ptr)
    def data_ptr(self: torch.Tensor) -> int:
        if torch_device(self).type == DEVICE_TYPE:
            return int(self.storage_offset()) * self.element_size()
        address: int = torch_data_ptr(self)
        return address

    @wraps(torch_type)
    def type_(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        result = torch_type(self, *args, **options)
        is_name = isinstance(result, str)
        return result.replace(f".{DEVICE_TYPE}.", f".{_XLA_NAME}.") if is_name else result

    tensor.data_ptr, tensor.type = data_ptr, type_


def _install_modules() -> None:
    """Let `Module.to` make new Parameters between the host and the device."""
    torch_module: Any = torch
    is_compatible = torch_module._has_compatible_shallow_copy_type
    torch_device = torch._C.TensorBase.device.__get__

    @wraps(is_compatible)
    def has_compatible_type(tensor: torch.Tensor, other: torch.Tensor) -> bool:
        types = {torch_device(tensor).type, torch_device(other).type}
        return len(types) == 1 and bool(is_compatible(tensor, other))

    torch_module._has_compatible_shallow_copy_type = has_compatible_type


def _install_seeds() -> None:
    """Let `torch.manual_seed` seed all devices but the neuron device."""

    def keep_state(_: object) -> None:
        """Nothing; `xm.set_rng_state` seeds the device."""

    random_module: Any = torch.random
    random_module._seed_custom_device = keep_state
