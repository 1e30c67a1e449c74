"""`nki.language`: tensors, dtypes, loops and operators, under AWS's names.

Source: nki.language.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trnsim.arch import NeuronCore, target
from trnsim.dtypes import BY_NAME, FLOAT32, Dtype, as_dtype
from trnsim.errors import BadInput
from trnsim.isa import DmaCopy, Memset
from trnsim.memory import Memory
from trnsim.nki.kernel import default_target
from trnsim.nki.operators import OPERATORS, Operator
from trnsim.nki.tensor import DynamicSlice, MemoryRegion, NkiTensor
from trnsim.program import current_core, has_current_core

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
ds = DynamicSlice
bypass = Operator("bypass")

# Deprecated aliases of range: every loop is unrolled while the kernel is traced.
affine_range = range
sequential_range = range
static_range = range

globals().update(BY_NAME)
globals().update(OPERATORS)


class NKIObject:
    """Base of a kernel's own configuration objects: keyword arguments become attributes."""

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)


class TileSize:
    """`nl.tile_size`: the limits of the core that the kernel runs on."""

    @property
    def _core(self) -> NeuronCore:
        return current_core().core if has_current_core() else target(default_target()).core

    @property
    def pmax(self) -> int:
        """Partitions of a tile."""
        return int(self._core.partitions)

    @property
    def psum_num_banks(self) -> int:
        """PSUM banks."""
        return int(self._core.psum_banks)

    @property
    def psum_bank_fmax_bytes(self) -> int:
        """Bytes of a PSUM bank in one partition."""
        return int(self._core.psum_bank_bytes)

    @property
    def psum_bank_fmax(self) -> int:
        """float32 elements of a PSUM bank in one partition."""
        return self.psum_bank_fmax_bytes // FLOAT32.itemsize

    psum_fmax = psum_bank_fmax

    @property
    def gemm_stationary_fmax(self) -> int:
        """Largest free size of a matmul's stationary tile."""
        return int(self._core.pe_columns)

    @property
    def gemm_moving_fmax(self) -> int:
        """Largest free size of a matmul's moving tile that fits one PSUM bank."""
        return self.psum_bank_fmax

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of one SBUF partition."""
        return int(self._core.sbuf_partition_bytes)

    @property
    def sbuf_fmax(self) -> int:
        """float32 elements of one SBUF partition."""
        return self.sbuf_fmax_bytes // FLOAT32.itemsize

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of the whole SBUF."""
        return self.sbuf_fmax_bytes * self.pmax

    total_available_sbuf_size = sbuf_fmax_bytes


tile_size = TileSize()


def ndarray(
    shape: Iterable[int],
    dtype: Any,
    buffer: MemoryRegion | str = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new tensor, not initialised.

    Args:
        shape: lengths; on chip the first is the number of partitions.
        dtype: element format.
        buffer: nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm.
        name: a name for messages and reports.
        address: (first partition, byte offset in the partition), on chip.

    Raises:
        IllegalInstruction: a shape or dtype that the core has not.
        OutOfMemory: a tensor larger than its memory.
    """
    region = _region(buffer)
    kind = as_dtype(dtype)
    lengths = tuple(int(length) for length in shape)
    storage, pattern = current_core().memory.allocate(
        lengths, kind, region.memory, name=name, address=address
    )
    return NkiTensor(storage, kind, pattern, region)


def full(
    shape: Iterable[int],
    fill_value: float,
    dtype: Any,
    buffer: MemoryRegion | str = sbuf,
    name: str = "",
) -> NkiTensor:
    """A new on-chip tensor filled with `fill_value` by one memset."""
    tensor = ndarray(shape, dtype, buffer, name)
    current_core().issue(Memset(tensor, fill_value))
    return tensor


def zeros(
    shape: Iterable[int], dtype: Any, buffer: MemoryRegion | str = sbuf, name: str = ""
) -> NkiTensor:
    """A new on-chip tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(
    shape: Iterable[int], dtype: Any, buffer: MemoryRegion | str = sbuf, name: str = ""
) -> NkiTensor:
    """A new on-chip tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


def load(src: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile with the values of an HBM tensor."""
    tile = ndarray(src.shape, src.dtype if dtype is None else dtype)
    current_core().issue(DmaCopy(tile, src))
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write an SBUF tile to an HBM tensor."""
    current_core().issue(DmaCopy(dst, value))


def program_id(axis: int = 0) -> int:
    """The index of this core in the launch grid; 0 on one core."""
    del axis
    return 0


def num_programs(axes: Any = 0) -> int:
    """The number of cores in the launch grid; 1 on one core."""
    del axes
    return 1


def program_ndim() -> int:
    """The number of axes of the launch grid; 0 without one."""
    return 0


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a prefix and a tensor's values."""
    values = np.asarray(tensor.array) if current_core().has_values else "(no values)"
    print(print_prefix, values)  # noqa: T201  printing is what it is for


def is_hbm(buffer: MemoryRegion | str) -> bool:
    """Whether `buffer` is HBM of either kind."""
    return _region(buffer).memory is Memory.HBM


def is_sbuf(buffer: MemoryRegion | str) -> bool:
    """Whether `buffer` is SBUF."""
    return _region(buffer).memory is Memory.SBUF


def is_psum(buffer: MemoryRegion | str) -> bool:
    """Whether `buffer` is PSUM."""
    return _region(buffer).memory is Memory.PSUM


def is_on_chip(buffer: MemoryRegion | str) -> bool:
    """Whether `buffer` is SBUF or PSUM."""
    return _region(buffer).memory.is_on_chip


def _region(buffer: MemoryRegion | str) -> MemoryRegion:
    if isinstance(buffer, MemoryRegion):
        return buffer
    name = {"hbm": "private_hbm"}.get(buffer, buffer)
    try:
        return MemoryRegion(name)
    except ValueError:
        legal = ", ".join(f"nl.{region.value}" for region in MemoryRegion)
        raise BadInput(
            f"buffer={buffer!r}; legal: {legal}", fix="name one of them", source="nki.language"
        ) from None


DType = Dtype
