"""Allocation of tensors in tiles and in blocks.

In HBM the storage is a tensor of shape `element_shape`. In SBUF and PSUM it is one dense tensor of
two dimensions: the partitions of a tile, and the free elements of all tiles one after the other.

Assumed, for AWS's public pages do not say where tile (i, j) lies: the tiles follow each other in
row-major order of their coordinates, untiled leading dimensions outermost. Each tile has the
room of a whole tile, also at an edge of the tensor. There is no padding to banks of PSUM.

Source: nki.language.alloc_tiles and alloc_blocks, NKI 0.7.
"""

from __future__ import annotations

from math import prod
from typing import Any

from trnsim.errors import IllegalInstruction, OutOfMemory
from trnsim.nki.arguments import documented
from trnsim.nki.language.creation import ndarray
from trnsim.nki.language.grids.axis import GridAxis
from trnsim.nki.language.grids.grid import NkiBlockGrid, NkiTileGrid, tiles
from trnsim.nki.language.grids.shapes import (
    GridNotAllocated,
    GridOutOfMemory,
    GridTypeError,
    check_shape,
    check_tile_shape,
)
from trnsim.nki.tensor import MemoryRegion, NkiTensor


@documented
def alloc_tiles(
    *,
    tile_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Any,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiTileGrid:
    """A new uninitialised allocation in tiles.

    Args:
        tile_shape: elements of a tile, for the last dimensions of `element_shape`, at least two;
            on chip the first is the number of partitions.
        element_shape: lengths of the whole tensor; each index of a leading dimension that tiles do
            not cover selects a slab of tiles.
        buffer: nl.sbuf, nl.psum, nl.shared_hbm or nl.private_hbm.
        dtype: format of the elements.
        address: (first partition, byte offset in the partition), on chip, as of `nl.ndarray`.
        name: a name for messages and reports.

    Raises:
        GridTypeError: for a shape that is no tuple of integers, and a buffer of another type.
        GridValueError: for a length below 1, and for tiles of one dimension or of more than
            `element_shape` has.
        GridNotAllocated: for a tensor that `nl.ndarray` refuses; an AssertionError as well.
        GridOutOfMemory: for a tensor larger than its memory; an AssertionError as well.
    """
    _check("alloc_tiles", tile_shape, element_shape, buffer)
    if not buffer.memory.is_on_chip:
        tensor = _allocate("alloc_tiles", element_shape, dtype, buffer, name, address)
        return tiles(tensor, tile_shape=tile_shape)
    untiled_dims = len(element_shape) - len(tile_shape)
    steps = (1,) * untiled_dims + tile_shape
    counts = [-(-extent // step) for extent, step in zip(element_shape, steps, strict=True)]
    columns = prod(tile_shape[1:])
    capacity = (tile_shape[0], prod(counts) * columns)
    tensor = _allocate("alloc_tiles", capacity, dtype, buffer, name, address)
    partition_bytes, element_bytes = tensor.pattern.strides_bytes
    tile_strides = [prod(counts[dim + 1 :]) * columns * element_bytes for dim in range(len(counts))]
    slab_axes = map(GridAxis.slabs, element_shape[:untiled_dims], tile_strides)
    strides = (
        partition_bytes,
        *(prod(tile_shape[dim + 1 :]) * element_bytes for dim in range(1, len(tile_shape))),
    )
    tile_axes = map(
        GridAxis.tiles,
        element_shape[untiled_dims:],
        tile_shape,
        strides,
        tile_strides[untiled_dims:],
    )
    return NkiTileGrid.over(tensor, (*slab_axes, *tile_axes))


@documented
def alloc_blocks(
    *,
    tile_shape: tuple[int, ...],
    block_shape: tuple[int, ...],
    element_shape: tuple[int, ...],
    buffer: MemoryRegion,
    dtype: Any,
    address: tuple[int, int] | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """A new uninitialised allocation in blocks: the tiles of `alloc_tiles`, grouped.

    Args:
        tile_shape: as in `alloc_tiles`.
        block_shape: tiles of a block, for each dimension of a tile.
        element_shape: as in `alloc_tiles`.
        buffer: as in `alloc_tiles`.
        dtype: as in `alloc_tiles`.
        address: as in `alloc_tiles`.
        name: as in `alloc_tiles`.

    Raises:
        GridTypeError: as `alloc_tiles`.
        GridValueError: as `alloc_tiles`, and for a block of another rank than a tile.
        GridNotAllocated: as `alloc_tiles`.
        GridOutOfMemory: as `alloc_tiles`.
    """
    _check("alloc_blocks", tile_shape, element_shape, buffer)
    check_shape("alloc_blocks", "block_shape", block_shape, rank=len(tile_shape))
    grid = alloc_tiles(
        tile_shape=tile_shape,
        element_shape=element_shape,
        buffer=buffer,
        dtype=dtype,
        address=address,
        name=name,
    )
    return grid.block_grid("alloc_blocks", block_shape)


def _check(function: str, tile_shape: Any, element_shape: Any, buffer: Any) -> None:
    """Refuse illegal shapes, and a buffer that is no `MemoryRegion`."""
    check_shape(function, "element_shape", element_shape)
    check_tile_shape(function, tile_shape, element_shape, "element_shape")
    if not isinstance(buffer, MemoryRegion):
        legal = ", ".join(f"nl.{region.value}" for region in MemoryRegion)
        raise GridTypeError(
            f"nl.{function}: buffer={buffer!r}; legal: {legal}",
            fix="pass one of these objects",
            source=f"nki.language.{function}, buffer",
        )


def _allocate(
    function: str,
    shape: tuple[int, ...],
    dtype: Any,
    buffer: MemoryRegion,
    name: str,
    address: Any,
) -> NkiTensor:
    """The new tensor of a grid; a refusal of `ndarray` becomes an AssertionError too."""
    try:
        return ndarray(shape, dtype, buffer, name, address)
    except OutOfMemory as error:
        refusal: type[GridOutOfMemory | GridNotAllocated] = GridOutOfMemory
        cause: IllegalInstruction | OutOfMemory = error
    except IllegalInstruction as error:
        refusal, cause = GridNotAllocated, error
    raise refusal(f"nl.{function}: {cause.reason}", fix=cause.fix, source=cause.source)
