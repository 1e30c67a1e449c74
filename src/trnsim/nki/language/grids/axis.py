"""Axes of a grid: pure arithmetic from tiles and blocks to elements and bytes.

A tile is a number of consecutive elements of an axis. A cell is what one coordinate of the grid
selects: one tile in a grid of tiles, a block of consecutive tiles in a grid of blocks. The last
tile and the last cell end where the axis ends.
"""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Elements at one stride.

    Attributes:
        length: number of elements.
        stride_bytes: from an element to the next.
        start_bytes: offset of the first element.
    """

    length: int
    stride_bytes: int
    start_bytes: int


class GridAxis(NamedTuple):
    """One dimension of a grid's tensor, and its cells that the grid selects.

    Element e lies at ``start + (e // tile) * tile_stride + (e % tile) * element_stride`` bytes.

    Attributes:
        extent: elements of the whole axis.
        tile: elements of a tile; 1 on an axis that is not tiled.
        block: tiles of a cell; 1 in a grid of tiles.
        element_stride_bytes: from an element to the next of its tile.
        tile_stride_bytes: from a tile to the next.
        start_bytes: offset of element 0.
        cells: numbers of the selected cells.
        is_tiled: whether the tile shape covers the axis; each element of a leading untiled axis
            is a cell, called a slab.
        is_indexed: whether an integer selected one cell, so that the grid has no coordinate here.
    """

    extent: int
    tile: int
    block: int
    element_stride_bytes: int
    tile_stride_bytes: int
    start_bytes: int
    cells: range
    is_tiled: bool
    is_indexed: bool = False

    @staticmethod
    def slabs(extent: int, stride_bytes: int) -> GridAxis:
        """An axis that no tile covers: each element is a slab."""
        return GridAxis(extent, 1, 1, stride_bytes, stride_bytes, 0, range(extent), is_tiled=False)

    @staticmethod
    def tiles(
        extent: int, tile: int, element_stride_bytes: int, tile_stride_bytes: int
    ) -> GridAxis:
        """An axis of tiles."""
        cells = range(-(-extent // tile))
        return GridAxis(
            extent, tile, 1, element_stride_bytes, tile_stride_bytes, 0, cells, is_tiled=True
        )

    @property
    def cell(self) -> int:
        """Elements of a cell that the end of the axis does not cut."""
        return self.tile * self.block

    @property
    def step(self) -> int:
        """Elements from a selected cell to the next."""
        return self.cell * self.cells.step

    @property
    def elements(self) -> int:
        """Elements of the selected cells."""
        last = self.cells[-1] * self.cell
        return (len(self.cells) - 1) * self.cell + min(self.cell, self.extent - last)

    @property
    def has_remainder(self) -> bool:
        """True if the end of the axis cuts a selected cell."""
        return (self.cells[-1] + 1) * self.cell > self.extent

    @property
    def is_gone(self) -> bool:
        """True for the axis of a selected slab: neither coordinate nor dimension."""
        return self.is_indexed and not self.is_tiled

    @property
    def span(self) -> Span | None:
        """The selected elements as one stride; None if they lie at several strides."""
        first, elements = self.cells[0] * self.cell, self.elements
        start = self._byte_offset(first)
        is_run = self.cells.step == 1
        stride: int | None = None
        if is_run and (elements <= self.tile or self._is_even):
            stride = self.element_stride_bytes
        elif self.tile == 1 and (is_run or self.block == 1):
            stride = self.tile_stride_bytes * self.cells.step
        return None if stride is None else Span(elements, stride, start)

    def with_cells(self, cells: range, *, is_indexed: bool) -> GridAxis:
        """The axis with some of its cells."""
        if len(cells) == 1:
            cells = range(cells[0], cells[0] + 1)  # one cell has no step
        return GridAxis(*self[:6], cells, self.is_tiled, is_indexed)

    def with_block(self, block: int = 1) -> GridAxis | None:
        """A new axis over the selected elements alone, in cells of `block` tiles.

        None if the tiles are not evenly spaced, as in blocks selected with a step.
        """
        if not self.is_tiled:
            return self
        step = self.cells.step
        if step > 1 and self.block > 1:
            return None
        axis = GridAxis.tiles(
            self.elements, self.tile, self.element_stride_bytes, self.tile_stride_bytes * step
        )
        cells = range(-(-len(axis.cells) // block))
        return axis._replace(
            block=block, cells=cells, start_bytes=self._byte_offset(self.cells[0] * self.cell)
        )

    @property
    def _is_even(self) -> bool:
        """True if one stride leads through all elements, across the borders of tiles too."""
        return self.tile_stride_bytes == self.tile * self.element_stride_bytes

    def _byte_offset(self, element: int) -> int:
        tile, offset = divmod(element, self.tile)
        return self.start_bytes + tile * self.tile_stride_bytes + offset * self.element_stride_bytes
