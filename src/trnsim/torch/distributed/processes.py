"""Tensors of the device sent to other processes: workers of a DataLoader, queues, `spawn`.

PyTorch shares memory of the CPU with file descriptors that a storage of another device has not.
Here a tensor's bytes are sent, and arrive on the device of the process that receives them, which
has memory of its own: what one process writes no other one sees. Shared memory would have to live
until the other process has opened it, and nobody here would know when.
"""

from __future__ import annotations

from ctypes import string_at
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.multiprocessing import reductions

from trnsim.torch.pytorch import DEVICE_TYPE

_reduce: Final[Any] = reductions.reduce_tensor


def register() -> None:
    """Tensors and parameters are sent so; those of other devices as before."""
    for kind in (Tensor, nn.Parameter):
        ForkingPickler.register(kind, _reduced)


def _reduced(tensor: Tensor) -> Any:
    is_ours = tensor.device.type == DEVICE_TYPE
    if not is_ours or (tensor.requires_grad and not tensor.is_leaf):  # which PyTorch refuses
        return _reduce(tensor)
    host = tensor.detach().cpu().contiguous()
    content = bytearray(string_at(host.data_ptr(), host.nbytes))
    is_parameter = isinstance(tensor, nn.Parameter)
    made = (content, host.dtype, tuple(host.shape), tensor.get_device())
    return _rebuilt, (*made, tensor.requires_grad, is_parameter)


def _rebuilt(
    content: bytearray,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    core: int,
    requires_grad: bool,
    is_parameter: bool,
) -> Tensor:
    flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
    tensor = flat.reshape(shape).to(torch.device(DEVICE_TYPE, core))
    if is_parameter:
        return nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)
