"""Transfer of tensors of the device to other processes: DataLoader workers, queues, `spawn`.

PyTorch shares CPU memory by file descriptors, which storages of other devices lack. Here a tensor's
bytes are sent, and become a tensor on the receiving process's device with its own memory: writes of
a process are invisible to others. Shared memory would have to live until the receiver has opened
it, and the sender cannot know when that is.
"""

from __future__ import annotations

from ctypes import string_at
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.multiprocessing import reductions

from trnsim.torch.device_name import DEVICE_TYPE, is_neuron
from trnsim.torch.dispatch.host_arrays import tensor_of_bytes

_reduce: Final[Any] = reductions.reduce_tensor


def register() -> None:
    """Register this way of sending for tensors and parameters; other devices keep PyTorch's."""
    for kind in (Tensor, nn.Parameter):
        ForkingPickler.register(kind, _reduce_tensor)


def _reduce_tensor(tensor: Tensor) -> Any:
    is_ours = is_neuron(tensor.device)
    if not is_ours or (tensor.requires_grad and not tensor.is_leaf):  # PyTorch refuses the latter
        return _reduce(tensor)
    host = tensor.detach().cpu().contiguous()
    content = bytearray(string_at(host.data_ptr(), host.nbytes))
    is_parameter = isinstance(tensor, nn.Parameter)
    rebuild_args = (content, host.dtype, tuple(host.shape), tensor.get_device())
    return _rebuild_tensor, (*rebuild_args, tensor.requires_grad, is_parameter)


def _rebuild_tensor(
    content: bytearray,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    core: int,
    requires_grad: bool,
    is_parameter: bool,
) -> Tensor:
    host = tensor_of_bytes(content, dtype).reshape(shape)
    tensor = host.to(torch.device(DEVICE_TYPE, core))
    if is_parameter:
        return nn.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)
