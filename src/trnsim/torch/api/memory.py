"""The HBM of each device: what lives in it, for how long, and what does not fit.

Every storage counts with the bytes that its tensors need, from its making to the death of its last
tensor. The runtime's own needs (compiled programs, DMA rings, scratchpads) do not count yet.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import torch

from trnsim.torch.api.cores import (
    Device,
    core_index,
    device_core,
    no_such_core,
    target,
    visible_cores,
)
from trnsim.torch.dispatch.alias import neuron_alias
from trnsim.torch.dispatch.policy import LACKING, admit
from trnsim.torch.faults import OperatorNotModelled, OutOfDeviceMemory, program_line

if TYPE_CHECKING:
    from torch import Tensor

    from trnsim.errors import SourceLine

_GIB: Final = 1024**3
_MIB: Final = 1024**2
# Walking the stack costs as much as a small operator, so only tensors that can matter pay for it.
_LINE_FROM_BYTES: Final = _MIB
_ROWS: Final = 12


class Allocation(weakref.ref["torch.UntypedStorage"]):
    """One storage in HBM.

    A weak reference to the CPU storage under it: PyTorch keeps that until the last neuron tensor
    over it is gone, so its death is the release.
    """

    __slots__ = ("dtype", "key", "line", "nbytes", "shape")

    key: int
    nbytes: int
    shape: torch.Size
    dtype: torch.dtype
    line: SourceLine | None


class CoreMemory:
    """The HBM that one device has, and what holds it."""

    def __init__(self, core: int, capacity_bytes: int, source: str) -> None:
        self.core = core
        self.capacity_bytes = capacity_bytes
        self.source = source
        self.live_bytes = 0
        self.peak_bytes = 0
        self.refusals = 0
        self.allocations: dict[int, Allocation] = {}

    def require(self, nbytes: int) -> None:
        """Refuse what does not fit, before the host spends memory on it.

        Raises:
            OutOfDeviceMemory: with a table of what holds the memory.
        """
        if self.live_bytes + nbytes <= self.capacity_bytes:
            return
        self.refusals += 1
        raise OutOfDeviceMemory(
            f"neuron:{self.core} ran out of memory: {_size(nbytes)} asked for, "
            f"{_size(self.live_bytes)} of {_size(self.capacity_bytes)} in use ({target().name})"
            f"\n{self.table()}",
            fix="a smaller batch, activation checkpointing, or a sharded model",
            source=self.source,
            line=program_line(),
        )

    def hold(self, host: Tensor) -> None:
        """Count the storage under `host` until it dies; once, whatever tensors lie in it."""
        storage = host.untyped_storage()
        key = id(storage)
        if key in self.allocations:
            return
        nbytes = storage.nbytes()
        if self.live_bytes + nbytes > self.capacity_bytes:
            self.require(nbytes)
        allocation = Allocation(storage, self._release)
        allocation.key = key
        allocation.nbytes = nbytes
        allocation.shape = host.shape
        allocation.dtype = host.dtype
        allocation.line = program_line() if nbytes >= _LINE_FROM_BYTES else None
        self.allocations[key] = allocation
        # Without a call in between no other thread runs: updates cannot be lost under the GIL.
        self.live_bytes += nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _release(self, allocation: Any) -> None:
        self.live_bytes -= self.allocations.pop(allocation.key).nbytes

    def table(self) -> str:
        """What holds the memory: tensors alike are one row, the largest rows first."""
        held: defaultdict[tuple[str, str], int] = defaultdict(int)
        counts: Counter[tuple[str, str]] = Counter()
        for allocation in list(self.allocations.values()):
            what = f"{str(allocation.dtype).removeprefix('torch.')}{list(allocation.shape)}"
            key = (what, str(allocation.line or ""))
            held[key] += allocation.nbytes
            counts[key] += 1
        rows = sorted(held, key=lambda key: held[key], reverse=True)
        lines = [f"{'bytes':>12} {'tensors':>8}  shape, and where it was made"]
        lines += [
            f"{_size(held[row]):>12} {counts[row]:>8}  {row[0]}  {row[1]}".rstrip()
            for row in rows[:_ROWS]
        ]
        rest = rows[_ROWS:]
        if rest:
            number = sum(counts[row] for row in rest)
            lines.append(f"{_size(sum(held[row] for row in rest)):>12} {number:>8}  others")
        return "\n".join(lines)


def _size(nbytes: int) -> str:
    """Bytes for a reader: "1.50 GiB"."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} B"


_memories: list[CoreMemory] = []


def core_memory(core: int) -> CoreMemory:
    """The memory of neuron:`core`.

    Raises:
        NoSuchCore: if there is no such core.
    """
    if not _memories:
        made = device_core()
        _memories.extend(
            CoreMemory(core, made.hbm_bytes, made.source) for core in range(len(visible_cores()))
        )
    if not 0 <= core < len(_memories):
        raise no_such_core(core)
    return _memories[core]


def is_used() -> bool:
    """Whether any tensor was ever made on the device."""
    return any(memory.peak_bytes for memory in _memories)


def place(host: Tensor, core: int) -> Tensor:
    """The tensor on neuron:`core` over a CPU tensor that nobody else uses; no copy is made.

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
    if host.dtype in LACKING:
        admit(host.dtype)
    if host.is_conj() or host.is_neg():
        host = host.resolve_conj().resolve_neg()
    core_memory(core).hold(host)
    return neuron_alias(host, core)


def memory_allocated(device: Device = None) -> int:
    """Bytes of HBM that live tensors hold."""
    return core_memory(core_index(device)).live_bytes


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that were held at once since the last reset."""
    return core_memory(core_index(device)).peak_bytes


def memory_reserved(device: Device = None) -> int:
    """As `memory_allocated`: this device keeps no pool beyond what tensors hold."""
    return memory_allocated(device)


def max_memory_reserved(device: Device = None) -> int:
    """As `max_memory_allocated`: this device keeps no pool beyond what tensors hold."""
    return max_memory_allocated(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Let the peak begin at what is held now."""
    memory = core_memory(core_index(device))
    memory.peak_bytes = memory.live_bytes


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of HBM."""
    memory = core_memory(core_index(device))
    return memory.capacity_bytes - memory.live_bytes, memory.capacity_bytes


def memory_stats(device: Device = None) -> dict[str, int]:
    """The figures that training programs log, under the names that `torch.cuda` gives them."""
    memory = core_memory(core_index(device))
    stats = {"num_alloc_retries": 0, "num_ooms": memory.refusals}
    for kind in ("allocated_bytes", "active_bytes", "reserved_bytes"):
        stats[f"{kind}.all.current"] = memory.live_bytes
        stats[f"{kind}.all.peak"] = memory.peak_bytes
    return stats


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """What holds the HBM, as a table; `abbreviated` leaves the rows out."""
    memory = core_memory(core_index(device))
    head = (
        f"neuron:{memory.core} ({target().name}, {target().core.name}): "
        f"{_size(memory.live_bytes)} of {_size(memory.capacity_bytes)} in use, "
        f"peak {_size(memory.peak_bytes)}"
    )
    return head if abbreviated else f"{head}\n{memory.table()}"


def empty_cache() -> None:
    """Nothing: this device keeps no pool beyond what tensors hold."""
