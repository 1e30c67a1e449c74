"""Storages: the two places where PyTorch's Python code makes or resizes one without an operator.

Both need an allocator of the device, which only C++ can register; without these two patches the
first is a null pointer inside PyTorch. `torch.load`, `copy.deepcopy` and FSDP come this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from trnsim.errors import NotModelled
from trnsim.torch.cores import core_index
from trnsim.torch.faults import program_line
from trnsim.torch.memory import core_memory, place
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from torch import UntypedStorage

_new: Final[Any] = torch.UntypedStorage.__new__
_resize: Final[Any] = torch.UntypedStorage.resize_


def register() -> None:
    """Patch `torch.UntypedStorage`, whose other devices go on as before."""
    patched: Any = torch.UntypedStorage
    patched.__new__ = staticmethod(make)
    patched.resize_ = resize


def make(cls: type[UntypedStorage], *args: Any, **kwargs: Any) -> UntypedStorage:
    """`torch.UntypedStorage(nbytes, device="neuron")`, with memory under it."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type != DEVICE_TYPE:
        storage: UntypedStorage = _new(cls, *args, **kwargs)
        return storage
    core = core_index(device)
    content = args[0] if args else kwargs.get("size", 0)
    if isinstance(content, int):
        core_memory(core).require(content)
        host = torch.empty(content, dtype=torch.uint8, device="cpu")
    else:
        host = torch.tensor(list(content), dtype=torch.uint8, device="cpu")
    return place(host, core).untyped_storage()


def resize(storage: UntypedStorage, size: int) -> UntypedStorage:
    """`UntypedStorage.resize_`: shrinking is accepted and gives no memory back.

    Raises:
        NotModelled: for growth, since other tensors point into the memory.
    """
    if storage.device.type != DEVICE_TYPE:
        result: UntypedStorage = _resize(storage, size)
        return result
    if size > storage.nbytes():
        raise NotModelled(
            f"a neuron storage of {storage.nbytes()} bytes cannot grow to {size}",
            fix="make a new tensor of that size and copy",
            line=program_line(),
        )
    return storage
