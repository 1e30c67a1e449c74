"""Grids: tensors seen in coordinates of tiles and of blocks.

A grid is a view: it has no storage of its own, copies nothing and issues nothing. An index selects
tiles or blocks and gives a grid of the same class; `data` is the tensor of the selected elements.

Assumed, where the pages of Neuron 2.33 that can be read say nothing:

- An integer index of a tiled dimension drops the coordinate and keeps the dimension of the
  elements: ``grid[i, j]`` has the shape () and the elements of one tile. An integer index of an
  untiled dimension drops both, as ``tensor[i]`` does in HBM.
- Slices stay within the grid, as slices of tensors stay within the tensor.
- `data` has the shape `element_shape`, so the selected elements of each dimension have one stride.
- `is_remainder` is True if one of the selected tiles (blocks) is cut short.

Source: nki.language.NkiGrid, NkiTileGrid, NkiBlockGrid, tiles and blocks, NKI 0.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, Self

from trnsim.absence import NoAttribute
from trnsim.dtypes import Dtype
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.memory import AccessPattern, ScalarIndex
from trnsim.nki.arguments import documented
from trnsim.nki.indexing import expand_keys, index_text, start_end_step, static_part
from trnsim.nki.language.grids.axis import GridAxis
from trnsim.nki.language.grids.shapes import (
    GridIndexError,
    GridTypeError,
    GridValueError,
    check_shape,
    check_tile_shape,
)
from trnsim.nki.tensor import MemoryRegion, NkiTensor
from trnsim.nki.values import BINARY_OPERATORS

_GRID = "nki.language.NkiGrid"


class NkiGrid:
    """A tensor in coordinates of tiles or blocks: the base of `NkiTileGrid` and `NkiBlockGrid`."""

    __slots__ = ("_axes", "_tensor")

    _axes: tuple[GridAxis, ...]
    _tensor: NkiTensor
    _cell: ClassVar[str] = "tile"
    operand_fix: ClassVar[str] = "pass the tensor of the grid: grid[i, j].data"
    """Remedy where an instruction needs a tensor."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refuse a direct call, which AWS's page excludes."""
        raise GridTypeError(
            f"{type(self).__name__}(...); legal: a view that nl.tiles, nl.blocks, nl.alloc_tiles "
            "or nl.alloc_blocks makes",
            fix="nl.tiles(tensor, tile_shape=(128, 512))",
            source=_GRID,
        )

    @classmethod
    def over(cls, tensor: NkiTensor, axes: tuple[GridAxis, ...]) -> Self:
        """The grid of `axes`, whose byte offsets count from the first element of `tensor`."""
        grid = object.__new__(cls)
        grid._tensor, grid._axes = tensor, axes
        return grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of tiles (blocks) in each coordinate; in an untiled dimension its length."""
        return tuple(len(axis.cells) for axis in self._axes if not axis.is_indexed)

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Elements of a tile that no edge cuts."""
        return tuple(axis.tile for axis in self._axes if axis.is_tiled)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """Selected elements of each dimension of the source, cut at its edges."""
        return tuple(axis.elements for axis in self._axes if not axis.is_gone)

    @property
    def index_step_elements(self) -> tuple[int, ...]:
        """Elements of the source from one index to the next, for each coordinate."""
        return tuple(axis.step for axis in self._axes if not axis.is_indexed)

    @property
    def is_remainder(self) -> bool:
        """True if an edge of the source cuts a selected tile (block)."""
        return any(axis.has_remainder for axis in self._axes if axis.is_tiled)

    @property
    def dtype(self) -> Dtype:
        """Format of the elements."""
        return self._tensor.dtype

    @property
    def buffer(self) -> MemoryRegion:
        """Region of memory that has the elements."""
        return self._tensor.buffer

    @property
    def is_data_representable(self) -> bool:
        """True if the selected elements are one access pattern, which `data` is."""
        return all(axis.span is not None for axis in self._axes)

    @property
    def data(self) -> NkiTensor:
        """The tensor of all selected elements, an operand of instructions.

        Shape: `element_shape`.

        Raises:
            IllegalInstruction: if they are not one access pattern.
        """
        tensor = self._tensor
        offset, lengths, strides = tensor.pattern.offset_bytes, [], []
        for axis in self._axes:
            span = axis.span
            if span is None:
                self._refuse_data()
            offset += span.start_bytes
            if not axis.is_gone:
                lengths.append(span.length)
                strides.append(span.stride_bytes)
        pattern = AccessPattern(tuple(lengths), tuple(strides), offset)
        return NkiTensor(tensor.storage, tensor.dtype, pattern, tensor.buffer, tensor.index)

    def __getitem__(self, key: Any) -> Self:
        """The grid of the selected tiles (blocks): integers, slices, nl.ds and one Ellipsis.

        Raises:
            GridIndexError: for an index outside the grid, an empty slice and too many indices.
            NotModelled: for an index that is known only at run time.
        """
        keys = key if key.__class__ is tuple else (key,)  # nl.ds is a tuple of its own class
        if not self.shape and any(index is not Ellipsis for index in keys):
            raise GridIndexError(
                f"the index {key!r} of {self}, which has no coordinate left; legal: its attributes",
                fix=f"take the tensor of the {self._cell}: grid.data; nl.tiles(block) gives the "
                "tiles of a block",
                source=_GRID,
            )
        try:
            indices = iter(expand_keys(keys, self))
            return type(self).over(
                self._tensor,
                tuple(
                    axis if axis.is_indexed else self._axis_of_index(dim, axis, next(indices))
                    for dim, axis in enumerate(self._axes)
                ),
            )
        except IllegalInstruction as error:
            raise GridIndexError(error.reason, fix=error.fix, source=error.source) from None

    def _axis_of_index(self, dim: int, axis: GridAxis, index: Any) -> GridAxis:
        """The axis with the cells of an index."""
        if index.__class__ is int and 0 <= index < len(axis.cells):  # the usual case
            return axis.with_cells(axis.cells[index : index + 1], is_indexed=True)
        if static_part(index)[0] is not None:
            raise NotModelled(
                f"{self} with the index {index!r}, which is known when the kernel runs; AWS's "
                "public pages do not say what such a grid is",
                fix="index with a Python integer, or move grid.data: "
                "tensor.ap(pattern, scalar_offset=register)",
                source=_GRID,
            )
        cells = axis.cells
        start, end, step, is_span = start_end_step(index, len(cells))
        if not (0 <= start < end <= len(cells) and step >= 1):
            raise IllegalInstruction(
                f"index {index_text(index)} of dimension {dim} of {self}, which has {len(cells)}; "
                f"legal: 0 to {len(cells) - 1}, and slices within the grid that are not empty",
                fix="loop over range(grid.shape[i])",
                source=_GRID,
            )
        return axis.with_cells(cells[start:end:step], is_indexed=not is_span)

    def axes_in_tiles(
        self, function: str, tile_shape: tuple[int, ...] | None
    ) -> tuple[NkiTensor, tuple[GridAxis, ...]]:
        """Tensor and axes of the selected elements in tiles of `tile_shape`.

        With None the grid's tiles are kept. `function` is the caller's name, for errors.

        Raises:
            IllegalInstruction: for a new tile shape over elements that are not one access pattern.
        """
        if tile_shape is not None:
            check_tile_shape(function, tile_shape, self.element_shape, str(self))
        if tile_shape in {None, self.tile_shape}:
            return self._tensor, self._new_axes(function)
        return self.data, _axes_of(function, self.data, tile_shape)

    def block_grid(self, function: str, block: tuple[int, ...]) -> NkiBlockGrid:
        """The selected tiles in blocks of `block` tiles; `function` is the caller, for errors."""
        return NkiBlockGrid.over(self._tensor, self._new_axes(function, block))

    def _new_axes(self, function: str, block: tuple[int, ...] = ()) -> tuple[GridAxis, ...]:
        """New axes over the selected elements alone, in cells of `block` tiles.

        Args:
            function: the caller's name, for errors.
            block: tiles of a cell in each tiled dimension; by default one.

        Raises:
            GridValueError: if the tiles are not evenly spaced.
        """
        sizes = iter(block or (1,) * len(self._axes))
        axes = [axis.with_block(next(sizes)) if axis.is_tiled else axis for axis in self._axes]
        if None in axes:
            raise GridValueError(
                f"nl.{function} of {self}, whose blocks do not follow each other; legal: tiles "
                "that are evenly spaced",
                fix="select one block, or a slice of them without a step, before",
                source=f"nki.language.{function}",
            )
        return tuple(axis for axis in axes if axis is not None)

    def _refuse_data(self) -> NoReturn:
        places = " and ".join(
            f"{axis.elements} elements" for axis in self._axes if axis.span is None
        )
        raise IllegalInstruction(
            f"data of {self}: its elements {list(self.element_shape)} are no single access "
            f"pattern, for its {places} have several strides; legal: a grid of which "
            "is_data_representable is True",
            fix="select one tile of that dimension, or tiles that follow each other in memory",
            source=f"{_GRID}.data",
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        """Refuse assignment: instructions write tensors."""
        raise self._misuse(
            f"assigned to, with the index {key!r}", "nisa.dma_copy(dst=grid[i, j].data, src=tensor)"
        )

    def __delitem__(self, key: Any) -> None:
        """Refuse deletion: a grid is a view, whose shape is fixed."""
        raise self._misuse(f"deleted from, with the index {key!r}", "grid[start:end]")

    def __iter__(self) -> NoReturn:
        """Refuse loops, of which AWS's public pages say nothing."""
        raise self._misuse("looped over", "for i in range(grid.shape[0]): grid[i]")

    def __len__(self) -> int:
        """Refuse len(), of which AWS's public pages say nothing."""
        raise self._misuse("measured by len()", "grid.shape[0]")

    def __bool__(self) -> bool:
        """True, as for any object."""
        return True

    def _misuse(self, use: str, fix: str) -> GridTypeError:
        return GridTypeError(
            f"{self} is {use}; legal: an index, and the attributes of grids",
            fix=f"write {fix}",
            source=_GRID,
        )

    def __str__(self) -> str:
        shape, tile = list(self.shape), " x ".join(map(str, self.tile_shape))
        return f"a grid {shape} of {self._cell}s, tiles of {tile}, of {self._tensor}"

    __repr__ = __str__

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that grids lack."""
        raise NoAttribute(
            f"{type(self).__name__} has no attribute {name!r}; legal: data, shape, tile_shape, "
            "block_shape of blocks, element_shape, is_remainder, is_data_representable, "
            "index_step_elements, dtype, buffer",
            fix=f"views are of tensors: grid.data.{name}"
            if hasattr(NkiTensor, name)
            else "take the tensor: grid.data",
            source=_GRID,
        )


def _operator_refusal(sign: str, functions: str) -> Callable[[NkiGrid, object], NoReturn]:
    def refuse(self: NkiGrid, other: object) -> NoReturn:
        del other
        raise self._misuse(f"used with `{sign}`", f"{functions}, of tiles: grid[i, j].data")

    return refuse


for _name, (_sign, _functions) in BINARY_OPERATORS.items():
    for _side in ("", "r"):
        setattr(NkiGrid, f"__{_side}{_name}__", _operator_refusal(_sign, _functions))


class NkiTileGrid(NkiGrid):
    """A tensor in coordinates of tiles."""

    __slots__ = ()


class NkiBlockGrid(NkiGrid):
    """A tensor in coordinates of blocks, which are groups of tiles."""

    __slots__ = ()

    _cell: ClassVar[str] = "block"

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Tiles of a block that no edge cuts."""
        return tuple(axis.block for axis in self._axes if axis.is_tiled)


@documented
def tiles(source: Any, *, tile_shape: tuple[int, ...] | None = None) -> NkiTileGrid:
    """A view of `source` in coordinates of tiles. If `source` is one block: the block's tiles.

    Args:
        source: a tensor, or a grid, of which the selected elements are tiled.
        tile_shape: elements of a tile, for the last dimensions of `source`; leading
            dimensions stay untiled. With None the tiles of a grid are kept.

    Raises:
        GridTypeError: for another source, and for a shape that is no tuple of integers.
        GridValueError: for a shape that does not tile the source.
    """
    return NkiTileGrid.over(*_tensor_and_axes("tiles", source, tile_shape))


@documented
def blocks(
    source: Any, *, tile_shape: tuple[int, ...] | None = None, block_shape: tuple[int, ...]
) -> NkiBlockGrid:
    """A view of `source` in coordinates of blocks.

    Args:
        source: a tensor, or a grid, of which the selected elements are grouped.
        tile_shape: elements of a tile, as in `tiles`.
        block_shape: tiles of a block, for each dimension of a tile.

    Raises:
        GridTypeError: for another source, and for a shape that is no tuple of integers.
        GridValueError: for a shape that does not tile the source, and a block of another rank.
    """
    grid = NkiTileGrid.over(*_tensor_and_axes("blocks", source, tile_shape))
    check_shape("blocks", "block_shape", block_shape, rank=len(grid.tile_shape))
    return grid.block_grid("blocks", block_shape)


def _tensor_and_axes(
    function: str, source: Any, tile_shape: tuple[int, ...] | None
) -> tuple[NkiTensor, tuple[GridAxis, ...]]:
    """The tensor of `source`, and its axes in tiles; `function` is the caller, for errors."""
    if isinstance(source, NkiGrid):
        return source.axes_in_tiles(function, tile_shape)
    if not isinstance(source, NkiTensor):
        raise GridTypeError(
            f"nl.{function} of {type(source).__name__}; legal: a tensor or a grid",
            fix="pass a tensor made by nl.ndarray, an argument of the kernel, or a view of one",
            source=f"nki.language.{function}",
        )
    return source, _axes_of(function, source, tile_shape)


def _axes_of(function: str, tensor: NkiTensor, tile_shape: Any) -> tuple[GridAxis, ...]:
    """The axes of `tensor` in tiles of `tile_shape`."""
    check_tile_shape(function, tile_shape, tensor.shape, str(tensor))
    untiled_dims = tensor.ndim - len(tile_shape)
    if untiled_dims and tensor.memory.is_on_chip:
        raise NotModelled(
            f"nl.{function}: tile_shape={tile_shape} leaves the partitions of {tensor} untiled; "
            "AWS's public pages speak of untiled dimensions in HBM alone",
            fix=f"tile them too: tile_shape={tensor.shape[:untiled_dims] + tile_shape}",
            source="nki.language.NkiTileGrid",
        )
    if tensor.index is not None and not isinstance(tensor.index, ScalarIndex):
        raise NotModelled(
            f"nl.{function} of {tensor}, whose rows or columns an index tensor picks; AWS's public "
            "pages do not say what such a grid is",
            fix="tile the tensor, and index the tensor of a tile: grid[i, j].data",
            source=f"nki.language.{function}",
        )
    strides = tensor.pattern.strides_bytes
    slab_axes = map(GridAxis.slabs, tensor.shape[:untiled_dims], strides)
    tile_axes = [
        GridAxis.tiles(extent, tile, stride, tile * stride)
        for extent, tile, stride in zip(
            tensor.shape[untiled_dims:], tile_shape, strides[untiled_dims:], strict=True
        )
    ]
    return (*slab_axes, *tile_axes)
