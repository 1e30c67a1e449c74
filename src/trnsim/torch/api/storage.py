"""Patches of `torch.UntypedStorage`, which PyTorch creates and resizes without an operator.

Both need an allocator of the device, which only C++ can register; without these two patches a new
storage is a null pointer inside PyTorch. `torch.load`, `copy.deepcopy` and FSDP create and resize
storages. Other patches move storages to every core, report a resized storage's bytes, and keep
`Tensor.new` and `Tensor.new_tensor` on the tensor's core.

Pinned memory would need another such allocator. Here it is ordinary memory with a mark, so that
`is_pinned` is true: a program that reads False pins again, and goes on with a copy that other
holders of the tensor do not see.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import torch

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled
from trnsim.torch import pytorch
from trnsim.torch.api.core_index import core_index
from trnsim.torch.api.memory import place, require_room_in_hbm
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron
from trnsim.torch.pytorch import Library

if TYPE_CHECKING:
    from torch import Tensor, UntypedStorage

_torch_new: Final[Any] = torch.UntypedStorage.__new__
_torch_resize: Final[Any] = torch.UntypedStorage.resize_
_torch_to: Final[Any] = torch.UntypedStorage.to
_torch_nbytes: Final[Any] = torch.UntypedStorage.nbytes
_record_stream: Final[Any] = torch.Tensor.record_stream


class _Marks(dict[int, tuple["weakref.ref[UntypedStorage]", int]]):
    """A number of each marked storage, by its `id`, until the storage is freed."""

    def put(self, storage: UntypedStorage, number: int) -> None:
        """Mark a storage."""
        key = id(storage)
        self[key] = weakref.ref(storage, lambda _: self.pop(key, None)), number


_pinned: Final = _Marks()
"""Pinned storages; the number has no meaning."""
_resized: Final = _Marks()
"""Resized storages, with their sizes in bytes."""


def register(library: Library) -> None:
    """Patch `torch.UntypedStorage` for this device alone, and pinned memory."""
    for name, kernel in {"_pin_memory": pin_memory, "is_pinned": is_pinned}.items():
        library.impl(name, kernel, "CPU", allow_override=True)
    storage_class: Any = torch.UntypedStorage
    storage_class.__new__ = staticmethod(new_storage)
    storage_class.resize_ = resize
    storage_class.to = to
    storage_class.nbytes = storage_class.size = nbytes
    tensor_class: Any = torch.Tensor
    tensor_class.record_stream = record_stream
    for name in ("new", "new_tensor"):
        setattr(tensor_class, name, _on_own_core(getattr(tensor_class, name)))


def new_storage(cls: type[UntypedStorage], *args: Any, **kwargs: Any) -> UntypedStorage:
    """`torch.UntypedStorage(nbytes, device="neuron")` with allocated memory."""
    device = kwargs.get("device")
    if device is None or not is_neuron(torch.device(device)):
        storage: UntypedStorage = _torch_new(cls, *args, **kwargs)
        return storage
    core = core_index(device)
    content = args[0] if args else kwargs.get("size", 0)
    if isinstance(content, int):
        require_room_in_hbm(content, core)
        host = torch.empty(content, dtype=torch.uint8, device="cpu")
        return place(host, core).untyped_storage()
    elements = torch.tensor(list(content), dtype=torch.uint8, device="cpu")
    return elements.to(torch.device(DEVICE_TYPE, core)).untyped_storage()


def resize(storage: UntypedStorage, size: int) -> UntypedStorage:
    """`UntypedStorage.resize_`: the reported size changes, but no memory is freed.

    Raises:
        BadInput: for a negative size.
        NotModelled: for more bytes than it was created with, since tensors point into its memory.
    """
    if not is_neuron(storage.device):
        result: UntypedStorage = _torch_resize(storage, size)
        return result
    capacity_bytes = _torch_nbytes(storage)
    if size < 0:
        raise BadInput(
            f"resize_({size}) of a storage; legal: 0 to {capacity_bytes} bytes",
            fix="resize_(0), or the bytes of the elements that are kept",
            line=program_line(),
        )
    if size > capacity_bytes:
        raise NotModelled(
            f"a neuron storage of {capacity_bytes} bytes cannot grow to {size}",
            fix="make a new tensor of that size and copy",
            line=program_line(),
        )
    _resized.put(storage, size)
    return storage


def to(
    storage: UntypedStorage, *, device: torch.device | str, non_blocking: bool = False
) -> UntypedStorage:
    """`UntypedStorage.to` on any core; PyTorch's own would make the device current."""
    if not is_neuron(torch.device(device)):
        result: UntypedStorage = _torch_to(storage, device=device, non_blocking=non_blocking)
        return result
    target = torch.device(DEVICE_TYPE, core_index(torch.device(device)))
    if storage.device == target:
        return storage
    return new_storage(torch.UntypedStorage, storage.nbytes(), device=target).copy_(
        storage, non_blocking
    )


def nbytes(storage: UntypedStorage) -> int:
    """`UntypedStorage.nbytes`, by which FSDP decides whether to gather a freed storage again."""
    mark = _resized.get(id(storage))
    nbytes: int = _torch_nbytes(storage) if mark is None else mark[1]
    return nbytes


def record_stream(tensor: Tensor, stream: Any) -> None:
    """`Tensor.record_stream`: do nothing, since all work on the memory has ended.

    PyTorch's own accepts only streams created in C++.
    """
    if not is_neuron(tensor.device):
        _record_stream(tensor, stream)


def _on_own_core(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method that makes a tensor on the core of its own tensor, where no device is named.

    PyTorch's own would make it on the current device, which is always neuron:0.
    """

    @wraps(method)
    def make_tensor(tensor: Tensor, *args: Any, **options: Any) -> Tensor:
        if tensor.get_device() > 0 and is_neuron(tensor.device) and options.get("device") is None:
            options["device"] = tensor.device
        return method(tensor, *args, **options)

    return make_tensor


def pin_memory(tensor: Tensor, device: torch.device | None = None) -> Tensor:
    """aten::_pin_memory: a copy whose storage is marked until it is freed."""
    del device
    pinned_copy = tensor.clone()
    _pinned.put(pinned_copy.untyped_storage(), 1)
    return pinned_copy


def pin_from_now_on() -> None:
    """Make `pin_memory=True` work for factories of host tensors, which C++ would refuse.

    All host tensors are then created through Python, so this waits until it is first needed.
    """
    if not _pinning_libraries:
        _pinning_libraries.append(pytorch.new_library("aten"))
        for name in ("empty.memory_format", "empty_strided"):
            _pinning_libraries[0].impl(name, _pinning_factory(name), "CPU", allow_override=True)


_pinning_libraries: Final[list[Any]] = []


def _pinning_factory(name: str) -> Any:
    new_storage = pytorch.host_kernel(f"aten::{name}")

    def factory(*args: Any, pin_memory: bool | None = None, **options: Any) -> Tensor:
        tensor: Tensor = new_storage(*args, **options)
        if pin_memory:
            _pinned.put(tensor.untyped_storage(), 1)
        return tensor

    return factory


def is_pinned(tensor: Tensor, device: torch.device | None = None) -> bool:
    """aten::is_pinned: true if the storage of a CPU tensor is marked."""
    del device
    return id(tensor.untyped_storage()) in _pinned
