"""The HBM of each device: the tensors in it, its peak, and the error where one does not fit.

A storage counts with the bytes that its tensors need, from its allocation until its last tensor is
freed. Memory of programs and of the runtime takes no room here; `hbm_use` accounts for it.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final, Protocol

from trnsim.device.device_core import device_core, no_such_core, target, visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import OutOfMemory, SourceLine

_GIB: Final = 1024**3
_MIB: Final = 1024**2
# Walking the stack costs as much as a small operator, so only large tensors are traced to a line.
LINE_FROM_BYTES: Final = _MIB
"""The least size of a tensor for which the line of the program is looked up."""
_TABLE_ROWS: Final = 12


class HbmEntry(Protocol):
    """A tensor or another block of bytes in HBM."""

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        ...

    @property
    def shape(self) -> Sequence[int]:
        """The lengths of its dimensions."""
        ...

    @property
    def dtype(self) -> object:
        """The dtype of its elements."""
        ...

    @property
    def line(self) -> SourceLine | None:
        """The line of the program that made it; None for a small one."""
        ...


class Allocation(weakref.ref[Any]):
    """A storage in HBM.

    A weak reference to its owner, an object of the framework that lives as long as any tensor over
    the storage: when the owner dies, the storage is released.
    """

    __slots__ = ("dtype", "key", "line", "nbytes", "shape")

    key: int
    nbytes: int
    shape: Sequence[int]
    dtype: object
    line: SourceLine | None


class DeviceMemory:
    """The HBM of one device, and the storages in it."""

    def __init__(self, core: int, capacity_bytes: int, source: str) -> None:
        self.core = core
        self.capacity_bytes = capacity_bytes
        self.source = source
        self.live_bytes = 0
        self.peak_bytes = 0
        self.refusals = 0
        self.allocations: dict[int, HbmEntry] = {}

    def require_room(self, nbytes: int, error_class: type[OutOfMemory] = OutOfMemory) -> None:
        """Refuse an allocation that does not fit, before the host allocates it.

        Raises:
            OutOfMemory: or `error_class`, the framework's own, with a table of what is held.
        """
        if self.live_bytes + nbytes <= self.capacity_bytes:
            return
        self.refusals += 1
        raise error_class(
            f"neuron:{self.core} ran out of memory: {_size_text(nbytes)} asked for, "
            f"{_size_text(self.live_bytes)} of {_size_text(self.capacity_bytes)} in use "
            f"({target().name})\n{self.table()}",
            fix="a smaller batch, activation checkpointing, or a sharded model",
            source=self.source,
            line=program_line(),
        )

    def holds(self, owner: object) -> bool:
        """True if the storage of `owner` is counted."""
        return id(owner) in self.allocations

    def hold(self, owner: object, nbytes: int, shape: Sequence[int], dtype: object) -> None:
        """Count a storage until `owner` is freed; shape and dtype are those of its first tensor."""
        allocation = Allocation(owner, self._release)
        allocation.key = id(owner)
        allocation.nbytes = nbytes
        allocation.shape = shape
        allocation.dtype = dtype
        allocation.line = program_line() if nbytes >= LINE_FROM_BYTES else None
        self.count(allocation.key, allocation, nbytes)

    def _release(self, allocation: Any) -> None:
        self.release(allocation.key)

    def count(self, key: int, entry: HbmEntry, nbytes: int) -> None:
        """Count an entry until `release` of its key, the `id` of an object that lives as long."""
        self.allocations[key] = entry
        # Without a call in between no other thread runs: updates cannot be lost under the GIL.
        live_bytes = self.live_bytes = self.live_bytes + nbytes
        if live_bytes > self.peak_bytes:  # noqa: PLR1730  a call less
            self.peak_bytes = live_bytes

    def release(self, key: int) -> None:
        """Count an entry no more; nothing happens where that was done before."""
        entry = self.allocations.pop(key, None)
        if entry is not None:
            nbytes = entry.nbytes
            self.live_bytes -= nbytes

    def reset_peak(self) -> None:
        """Set the peak to the bytes held now."""
        self.peak_bytes = self.live_bytes

    def summary(self) -> str:
        """The bytes held, in a line."""
        chip = target()
        return (
            f"neuron:{self.core} ({chip.name}, {chip.core.name}): {_size_text(self.live_bytes)} of "
            f"{_size_text(self.capacity_bytes)} in use, peak {_size_text(self.peak_bytes)}"
        )

    def table(self) -> str:
        """A table of the tensors held: equal ones share a row, the largest rows come first."""
        row_bytes: defaultdict[tuple[str, str], int] = defaultdict(int)
        counts: Counter[tuple[str, str]] = Counter()
        for allocation in list(self.allocations.values()):
            tensor_text = f"{str(allocation.dtype).rpartition('.')[2]}{list(allocation.shape)}"
            key = (tensor_text, str(allocation.line or ""))
            row_bytes[key] += allocation.nbytes
            counts[key] += 1
        rows = sorted(row_bytes, key=lambda key: row_bytes[key], reverse=True)
        lines = [f"{'bytes':>12} {'tensors':>8}  shape, and where it was made"]
        lines += [
            f"{_size_text(row_bytes[row]):>12} {counts[row]:>8}  {row[0]}  {row[1]}".rstrip()
            for row in rows[:_TABLE_ROWS]
        ]
        other_rows = rows[_TABLE_ROWS:]
        if other_rows:
            count = sum(counts[row] for row in other_rows)
            nbytes = sum(row_bytes[row] for row in other_rows)
            lines.append(f"{_size_text(nbytes):>12} {count:>8}  others")
        return "\n".join(lines)


def _size_text(nbytes: int) -> str:
    """Bytes for a reader: "1.50 GiB"."""
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} B"


_memories: list[DeviceMemory] = []
_watch_begun: Final[list[bool]] = []
"""[True] once this process uses a device and its state is kept; [] again in a fork."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watch_begun.clear)


def device_memory(core: int) -> DeviceMemory:
    """The memory of neuron:`core`.

    Raises:
        NoSuchCore: if there is no such core.
    """
    if not _watch_begun:
        _watch_begun.append(True)
        from trnsim.device import watch  # noqa: PLC0415  which reads these memories

        watch.begin()
    if not _memories:
        neuron_core = device_core()
        _memories.extend(
            DeviceMemory(core, neuron_core.hbm_bytes, neuron_core.source)
            for core in range(len(visible_cores()))
        )
    if not 0 <= core < len(_memories):
        raise no_such_core(core)
    return _memories[core]


def used_memories() -> list[DeviceMemory]:
    """The memories of this process's devices; empty before the first use."""
    return list(_memories)


def is_used() -> bool:
    """True if any tensor was ever made on the device."""
    return any(memory.peak_bytes for memory in _memories)
