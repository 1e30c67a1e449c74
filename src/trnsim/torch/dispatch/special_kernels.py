"""Kernels of operators that no rule for schemas covers: new tensors, views, copies, scalars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from trnsim.device.call_log import recordings
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.numerics import mode
from trnsim.torch import pytorch
from trnsim.torch.api.core_index import core_index
from trnsim.torch.api.memory import place, require_room_in_hbm
from trnsim.torch.call_recording import note_transfer, recorded_kernel, watched_kernel
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.dispatch.fallback_policy import UNSUPPORTED_DTYPES, count_or_refuse_dtype
from trnsim.torch.dispatch.stochastic_rounding import ROUNDED, round_values
from trnsim.torch.narrowing import bytes_on_device, narrow, narrowed_dtypes
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch import Tensor

_CPU: Final = torch.device("cpu")
_set_storage: Final[Any] = torch.ops.aten.set_.source_Storage_storage_offset

# These use only shape, strides and storage, so the CPU's own kernels work: called on the neuron
# tensor itself, they make true views, which share its storage.
_SAME_ON_EVERY_DEVICE: Final = (
    "as_strided",
    "view",
    "_reshape_alias",
    "unfold",
    "view_as_real",
    "is_set_to",
    "set_.source_Storage_storage_offset",
)

# These compute no values themselves: an operator that they call does, or there are none.
_WITHOUT_VALUES: Final = frozenset(
    {"is_set_to", "set_", "set_.source_Tensor", "set_.source_Storage", "resize_", "record_stream"}
    | {"set_.source_Storage_storage_offset", "_to_copy", "_copy_from_and_resize"}
    | {"_has_compatible_shallow_copy_type", "_nested_tensor_from_mask_left_aligned"}
)


def register(library: Library) -> None:
    """Register the kernels of this file."""
    for name in _SAME_ON_EVERY_DEVICE:
        library.impl(name, _with_watchers(name, _cpu_kernel(name)), "PrivateUse1")
    for name, kernel in _KERNELS.items():
        library.impl(name, _with_watchers(name, kernel), "PrivateUse1")
    library.impl("histc", recorded_kernel("aten::histc", histogram), "PrivateUse1")
    for bit in ("Conjugate", "Negative"):
        # Host aliases carry these bits; resolving them first would copy, and so call this again.
        for name in ("_copy_from", "_copy_from_and_resize"):
            library.impl(name, pytorch.fallthrough, bit)


def _with_watchers(name: str, kernel: Kernel) -> Kernel:
    """`kernel`; if it computes a value, its calls are reported to the watchers of calls."""
    return kernel if name in _WITHOUT_VALUES else watched_kernel(f"aten::{name}", kernel)


def _cpu_kernel(name: str) -> Kernel:
    operator = pytorch.overload(f"aten::{name}")
    if operator is None:
        raise AttributeError(name)
    redispatch = operator.redispatch

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return redispatch(pytorch.CPU_KEYS, *args, **kwargs)

    return kernel


def view_as_complex(tensor: Tensor) -> Tensor:
    """aten::view_as_complex, unless the policy refuses complex numbers."""
    count_or_refuse_dtype(tensor.dtype.to_complex())
    return cast("Tensor", _as_complex(tensor))


_as_complex: Final = _cpu_kernel("view_as_complex")


def _require_room(core: int, elements: int, dtype: torch.dtype | None) -> None:
    """Refuse a tensor that does not fit in HBM, before the host allocates it."""
    element_dtype = dtype or torch.get_default_dtype()
    require_room_in_hbm(bytes_on_device(elements * element_dtype.itemsize, element_dtype), core)


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    memory_format: torch.memory_format | None = None,
    **_: Any,
) -> Tensor:
    """aten::empty.memory_format."""
    core = core_index(device)
    if dtype in UNSUPPORTED_DTYPES:
        count_or_refuse_dtype(dtype)
    _require_room(core, math.prod(size), dtype)
    host = torch.empty(
        size,
        dtype=dtype,
        layout=layout or torch.strided,
        device=_CPU,
        memory_format=memory_format or torch.contiguous_format,
    )
    return place(host, core)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """aten::empty_strided."""
    core = core_index(device)
    _require_room(core, _spanned_elements(size, stride), dtype)
    return place(torch.empty_strided(size, stride, dtype=dtype, device=_CPU), core)


def zero_tensor(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """aten::_efficientzerotensor with memory, which the CPU's lacks and kernels would read."""
    core = core_index(device)
    _require_room(core, math.prod(size), dtype)
    return place(torch.zeros(size, dtype=dtype, device=_CPU), core)


def _spanned_elements(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements between the first and the last element of a strided tensor, both included."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))


def to_copy(tensor: Tensor, *, non_blocking: bool = False, **options: Any) -> Tensor:
    """aten::_to_copy, always blocking.

    PyTorch would make the result of a non-blocking copy to the host in pinned memory, whose
    allocator only C++ can provide.
    """
    del non_blocking
    return cast("Tensor", _to_copy(tensor, **options))


_to_copy: Final = _cpu_kernel("_to_copy")


def copy_from(source: Tensor, destination: Tensor, non_blocking: bool = False) -> Tensor:
    """aten::_copy_from: source, destination or both are on the device, on any cores."""
    del non_blocking
    if pending_faults:
        for core in {source.get_device(), destination.get_device()}:  # the host's is -1
            strike_fault(core)
    if recordings:
        note_transfer(source, destination)
    if mode.kind == "shapes" and not (source.is_cpu or destination.is_cpu):
        return destination
    target = destination if destination.is_cpu else host_alias(destination)
    values = source if source.is_cpu else host_alias(source)
    is_cast = source.dtype is torch.float32 and destination.dtype in ROUNDED
    if mode.is_stochastic and is_cast and not (source.is_cpu or destination.is_cpu):
        values = round_values(values.contiguous(), destination.dtype, destination.get_device())
    target.copy_(values)
    if narrowed_dtypes and not destination.is_cpu:
        narrow(target)
    return destination


def copy_from_and_resize(source: Tensor, destination: Tensor) -> Tensor:
    """aten::_copy_from_and_resize."""
    if destination.shape != source.shape:
        destination.resize_(source.shape)
    return copy_from(source, destination)


def local_scalar(tensor: Tensor) -> complex | bool:
    """aten::_local_scalar_dense: the value of a tensor with one element."""
    if pending_faults:
        strike_fault(tensor.get_device())
    return host_alias(tensor).item()


def resize(
    tensor: Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> Tensor:
    """aten::resize_, without effect on a tensor of that size.

    A storage that is too small is replaced by a larger one; other views keep the old storage.
    """
    if memory_format is None and tensor.shape == tuple(size):
        return tensor
    shape = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
    offset = int(tensor.storage_offset())
    elements = _spanned_elements(size, shape.stride()) + offset
    storage = tensor.untyped_storage()
    if storage.nbytes() < elements * tensor.element_size():
        core = tensor.get_device()
        if pending_faults:
            strike_fault(core)
        _require_room(core, elements, tensor.dtype)
        host = torch.empty(elements, dtype=tensor.dtype, device=_CPU)
        capacity = storage.nbytes() // tensor.element_size()
        host[:capacity].copy_(host_alias(tensor.as_strided((capacity,), (1,), 0)))
        storage = place(host, core).untyped_storage()
    return _point_at(tensor, storage, offset, size, shape.stride())


def _point_at(
    tensor: Tensor,
    storage: torch.UntypedStorage,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """`tensor`, pointed at the memory of another tensor."""
    _set_storage.redispatch(pytorch.CPU_KEYS, tensor, storage, offset, size, stride)
    return tensor


def can_exchange_data(tensor: Tensor, source: Tensor) -> bool:
    """aten::_has_compatible_shallow_copy_type: true if `tensor.data = source` is permitted.

    PyTorch permits it on its own devices. If it were refused, `Module.to` would make new parameters
    and an optimizer created before would train the old ones.
    """
    return tensor.layout is source.layout


def histogram(tensor: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002  PyTorch's names
    """aten::histc, also of integers, which CUDA has and the CPU lacks (experts are counted so)."""
    return place(host_histogram(host_alias(tensor), bins, min, max), tensor.get_device())


def host_histogram(host: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002  likewise
    """`histogram` on host tensors."""
    counts = torch.histc(host if host.is_floating_point() else host.float(), bins, min, max)
    return counts.to(host.dtype)


def is_left_aligned(tensor: Tensor, mask: Tensor) -> bool:
    """aten::_nested_tensor_from_mask_left_aligned: False.

    nn.TransformerEncoder asks before it makes a nested tensor, which this device does not have.
    """
    del tensor, mask
    return False


def set_to_tensor(tensor: Tensor, source: Tensor) -> Tensor:
    """aten::set_.source_Tensor."""
    storage, offset = source.untyped_storage(), int(source.storage_offset())
    return _point_at(tensor, storage, offset, source.size(), source.stride())


def set_to_storage(tensor: Tensor, source: torch.UntypedStorage) -> Tensor:
    """aten::set_.source_Storage."""
    elements = source.nbytes() // tensor.element_size()
    return _point_at(tensor, source, 0, (elements,), (1,))


def set_to_nothing(tensor: Tensor) -> Tensor:
    """aten::set_: no elements, no storage."""
    return set_to_tensor(tensor, tensor.new_empty(0))


def record_stream(tensor: Tensor, stream: Any) -> None:
    """aten::record_stream: do nothing, as streams have no pending work."""
    del tensor, stream


_KERNELS: Final[dict[str, Kernel]] = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zero_tensor,
    "_to_copy": to_copy,
    "_copy_from": copy_from,
    "_copy_from_and_resize": copy_from_and_resize,
    "_local_scalar_dense": local_scalar,
    "_has_compatible_shallow_copy_type": can_exchange_data,
    "_nested_tensor_from_mask_left_aligned": is_left_aligned,
    "record_stream": record_stream,
    "view_as_complex": view_as_complex,
    "resize_": resize,
    "set_.source_Tensor": set_to_tensor,
    "set_.source_Storage": set_to_storage,
    "set_": set_to_nothing,
}

HOST_FUNCTIONS: Final = {"aten::histc": host_histogram, "aten::_efficientzerotensor": torch.zeros}
"""Functions for operators in graphs that the host runs, where the CPU's own refuses some dtypes or
returns a tensor without memory."""
