"""PyTorch's tensors in the HBM of their device, and the memory functions of `torch.neuron`.

The owner of an allocation is the CPU storage under a neuron tensor, which PyTorch keeps until the
last neuron tensor over it is freed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import torch

from trnsim.device.device_core import logical_config
from trnsim.device.hbm import device_memory
from trnsim.device.program_line import program_line
from trnsim.torch.api.core_index import Device, core_index
from trnsim.torch.device_errors import OperatorNotModelled, OutOfDeviceMemory
from trnsim.torch.dispatch.alias import neuron_alias
from trnsim.torch.dispatch.fallback_policy import UNSUPPORTED_DTYPES, count_or_refuse_dtype
from trnsim.torch.narrowing import bytes_on_device

if TYPE_CHECKING:
    from torch import Tensor


placement_listeners: Final[list[Callable[[Tensor], None]]] = []
"""Functions that are called with the host's tensor of each new storage."""


def require_room_in_hbm(nbytes: int, core: int) -> None:
    """Refuse an allocation that does not fit on neuron:`core`, before the host allocates it.

    Raises:
        OutOfDeviceMemory: with a table of the tensors in memory.
    """
    device_memory(core).require_room(nbytes, OutOfDeviceMemory)


def hold(host: Tensor, core: int) -> None:
    """Count the storage under `host` until it is freed, once for all tensors that share it.

    Raises:
        OutOfDeviceMemory: if the core has no room for it.
    """
    memory = device_memory(core)
    storage = host.untyped_storage()
    if memory.holds(storage):
        return
    nbytes = bytes_on_device(storage.nbytes(), host.dtype)
    memory.require_room(nbytes, OutOfDeviceMemory)
    memory.hold(storage, nbytes, host.shape, host.dtype)
    for tell in [*placement_listeners]:
        tell(host)


def place(host: Tensor, core: int) -> Tensor:
    """The tensor on neuron:`core` over the memory of a CPU tensor that nothing else uses.

    Raises:
        OutOfDeviceMemory: if the core has no room for it.
        OperatorNotModelled: for a tensor without one strided storage, such as a sparse one.
    """
    if host.layout is not torch.strided or host.is_quantized or host.is_nested:
        raise OperatorNotModelled(
            f"a neuron tensor of layout {host.layout}, {host.dtype} is not modelled",
            fix="use dense tensors, or compute this part on the CPU",
            line=program_line(),
        )
    if host.dtype in UNSUPPORTED_DTYPES:
        count_or_refuse_dtype(host.dtype)
    if host.is_conj() or host.is_neg():
        host = host.resolve_conj().resolve_neg()
    hold(host, core)
    return neuron_alias(host, core)


def memory_allocated(device: Device = None) -> int:
    """Bytes of HBM that live tensors hold."""
    return device_memory(core_index(device)).live_bytes


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that were held at once since the last reset."""
    return device_memory(core_index(device)).peak_bytes


def memory_reserved(device: Device = None) -> int:
    """`memory_allocated`: this device keeps no pool beyond the memory of tensors."""
    return memory_allocated(device)


def max_memory_reserved(device: Device = None) -> int:
    """`max_memory_allocated`: this device keeps no pool beyond the memory of tensors."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Set the peak to the bytes held now."""
    device_memory(core_index(device)).reset_peak()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of HBM."""
    memory = device_memory(core_index(device))
    return memory.capacity_bytes - memory.live_bytes, memory.capacity_bytes


def memory_stats(device: Device = None) -> dict[str, int]:
    """The figures that training programs log, under `torch.cuda`'s names.

    HBM use beside tensors has neuron-monitor's names: "constants_bytes.all.current",
    "model_code_bytes.all.current" and so on (`trnsim.device.hbm_use`).
    """
    from trnsim.device.hbm_use import by_category  # noqa: PLC0415  few programs ask

    core = core_index(device)
    memory = device_memory(core)
    stats = {"num_alloc_retries": 0, "num_ooms": memory.refusals}
    for kind in ("allocated_bytes", "active_bytes", "reserved_bytes"):
        stats[f"{kind}.all.current"] = memory.live_bytes
        stats[f"{kind}.all.peak"] = memory.peak_bytes
    for category, nbytes in by_category(core, logical_config()).items():
        stats[f"{category}_bytes.all.current"] = int(nbytes)
    return stats


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The bytes of HBM in use, with a table of the tensors unless `abbreviated`."""
    memory = device_memory(core_index(device))
    head = memory.summary()
    return head if abbreviated else f"{head}\n{memory.table()}"


def empty_cache() -> None:
    """Do nothing: this device keeps no pool beyond the memory of tensors."""
