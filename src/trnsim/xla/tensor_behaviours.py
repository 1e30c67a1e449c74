"""The behaviours of torch_xla's tensors and modules that differ from PyTorch's on other devices.

- `data_ptr` is the offset within the storage: tensors have no address that a program could use.
- Some elementwise operators take tensors of the host, of any shape; all others refuse them.
- A module that moves between the host and the device has new Parameters. An optimizer that was made
  before trains the old ones, and weights that two modules share are shared no more.
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

__all__ = ["HOST_OPERANDS", "serve"]

_SPELLED: Final = "xla"
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
def serve() -> None:
    """Give tensors and modules these behaviours; a second call does nothing."""
    host_operands.update(HOST_OPERANDS)
    _serve_addresses()
    _serve_modules()
    _serve_seeds()


def _serve_addresses() -> None:
    base: Any = torch._C.TensorBase
    tensor: Any = torch.Tensor
    own_address, own_type, own_device = base.data_ptr, base.type, base.device.__get__

    @wraps(own_address)
    def data_ptr(self: torch.Tensor) -> int:
        if own_device(self).type == DEVICE_TYPE:
            return int(self.storage_offset()) * self.element_size()
        address: int = own_address(self)
        return address

    @wraps(own_type)
    def type_(self: torch.Tensor, *args: Any, **options: Any) -> Any:
        result = own_type(self, *args, **options)
        is_name = isinstance(result, str)
        return result.replace(f".{DEVICE_TYPE}.", f".{_SPELLED}.") if is_name else result

    tensor.data_ptr, tensor.type = data_ptr, type_


def _serve_modules() -> None:
    """Let `Module.to` make new Parameters between the host and the device."""
    patched: Any = torch
    is_compatible = patched._has_compatible_shallow_copy_type
    own_device = torch._C.TensorBase.device.__get__

    @wraps(is_compatible)
    def has_compatible_type(tensor: torch.Tensor, other: torch.Tensor) -> bool:
        types = {own_device(tensor).type, own_device(other).type}
        return len(types) == 1 and bool(is_compatible(tensor, other))

    patched._has_compatible_shallow_copy_type = has_compatible_type


def _serve_seeds() -> None:
    """Let `torch.manual_seed` seed all devices but this one."""
    patched: Any = torch.random
    patched._seed_custom_device = lambda _: None  # `xm.set_rng_state` seeds the device
