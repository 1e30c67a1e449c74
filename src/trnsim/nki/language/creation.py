"""Creation of tensors: regions of memory, allocation, constants, random numbers.

Source: nki.language.ndarray and related functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from trnsim import files
from trnsim.behaviours.language import STRING_BUFFERS
from trnsim.dtypes import INT64, UINT8, UINT32, Array, round_to
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.memory import Memory
from trnsim.nki.arguments import check_tensor, documented, integers, label_of, lengths
from trnsim.nki.dialect import require
from trnsim.nki.language.legacy import check_partition_axis
from trnsim.nki.notices import is_simulator
from trnsim.nki.precision import is_widening, stored_dtype
from trnsim.nki.sentinels import with_sentinels
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.nki.tiles import check_number, issue, new_tile
from trnsim.nki.torch_tensors import array_of, is_torch_tensor
from trnsim.program import current_core, running_core

sbuf = MemoryRegion.sbuf
psum = MemoryRegion.psum
private_hbm = MemoryRegion.private_hbm
hbm = MemoryRegion.private_hbm
shared_hbm = MemoryRegion.shared_hbm
_REGIONS_BY_NAME = {"hbm": hbm, **{region.value: region for region in MemoryRegion}}

_DROPPED_BITS = 8  # the 24 remaining of 32 random bits are exact in float32


def region(buffer: object) -> MemoryRegion:
    """`buffer`, checked to be a memory region.

    Raises:
        IllegalInstruction: for a region's name as a string, except under NKI 0.2.
        BadInput: for any other value.
    """
    if isinstance(buffer, MemoryRegion):
        return buffer
    if isinstance(buffer, str) and buffer in _REGIONS_BY_NAME:
        require(STRING_BUFFERS, f"buffer={buffer!r}")
        return _REGIONS_BY_NAME[buffer]
    legal = ", ".join(f"nl.{legal.value}" for legal in MemoryRegion)
    raise BadInput(
        f"buffer={buffer!r}; legal: {legal}",
        fix="pass one of these objects",
        source=STRING_BUFFERS.source,
    )


@documented
def is_hbm(buffer: MemoryRegion) -> bool:
    """True if `buffer` is HBM of either kind."""
    return region(buffer).memory is Memory.HBM


@documented
def is_sbuf(buffer: MemoryRegion) -> bool:
    """True if `buffer` is SBUF."""
    return region(buffer).memory is Memory.SBUF


@documented
def is_psum(buffer: MemoryRegion) -> bool:
    """True if `buffer` is PSUM."""
    return region(buffer).memory is Memory.PSUM


@documented
def is_on_chip(buffer: MemoryRegion) -> bool:
    """True if `buffer` is SBUF or PSUM."""
    return region(buffer).memory.is_on_chip


@documented
def ndarray(
    shape: Iterable[int],
    dtype: Any,
    buffer: MemoryRegion = sbuf,
    name: str = "",
    address: tuple[int, int] | None = None,
) -> NkiTensor:
    """A new uninitialised tensor.

    Args:
        shape: lengths; on chip the first is the number of partitions.
        dtype: element format.
        buffer: nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm.
        name: a name for messages and reports.
        address: (first partition, byte offset in the partition), on chip.

    Raises:
        IllegalInstruction: a shape or dtype that the core does not have.
        NotModelled: an address in HBM (a single integer).
        OutOfMemory: a tensor larger than its memory.
    """
    memory_region = buffer if buffer.__class__ is MemoryRegion else region(buffer)
    kind = stored_dtype(dtype)
    shape = check_partition_axis(shape)
    if name.__class__ is not str:
        name = label_of("nl.ndarray", name, "nki.language.ndarray, name")
    memory = (running_core() or current_core()).memory
    place = None if address is None else _place(address, memory_region)
    if place is not None and is_widening():
        place = None  # wider elements would overlap; AWS's simulator places nothing
    if memory_region is shared_hbm:
        storage, layout = memory.allocate_shared(shape, kind, name=name)
    else:
        storage, layout = memory.allocate(
            shape, kind, memory_region.memory, name=name, address=place
        )
    # The lines of `laid_out`, for kernels allocate in loops, and a call takes as long again.
    tensor = NkiTensor(storage, kind, layout.pattern, memory_region)
    tensor.layout = layout
    return with_sentinels(tensor) if is_simulator() else tensor


def _place(address: Any, buffer: MemoryRegion) -> tuple[int, int]:
    """The partition and the byte offset of an address.

    Raises:
        IllegalInstruction: for a value other than two integers.
        NotModelled: for one integer, an address in HBM.
    """
    place = lengths("address", address, "nki.language.ndarray, address")
    if not buffer.memory.is_on_chip and len(place) == 1:
        raise NotModelled(
            f"address={address!r} of a tensor in HBM: its place there is not emulated",
            fix="leave address= out: the tensor then has bytes of its own",
            source="nki.language.ndarray, address (Neuron 2.33)",
        )
    if len(place) != len(("partition", "byte")):
        raise IllegalInstruction(
            f"address={address!r}; legal: (first partition, byte offset within the partition)",
            fix="give both, for example address=(0, 4096)",
            source="nki.language.ndarray, address",
        )
    return place[0], place[1]


@documented
def full(
    shape: Iterable[int],
    fill_value: float,
    dtype: Any,
    buffer: MemoryRegion = sbuf,
    name: str = "",
) -> NkiTensor:
    """A new tensor filled with a value: on chip by a memset, in HBM by a DMA from a constant."""
    tensor = ndarray(shape, dtype, buffer, name)
    if tensor.memory.is_on_chip:
        issue("memset", tensor, fill_value)
        return tensor
    number = check_number("nl.full: fill_value", fill_value, "nki.language.full")
    if isinstance(number, int) and tensor.dtype is INT64:  # float64 has 53 of its 64 bits
        limits = np.iinfo(np.int64)
        value = np.asarray([min(max(number, limits.min), limits.max)], np.int64)
    else:
        value = round_to(np.asarray([number], np.float64), tensor.dtype)
    issue("dma_copy", tensor, _constant(np.full(tensor.shape, value[0], tensor.dtype.dtype)))
    return tensor


@documented
def zeros(
    shape: Iterable[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of zeros."""
    return full(shape, 0, dtype, buffer, name)


@documented
def ones(
    shape: Iterable[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = ""
) -> NkiTensor:
    """A new tensor of ones."""
    return full(shape, 1, dtype, buffer, name)


@documented
def zeros_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """A new tensor of zeros with the shape of `x`, and by default its dtype and buffer."""
    check_tensor("nl.zeros_like", x, "nki.language.zeros_like")
    return zeros(x.shape, dtype or x.dtype, x.buffer if buffer is None else buffer, name)


@documented
def empty_like(
    x: NkiTensor, dtype: Any = None, buffer: MemoryRegion | None = None, name: str = ""
) -> NkiTensor:
    """A new uninitialised tensor with the shape of `x`, and by default its dtype and buffer."""
    check_tensor("nl.empty_like", x, "nki.language.empty_like")
    return ndarray(x.shape, dtype or x.dtype, x.buffer if buffer is None else buffer, name)


@documented
def shared_constant(constant: Array | str | Path) -> NkiTensor:
    """A constant tensor in shared HBM, from an array or a .npy file."""
    if isinstance(constant, str | Path):
        constant = _array_of_file(constant)
    elif is_torch_tensor(constant):
        constant = array_of(constant, "the constant of nl.shared_constant")
    try:
        array = np.asarray(constant)
    except ValueError as error:  # of lists of different lengths
        raise BadInput(
            f"nl.shared_constant of a {type(constant).__name__} that is no array: {error}",
            fix="pass a numpy array, whose rows have one length",
            source="nki.language.shared_constant",
        ) from None
    return _constant(array)


@documented
def shared_identity_matrix(n: int, dtype: Any = UINT8, dst: NkiTensor | None = None) -> NkiTensor:
    """The identity matrix [n, n], loaded from a constant in HBM to `dst` or to a new SBUF tile."""
    source = "nki.language.shared_identity_matrix"
    (side,) = integers("nl.shared_identity_matrix", n, source=source)
    if dst is not None:
        check_tensor("nl.shared_identity_matrix: dst", dst, source)
    tile = new_tile((side, side), dtype) if dst is None else dst
    if side < 1 or tile.size != side * side:
        raise IllegalInstruction(
            f"nl.shared_identity_matrix({side}) to {tile}; legal: a tile of shape [n, n]",
            fix="pass the number of the tile's partitions, or leave dst out",
            source=source,
        )
    issue("dma_copy", tile, _constant(np.eye(side, dtype=tile.dtype.dtype)))
    return tile


@documented
def rand(
    shape: Iterable[int], dtype: Any, buffer: MemoryRegion = sbuf, name: str = ""
) -> NkiTensor:
    """A new on-chip tensor of random numbers, uniform in [0, 1).

    It uses rand2 if the core has it, else 24 of the 32 random bits of rng.
    """
    tensor = ndarray(shape, dtype, buffer, name)
    if current_core().core.features.rand2:
        issue("rand2", tensor, 0.0, 1.0)
        return tensor
    bits = new_tile(tensor.shape, UINT32)
    issue("rng", bits)
    issue("tensor_scalar", bits, bits, "right_shift", _DROPPED_BITS)
    issue("tensor_scalar", tensor, bits, "multiply", 2.0 ** (_DROPPED_BITS - 32))
    return tensor


@documented
def random_seed(seed: Any) -> None:
    """Seed the Vector Engine's random numbers from a [1, 1] tile of 32 bits.

    Raises:
        IllegalInstruction: for a number in place of a tile.
    """
    if not isinstance(seed, NkiTensor):
        raise IllegalInstruction(
            f"nl.random_seed({seed!r}); legal: a [1, 1] tile in SBUF or PSUM",
            fix=f"nl.random_seed(nl.full((1, 1), {seed!r}, dtype=nl.int32))",
            source="release notes of NKI 0.4, Known issues, NKI Language",
        )
    issue("set_rng_seed", seed)


def _array_of_file(path: str | Path) -> Array:
    """The array of a .npy file.

    Raises:
        BadInput: if there is none.
    """
    try:
        return files.read_array(path)
    except BadInput as error:
        raise BadInput(
            f"nl.shared_constant({str(path)!r}): {error.reason}",
            fix="write the file with numpy.save, or pass the array itself",
            source="nki.language.shared_constant",
        ) from error


def _constant(array: Array) -> NkiTensor:
    """A constant of the program, present in HBM when the program starts."""
    kind = stored_dtype(array.dtype)
    dense_array = np.ascontiguousarray(array, kind.dtype)
    if dense_array is array:
        dense_array = array.copy()
    storage, pattern = current_core().memory.adopt(dense_array, "", kind, is_constant=True)
    return NkiTensor(storage, kind, pattern, shared_hbm)
