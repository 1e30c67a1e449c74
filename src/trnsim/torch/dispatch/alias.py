"""Aliases: a neuron tensor and a CPU tensor over the same memory.

A DLPack capsule of PyTorch's holds the tensor's device. Rewriting it between export and import
gives a genuine tensor of the new device over the same bytes, without a copy and without a
compiler: it dispatches to the device's kernels, has a real storage, and keeps its origin alive.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from trnsim.errors import InternalError
from trnsim.torch.pytorch import from_dlpack, negative_view, to_dlpack

if TYPE_CHECKING:
    from torch import Tensor

# DLTensor begins {void* data; int32 device_type; int32 device_id; ...} in the unversioned capsule
# that `to_dlpack` makes: dlpack.h, struct DLTensor. Both numbers are one little-endian int64.
_DEVICE_OFFSET: Final = 8
_INDEX_SHIFT: Final = 32
_TYPE_MASK: Final = 0xFFFFFFFF
_CPU_TYPE: Final = 1  # dlpack.h: kDLCPU
_NEURON_TYPE: Final = 12  # dlpack.h: kDLExtDev, which PyTorch reads as its free device type

_int64_at: Final = ctypes.c_int64.from_address
# A capsule is an object head followed by the pointer (pycapsule.c); PyCapsule_GetPointer takes
# twice the time.
_POINTER_OFFSET: Final = object.__basicsize__


def neuron_alias(host: Tensor, core: int) -> Tensor:
    """The tensor on neuron:`core` that shares the memory of a CPU tensor."""
    capsule = to_dlpack(host)
    device = _int64_at(_int64_at(id(capsule) + _POINTER_OFFSET).value + _DEVICE_OFFSET)
    if device.value != _CPU_TYPE:
        raise _foreign_device_error(host)
    device.value = core << _INDEX_SHIFT | _NEURON_TYPE
    return from_dlpack(capsule)


def host_alias(tensor: Tensor) -> Tensor:
    """The CPU tensor with the memory and the value of a neuron tensor.

    Conjugation and negation are bits on a tensor that DLPack does not carry; copies and matmul
    reach a device with the bits still set.
    """
    capsule = to_dlpack(tensor)
    device = _int64_at(_int64_at(id(capsule) + _POINTER_OFFSET).value + _DEVICE_OFFSET)
    if device.value & _TYPE_MASK != _NEURON_TYPE:
        raise _foreign_device_error(tensor)
    device.value = _CPU_TYPE
    host = from_dlpack(capsule)
    if tensor.is_conj():
        host = host.conj()
    return negative_view(host) if tensor.is_neg() else host


def on_host(tensor: Tensor) -> Tensor:
    """A CPU tensor itself, and the `host_alias` of a neuron tensor."""
    return tensor if tensor.is_cpu else host_alias(tensor)


def host_aliases(tensors: Sequence[Any], core: int) -> list[Tensor] | None:
    """`host_alias` of each operand in a list; None if any is not a tensor on neuron:`core`.

    The bits of conjugation and negation need no check: PyTorch resolves those of lists before they
    reach a device. Source: pytorch aten/src/ATen/ConjugateFallback.cpp and NegateFallback.cpp,
    which exempt no operator with a list.
    """
    expected = core << _INDEX_SHIFT | _NEURON_TYPE
    hosts: list[Tensor] = []
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            return None
        capsule = to_dlpack(tensor)
        device = _int64_at(_int64_at(id(capsule) + _POINTER_OFFSET).value + _DEVICE_OFFSET)
        if device.value != expected:
            return None
        device.value = _CPU_TYPE
        hosts.append(from_dlpack(capsule))
    return hosts


def _foreign_device_error(tensor: Tensor) -> InternalError:
    """The error for a tensor of a third device, whose pointer PyTorch could not read."""
    return InternalError(
        f"a tensor of {tuple(tensor.shape)} on {tensor.device} was taken for one of "
        f"{torch.device('cpu')} or neuron"
    )
