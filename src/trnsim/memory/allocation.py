"""Allocation of storages in the HBM, SBUF and PSUM of one NeuronCore."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from trnsim.arch import NeuronCore, advised, has_dtype, where
from trnsim.arch.kept import KeptByCore
from trnsim.dtypes import Array, Dtype
from trnsim.errors import IllegalInstruction, InternalError, OutOfMemory, user_line
from trnsim.memory.access import AccessPattern
from trnsim.memory.capacity import capacity_bytes, capacity_source
from trnsim.memory.layout import TileLayout, layout_of
from trnsim.memory.place import MemoryPlaces
from trnsim.memory.storage import Memory, PlacedStorage, Storage

_NDARRAY = "nki.language.ndarray"
_BYTE: Final = np.dtype(np.uint8)
"""numpy finds a dtype for the type `np.uint8` anew in each call."""


@dataclass(slots=True)
class HbmBytes:
    """Bytes that a kernel holds in HBM.

    Attributes:
        tensors: the kernel's arguments, and tensors in shared HBM.
        constants: arrays that are part of the program.
        scratchpad: tensors in private HBM, each at an address of its own.
    """

    tensors: int = 0
    constants: int = 0
    scratchpad: int = 0


class SharedTensors:
    """Tensors in shared HBM: the n-th allocation of each core is the same tensor."""

    def __init__(self) -> None:
        self._allocated: list[tuple[Storage, TileLayout, Dtype]] = []

    def get_or_allocate(
        self,
        number: int,
        shape: tuple[int, ...],
        dtype: Dtype,
        allocate: Callable[[], tuple[Storage, TileLayout]],
    ) -> tuple[Storage, TileLayout]:
        """Tensor `number`, allocated by the first core that requests it.

        Raises:
            IllegalInstruction: if the cores request different shapes or dtypes.
        """
        if number == len(self._allocated):
            storage, layout = allocate()
            storage.is_shared = True
            self._allocated.append((storage, layout, dtype))
        storage, layout, first_dtype = self._allocated[number]
        if layout.pattern.shape != shape or first_dtype != dtype:
            raise IllegalInstruction(
                f"shared HBM tensor {number} is {list(shape)} {dtype} on this core and "
                f"{list(layout.pattern.shape)} {first_dtype} on the other",
                fix="allocate the same shared tensors in the same order on both cores",
                source=_NDARRAY,
            )
        return storage, layout


class CoreMemory:
    """The memories of one NeuronCore.

    Tensors without an address get a storage of their own, and `program.liveness` checks afterwards,
    on the recorded program, that they fit together. Tensors with an address share one storage per
    memory, so that tensors at overlapping addresses share bytes.

    Attributes:
        hbm: bytes allocated in HBM so far.
    """

    def __init__(
        self, core: NeuronCore, *, has_values: bool, shared: SharedTensors | None = None
    ) -> None:
        self._shared = shared
        self._shared_count = 0
        self._core = core
        self._has_values = has_values
        self._roots: dict[Memory, Storage] = {}
        self._places: defaultdict[Memory, MemoryPlaces] = defaultdict(MemoryPlaces)
        self._placed_layouts: dict[tuple[object, ...], TileLayout] = {}
        self._sizes = _LEGAL_SIZES.on(core)
        self._loop_storages: list[Storage] | None = None
        self.hbm = HbmBytes()

    def capacity_bytes(self, memory: Memory) -> int:
        """Bytes per partition of an on-chip memory; bytes of the logical core's HBM."""
        return capacity_bytes(self._core, memory)

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: Dtype,
        memory: Memory,
        *,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> tuple[Storage, TileLayout]:
        """A storage for a tensor of `shape`, and the tensor's layout within it.

        Args:
            shape: lengths; on chip the first is the number of partitions.
            dtype: format of the elements.
            memory: HBM, SBUF or PSUM.
            name: the user's name for it.
            address: (first partition, byte offset within the partition) on chip.

        Raises:
            IllegalInstruction: more partitions than the core has, or an empty shape.
            OutOfMemory: the tensor alone exceeds the memory.
        """
        # Tensors of one kind are checked once on a core.
        kind = (shape, dtype.name, dtype.dtype, memory)
        size = self._sizes.get(kind)
        if size is None:
            self._check_tensor(shape, dtype, memory)
            size = self._sizes[kind] = _size_and_layout(*kind)
        if address is not None and memory.is_on_chip:
            return self._allocate_at(shape, dtype, memory, address, name)
        nbytes, pitch, layout = size
        if memory is Memory.HBM:
            self.hbm.scratchpad += nbytes
        data = np.empty(nbytes, _BYTE) if self._has_values else None
        line = user_line(depth=len(("allocate", "ndarray")))
        storage = Storage(memory, nbytes, pitch, name=name, line=line, data=data)
        storage.allocated_as = dtype, layout.pattern
        if self._loop_storages is not None:
            self._loop_storages.append(storage)
        return storage, layout

    @contextmanager
    def loop(self, label: str) -> Generator[None]:
        """Context of a device loop, after which uses of tensors allocated in it are refused.

        Tensors shared with other cores stay usable, as those cores may still be in the loop.
        """
        enclosing_storages, self._loop_storages = self._loop_storages, []
        try:
            yield
        finally:
            storages, self._loop_storages = self._loop_storages, enclosing_storages
        for storage in storages:
            if not storage.is_shared:
                storage.leave_loop(label)

    @contextmanager
    def outside_loops(self) -> Generator[None]:
        """Context in which tensors belong to no loop, e.g. those of a constant."""
        enclosing_storages, self._loop_storages = self._loop_storages, None
        try:
            yield
        finally:
            self._loop_storages = enclosing_storages

    def allocate_shared(
        self, shape: tuple[int, ...], dtype: Dtype, *, name: str = ""
    ) -> tuple[Storage, TileLayout]:
        """A tensor in HBM shared by all cores of the launch; on one core an ordinary tensor."""

        def allocate() -> tuple[Storage, TileLayout]:
            tensor = self.allocate(shape, dtype, Memory.HBM, name=name)
            self.hbm.scratchpad -= tensor[0].nbytes
            self.hbm.tensors += tensor[0].nbytes
            return tensor

        if self._shared is None:
            return allocate()
        number = self._shared_count
        self._shared_count += 1
        return self._shared.get_or_allocate(number, shape, dtype, allocate)

    def adopt(
        self, array: Array, name: str, dtype: Dtype, *, is_constant: bool = False
    ) -> tuple[Storage, AccessPattern]:
        """An HBM storage backed by the user's own contiguous array of `dtype`, fully written.

        It is an argument of the kernel, or a constant of its program.
        """
        if is_constant:
            self.hbm.constants += array.nbytes
        else:
            self.hbm.tensors += array.nbytes
        data = array.reshape(-1).view(np.uint8) if self._has_values else None
        shape = array.shape or (1,)
        storage = Storage(
            Memory.HBM,
            array.nbytes,
            max(shape[-1], 1) * array.itemsize,
            name=name,
            line=user_line(),
            data=data,
            is_written=True,
        )
        storage.is_argument = True
        storage.is_shared = self._shared is not None
        pattern = AccessPattern.dense(shape, array.itemsize)
        storage.allocated_as = dtype, pattern
        return storage, pattern

    def _allocate_at(
        self,
        shape: tuple[int, ...],
        dtype: Dtype,
        memory: Memory,
        address: tuple[int, int],
        name: str,
    ) -> tuple[Storage, TileLayout]:
        # Tensors of one kind at one address are checked once.
        kind = (shape, dtype.name, dtype.dtype, memory, address)
        layout = self._placed_layouts.get(kind)
        if layout is None:
            layout = self._placed_layouts[kind] = self._layout_at(shape, dtype, memory, address)
        box = layout.box
        storage = PlacedStorage(
            self._root(memory),
            box.last_byte - box.first_byte + 1,
            layout.pattern.offset_bytes,
            *self._places[memory].place_of(box),
            name=name,
            line=user_line(depth=len(("_allocate_at", "allocate", "ndarray"))),
        )
        storage.allocated_as = dtype, layout.pattern
        if self._loop_storages is not None:
            self._loop_storages.append(storage)
        return storage, layout

    def _layout_at(
        self, shape: tuple[int, ...], dtype: Dtype, memory: Memory, address: tuple[int, int]
    ) -> TileLayout:
        """The layout of a tensor at an address, which lies within the memory."""
        first_partition, offset = address
        capacity = self.capacity_bytes(memory)
        row_bytes = prod(shape[1:]) * dtype.itemsize
        partitions = int(self._core.partitions)
        end_partition, end_byte = first_partition + shape[0], offset + row_bytes
        if min(address) < 0 or end_partition > partitions or end_byte > capacity:
            raise OutOfMemory(
                f"address={address} for a tensor of {shape[0]} partitions x {row_bytes} bytes "
                f"exceeds {memory.value} of {self._core.name}: {partitions} partitions x "
                f"{capacity} bytes",
                fix="choose an address that leaves room for the whole tensor",
                source=capacity_source(self._core, memory),
            )
        bank = int(self._core.psum_bank_bytes)
        if memory is Memory.PSUM and offset % bank:
            raise IllegalInstruction(
                f"address={address} of a tensor in PSUM, {offset % bank} bytes into a bank; legal: "
                f"offsets that are a multiple of {bank} bytes",
                fix=f"begin at a bank: address=({first_partition}, bank * {bank})",
                source="nki/migration/index.rst, Improved allocation API",
            )
        dense = AccessPattern.dense(shape, dtype.itemsize, pitch_bytes=capacity)
        pattern = AccessPattern(
            dense.shape, dense.strides_bytes, first_partition * capacity + offset
        )
        nbytes = partitions * capacity
        return _layout_within(memory, nbytes, capacity, dtype.name, dtype.dtype, pattern)

    def _root(self, memory: Memory) -> Storage:
        """The storage of a whole on-chip memory, shared by the tensors with an address."""
        root = self._roots.get(memory)
        if root is None:
            capacity = self.capacity_bytes(memory)
            nbytes = int(self._core.partitions) * capacity
            data = np.empty(nbytes, np.uint8) if self._has_values else None
            root = self._roots[memory] = Storage(memory, nbytes, capacity, data=data)
        return root

    def _check_tensor(self, shape: tuple[int, ...], dtype: Dtype, memory: Memory) -> None:
        core = self._core
        if not shape or any(length < 1 for length in shape):
            raise IllegalInstruction(
                f"a tensor of shape {shape}; legal: one or more lengths, each at least 1",
                fix="give every dimension a length",
                source=_NDARRAY,
            )
        if memory.is_on_chip and shape[0] > core.partitions:
            raise IllegalInstruction(
                f"a {memory.value} tensor of shape {shape} has {shape[0]} partitions; legal on "
                f"{core.name}: at most {core.partitions}",
                fix="tile dimension 0 in steps of nl.tile_size.pmax; since NKI 0.7 nl.alloc_tiles "
                "does it",
                source=core.partitions.provenance.source,
            )
        supports_dtype = has_dtype(dtype.name)
        if not supports_dtype(core):
            raise IllegalInstruction(
                f"{dtype} on {core.name}; legal {where(supports_dtype)}",
                fix=advised("choose another dtype, or run with target='{target}'", supports_dtype),
                source="nki.isa.nc_matmul, Data types",
            )
        row_bytes = prod(shape[1:]) if memory.is_on_chip else prod(shape)
        nbytes, capacity = row_bytes * dtype.itemsize, self.capacity_bytes(memory)
        if nbytes > capacity:
            per = " a partition" if memory.is_on_chip else ""
            raise OutOfMemory(
                f"a {memory.value} tensor of shape {shape} {dtype} needs {nbytes} bytes{per}; "
                f"{core.name} has {capacity}{per}",
                fix="tile the tensor so that a part of it is on chip at a time",
                source=capacity_source(core, memory),
            )


_SIZES_KEPT: Final = 1 << 12
_LEGAL_SIZES: Final = KeptByCore[tuple[object, ...], tuple[int, int, TileLayout]](_SIZES_KEPT)
"""By shape, dtype and memory: the bytes of a legal tensor, its pitch in bytes, and its layout."""


@lru_cache(maxsize=_SIZES_KEPT)
def _size_and_layout(
    shape: tuple[int, ...], name: str, dtype: np.dtype[Any], memory: Memory
) -> tuple[int, int, TileLayout]:
    """Bytes of a tensor, its pitch in bytes, and its layout.

    Args:
        shape: lengths, which a core accepts.
        name: name of the elements' format.
        dtype: numpy dtype that stores it.
        memory: HBM, SBUF or PSUM.
    """
    row_bytes = prod(shape[1:]) * dtype.itemsize if memory.is_on_chip else 0
    pitch = row_bytes or shape[-1] * dtype.itemsize
    nbytes = prod(shape) * dtype.itemsize
    pattern = AccessPattern.dense(shape, dtype.itemsize)
    return nbytes, pitch, _layout_within(memory, nbytes, pitch, name, dtype, pattern)


def _layout_within(
    memory: Memory,
    nbytes: int,
    pitch_bytes: int,
    name: str,
    dtype: np.dtype[Any],
    pattern: AccessPattern,
) -> TileLayout:
    """`layout_of` a whole tensor, which lies within its memory."""
    layout = layout_of(memory, nbytes, pitch_bytes, 0, name, dtype, pattern)
    if layout is None:
        raise InternalError(f"a tensor of shape {pattern.shape} leaves its own storage")
    return layout
