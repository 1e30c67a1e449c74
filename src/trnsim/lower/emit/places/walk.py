"""Frames and spans: a tensor as a matrix in SBUF, parts of it, and transfers of their elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from trnsim.errors import InternalError
from trnsim.graph.types import Shape
from trnsim.isa import FREE_DIMENSIONS
from trnsim.lower.emit.places.tensor_place import SbufMatrix, Step, TensorPlace, merged_axes
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa


@dataclass(frozen=True, slots=True)
class Frame:
    """A tensor's dimensions as a matrix: those along partitions and those along columns.

    Attributes:
        p_dims: dimensions along the partitions, the outermost first.
        f_dims: dimensions along the free dimension, the outermost first.
        block: partitions of a block.
        is_replicated: whether every partition holds the same row; `p_dims` is then empty.
    """

    shape: Shape
    p_dims: tuple[int, ...]
    f_dims: tuple[int, ...]
    block: int = P
    is_replicated: bool = False

    @property
    def rows(self) -> int:
        """Elements along the partitions."""
        return P if self.is_replicated else prod(self.shape[dim] for dim in self.p_dims)

    @property
    def columns(self) -> int:
        """Elements along the free dimension."""
        return prod(self.shape[dim] for dim in self.f_dims)

    @property
    def blocks(self) -> int:
        """Blocks of partitions."""
        return -(-self.rows // self.block)

    def steps(self) -> tuple[Step, ...]:
        """The strides (partitions, columns) of each dimension."""
        steps: list[Step] = [(0, 0)] * len(self.shape)
        for axis, dims in enumerate((self.p_dims, self.f_dims)):
            step = 1
            for dim in reversed(dims):
                steps[dim] = (step, 0) if axis == 0 else (0, step)
                step *= self.shape[dim]
        return tuple(steps)

    def matrix(self, dtype: Any) -> TensorPlace:
        """The place of a tensor of this shape in a new matrix in SBUF."""
        tile = new((min(self.block, self.rows), self.blocks, self.columns), dtype)
        matrix = SbufMatrix(tile, self.rows, self.block, self.is_replicated)
        return TensorPlace(matrix, self.shape, self.steps(), (0, 0))

    def matrix_of(self, array: Any) -> Any:
        """An array of this shape as a matrix, [rows, columns]."""
        return (
            array.reshape(self.shape).transpose((*self.p_dims, *self.f_dims)).reshape(self.rows, -1)
        )

    def flipped(self) -> Frame:
        """The frame with partitions and columns exchanged."""
        return Frame(self.shape, self.f_dims, self.p_dims)


@dataclass(frozen=True, slots=True)
class TileSpan:
    """A part of a frame: `blocks` blocks from number `block` on, `columns` from `start` on.

    Of each block it has the first `partitions` rows.
    """

    block: int
    blocks: int
    partitions: int
    start: int
    columns: int


def frame_of(place: TensorPlace) -> Frame:
    """The frame in which a tensor lies in SBUF; repeated dimensions count as along the columns."""
    matrix, shape = place.storage, place.shape
    p_dims = [dim for dim, step in enumerate(place.steps) if step[0] and shape[dim] > 1]
    p_dims.sort(key=lambda dim: -place.steps[dim][0])
    f_dims = [dim for dim in range(len(shape)) if dim not in p_dims]
    # A repeated dimension keeps its position among its neighbours.
    varying = [dim for dim in f_dims if place.steps[dim][1]]
    dims_by_step = iter(sorted(varying, key=lambda dim: -place.steps[dim][1]))
    f_dims = [next(dims_by_step) if dim in varying else dim for dim in f_dims]
    return Frame(shape, tuple(p_dims), tuple(f_dims), matrix.block, matrix.is_replicated)


def covers_pending_result(pending: TensorPlace) -> bool:
    """True if a view has all elements of a pending result, in the order of the result's frame."""
    whole_frame, frame = pending.storage.frame, frame_of(pending)
    columns = axes_along(pending, frame.f_dims)
    return (
        not any(pending.offset)
        and (frame.rows, frame.columns) == (whole_frame.rows, whole_frame.columns)
        and all(step[0] == 1 for _, step in axes_along(pending, frame.p_dims)[-1:])
        and len(axes_along(pending, frame.p_dims)) <= 1
        and (not columns or (len(columns) == 1 and columns[0][1][1] == 1))
    )


def frame_in_hbm(place: TensorPlace) -> Frame:
    """The frame in which a tensor lies in HBM: [rows, columns] of a matrix, or row-major."""
    storage, shape = place.storage, place.shape
    if len(storage.shape) != 2:  # noqa: PLR2004  a matrix
        return row_major_frame(shape)
    columns = storage.shape[1]
    order = sorted(range(len(shape)), key=lambda dim: -place.steps[dim][0])
    p_dims = [dim for dim in order if place.steps[dim][0] >= columns and shape[dim] > 1]
    f_dims = [dim for dim in order if dim not in p_dims]
    return Frame(shape, tuple(p_dims), tuple(f_dims))


def row_major_frame(shape: Shape, columns: int = 1) -> Frame:
    """The frame of a dense tensor: the last `columns` dimensions along the columns."""
    rank = len(shape)
    first = max(rank - columns, 0)
    return Frame(shape, tuple(range(first)), tuple(range(first, rank)))


def axes_along(place: TensorPlace, dims: Sequence[int]) -> list[tuple[int, Step]]:
    """(length, stride) of the dimensions `dims` of a place, with evenly spaced ones joined.

    The list is cached, and must not be changed.
    """
    return merged_axes(place.shape, place.steps, tuple(dims))


def runs(
    axes: list[tuple[int, Step]], start: int, count: int, width: int
) -> Iterator[tuple[int, int, Step, Step]]:
    """The pieces with one stride each that make up `count` elements from number `start` on.

    `width` is the number of components of a stride.

    Yields:
        The index of a piece's first element in the range, its length, its first element's offset,
        and its stride.
    """
    if not axes:
        no_step = (0,) * width
        yield 0, count, no_step, no_step
        return
    inner, step = axes[-1]
    at = start
    while at < start + count:
        length = min(inner - at % inner, start + count - at)
        offset, outer_index = tuple(stride * (at % inner) for stride in step), at // inner
        for outer, outer_step in reversed(axes[:-1]):
            index = outer_index % outer
            offset = tuple(o + s * index for o, s in zip(offset, outer_step, strict=True))
            outer_index //= outer
        yield at - start, length, offset, step
        at += length


_LOADED_BYTES: Final = 2048
"""Maximum bytes of a partition in one transfer of several blocks and runs."""
MANY_TRANSFERS: Final = 1024
"""With more transfers, a row-major copy of the tensor is faster."""


def count_transfers(place: TensorPlace, frame: Frame) -> int:
    """The number of evenly spaced pieces into which a place's elements fall, in a frame's order.

    A transfer from SBUF reads neighbouring partitions, so each of other rows is a piece of its own.
    """
    pieces = frame.blocks
    for dims in (frame.p_dims, frame.f_dims):
        pieces *= prod(length for length, _ in axes_along(place, dims)[:-1])
    rows = axes_along(place, frame.p_dims)
    if place.is_on_chip and rows and rows[-1][1] != (1, 0):
        pieces *= rows[-1][0]
    return pieces


def is_aligned(place: TensorPlace, frame: Frame) -> bool:
    """True if each element lies in SBUF on the partition, and in the block, of its frame's row."""
    if not place.is_on_chip:
        return False
    matrix = place.storage
    if any(place.steps[dim][0] for dim in frame.f_dims):
        return False
    if any(place.steps[dim][1] for dim in frame.p_dims):
        return False
    if matrix.is_replicated:
        return True
    row_axes = axes_along(place, frame.p_dims)
    if frame.is_replicated or matrix.block != frame.block or place.offset[0] % frame.block:
        return False
    return (not row_axes and frame.rows == 1) or (len(row_axes) == 1 and row_axes[0][1][0] == 1)


def has_loadable_columns(place: TensorPlace, frame: Frame) -> bool:
    """True if transfers can load the columns of a frame from a place.

    They can from HBM, and from SBUF unless these columns lie along partitions there.
    """
    return not place.is_on_chip or not any(
        place.steps[dim][0] for dim in frame.f_dims if place.shape[dim] > 1
    )


def slice_of(place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor | None:
    """A span of an aligned place as a view of SBUF, [partitions, blocks or 1, columns or 1].

    None if its columns are not evenly spaced.
    """
    matrix = place.storage
    blocks = slice(0, 1)
    if not matrix.is_replicated:
        first = place.offset[0] // matrix.block + span.block
        blocks = slice(first, first + span.blocks)
    columns = list(runs(axes_along(place, frame.f_dims), span.start, span.columns, 2))
    if len(columns) > 1:
        return None
    _, length, begin, step = columns[0]
    length = length if step[1] else 1
    at = place.offset[1] + begin[1]
    end = at + (length - 1) * step[1] + 1
    return matrix.tile[: span.partitions, blocks, at : end : step[1] or 1]


SHORT_RUN_BYTES: Final = 512
"""Shorter runs take as long, as descriptors bound their transfer (nki-dma-overview.rst)."""


def gather_slice(place: TensorPlace, frame: Frame, span: TileSpan) -> Tensor | None:
    """A new tile with a span of an aligned place whose columns are many short runs in SBUF.

    Engines copy it, as a transfer takes as long for an element as for hundreds of bytes. None if
    runs are long, or if the columns have more dimensions than an instruction's operand.
    """
    matrix, axes = place.storage, axes_along(place, frame.f_dims)
    tile = matrix.tile
    is_whole = tile.offset == 0 and tile.is_contiguous()
    run_bytes = tile.dtype.itemsize * (axes[-1][0] if axes[-1][1][1] == 1 else 1)
    if len(axes) > FREE_DIMENSIONS or not is_whole or run_bytes >= SHORT_RUN_BYTES:
        return None
    first = 0 if matrix.is_replicated else place.offset[0] // matrix.block + span.block
    blocks, columns = tile.shape[1:]
    result = new((span.partitions, span.blocks, span.columns), tile.dtype)
    for number in range(span.blocks):
        block = 0 if matrix.is_replicated else first + number
        for at, lengths, begin in _boxes(axes, span.start, span.columns):
            steps = [step[1] for _, step in axes[-len(lengths) :]]
            pattern = [[blocks * columns, span.partitions]]
            pattern += [list(pair) for pair in zip(steps, lengths, strict=True)]
            source = tile.ap(pattern, offset=block * columns + place.offset[1] + begin)
            target = result[:, number, at : at + prod(lengths)]
            copied(source, tile.dtype, target.reshape((span.partitions, *lengths)))
    return result


def _boxes(
    axes: Sequence[tuple[int, Step]], start: int, count: int
) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Boxes that make up `count` columns from `start` on.

    Yields (position, lengths, offset): the position of a box's first column in the range, the
    lengths of its dimensions, and the column of the source at which it begins.
    """
    (_, step), inner = axes[0], prod(length for length, _ in axes[1:])
    at = 0
    while at < count:
        index, rest = divmod(start + at, inner)
        if len(axes) > 1 and (rest or count - at < inner):
            length = min(inner - rest, count - at)
            for first, lengths, begin in _boxes(axes[1:], rest, length):
                yield at + first, lengths, index * step[1] + begin
        else:
            count_of_inner = (count - at) // inner
            length = count_of_inner * inner
            yield at, (count_of_inner, *(n for n, _ in axes[1:])), index * step[1]
        at += length


def load_tile(
    place: TensorPlace, frame: Frame, span: TileSpan, dtype: Any, at_row: int = -1
) -> Tensor:
    """A new tile with a span's elements, by transfers from HBM or across partitions.

    A span of one block may begin at row `at_row` of the frame; with -1 it begins at its block.
    """
    columns = span.columns if varies_along_columns(place, frame) else 1
    tile = new((span.partitions, span.blocks, columns), dtype)
    fill_tile(tile, place, frame, span, at_row)
    return tile


def varies_along_columns(place: TensorPlace, frame: Frame) -> bool:
    """True if a place's elements differ along a frame's columns."""
    return any(any(step) for _, step in axes_along(place, frame.f_dims))


def fill_tile(
    tile: Tensor, place: TensorPlace, frame: Frame, span: TileSpan, at_row: int = -1
) -> None:
    """Transfer a span's elements into a tile; it has one column if a row's elements are equal."""
    p_axes, f_axes = axes_along(place, frame.p_dims), axes_along(place, frame.f_dims)
    if not any(any(step) for _, step in f_axes):
        f_axes = []
    columns = tile.shape[2]
    width = len(place.offset)
    if len(p_axes) == 1 and not place.is_on_chip:
        even = (frame.block if at_row < 0 else 0, p_axes[0][1][0])
        begin_at = span if at_row < 0 else replace(span, block=at_row)
        for group in _group_evenly(runs(f_axes, span.start, columns, width)):
            _fill_blocks(tile, place, even, begin_at, group)
        return
    for number in range(span.blocks):
        first = (span.block + number) * frame.block if at_row < 0 else at_row
        for row, rows, p_begin, p_step in runs(p_axes, first, span.partitions, width):
            for at, length, f_begin, f_step in runs(f_axes, span.start, columns, width):
                begin = tuple(map(sum, zip(place.offset, p_begin, f_begin, strict=True)))
                part = tile[row : row + rows, number, at : at + length]
                for source, piece in _source_views(place, begin, (p_step, f_step), (rows, length)):
                    nisa.dma_copy(dst=part[piece], src=source)


def _fill_blocks(
    tile: Tensor, place: TensorPlace, rows: tuple[int, int], span: TileSpan, group: _Group
) -> None:
    """Transfer evenly spaced rows from HBM, short rows of several blocks by one transfer.

    `rows` is (rows of a block, stride of a row). It is (0, stride) for a span of one block that
    begins at row `span.block`. `group` has evenly spaced runs of columns.
    """
    (block, step), (many, space, (column, length, begin, inner)) = rows, group
    first = place.offset[0] + begin[0] + span.block * (block or 1) * step
    # Elements with a stride are transferred one by one, and their readers wait for the whole
    # transfer, so a transfer is short.
    is_spread = length > 1 and inner[0] != 1
    max_runs = 1 if is_spread else max(_LOADED_BYTES // (length * tile.dtype.itemsize), 1)
    for run, count in tiles.pieces(many, max_runs):
        for at, blocks in tiles.pieces(span.blocks, max(max_runs // count, 1)):
            pattern = [(step, span.partitions), (block * step, blocks), (space, count)]
            pattern.append((inner[0] if length > 1 else 1, length))
            begin_at = first + run * space + at * block * step
            source = tiles.strided(place.storage, pattern, begin_at)
            start = column + run * length
            part = tile[: span.partitions, at : at + blocks, start : start + count * length]
            nisa.dma_copy(dst=part.reshape((span.partitions, blocks, count, length)), src=source)


def repeat_partitions(tile: Tensor, partitions: int) -> Tensor:
    """A tile's rows repeated until they fill `partitions`, by doubling."""
    rows, blocks, columns = tile.shape
    if rows == partitions:
        return tile
    result = new((partitions, blocks, columns), tile.dtype)
    nisa.dma_copy(dst=result[:rows], src=tile)
    while rows < partitions:
        added_rows = min(rows, partitions - rows)
        nisa.dma_copy(dst=result[rows : rows + added_rows], src=result[:added_rows])
        rows += added_rows
    return result


def _source_views(
    place: TensorPlace, begin: Step, steps: tuple[Step, Step], size: tuple[int, int]
) -> Iterator[tuple[Tensor, slice]]:
    """The views from which evenly spaced elements are copied, each with the tile's rows to fill."""
    (p_step, f_step), (rows, length) = steps, size
    if not place.is_on_chip:
        pattern = [(p_step[0], rows), (f_step[0] if length > 1 else 1, length)]
        yield tiles.strided(place.storage, pattern, begin[0]), slice(0, rows)
        return
    if f_step[0] and length > 1:
        raise InternalError("columns that lie along partitions are read as columns")
    block, tile = place.storage.block, place.storage.tile
    row = 0
    while row < rows:
        p, at = (start + row * step for start, step in zip(begin, p_step, strict=True))
        many = min(rows - row, block - p % block) if p_step == (1, 0) else 1
        end = at + (length - 1) * f_step[1] + 1
        view = tile[p % block : p % block + many, p // block, at : end : f_step[1] or 1]
        yield (view if f_step[1] else view.broadcast(1, length)), slice(row, row + many)
        row += many


def write_span(place: TensorPlace, frame: Frame, span: TileSpan, tile: Tensor) -> None:
    """Store a span's tile at its elements of `place`, in HBM."""
    p_axes, f_axes = axes_along(place, frame.p_dims), axes_along(place, frame.f_dims)
    if span.blocks > 1 and len(p_axes) == 1:
        _write_blocks(place, frame, span, tile)
        return
    for number in range(span.blocks):
        first = (span.block + number) * frame.block
        for row, rows, p_begin, p_step in runs(p_axes, first, span.partitions, 1):
            for many, space, (at, length, f_begin, f_step) in _group_evenly(
                runs(f_axes, span.start, span.columns, 1)
            ):
                begin = place.offset[0] + p_begin[0] + f_begin[0]
                step = f_step[0] if length > 1 else 1
                pattern = [(p_step[0], rows), (space, many), (step, length)]
                view = tiles.strided(place.storage, pattern, begin)
                if many == 1 and tuple(tile.shape) == (rows, 1, length):
                    nisa.dma_copy(dst=view, src=tile)
                    continue
                part = tile[row : row + rows, number, at : at + many * length]
                nisa.dma_copy(dst=view, src=part.reshape((rows, many, length)))


def _write_blocks(place: TensorPlace, frame: Frame, span: TileSpan, tile: Tensor) -> None:
    """Store a span of several blocks of evenly spaced rows, evenly spaced columns at once."""
    ((_, (row_step,)),) = axes_along(place, frame.p_dims)
    first = place.offset[0] + span.block * frame.block * row_step
    for many, space, (at, length, begin, step) in _group_evenly(
        runs(axes_along(place, frame.f_dims), span.start, span.columns, 1)
    ):
        pattern = [(row_step, span.partitions), (frame.block * row_step, span.blocks)]
        pattern += [(space, many), (step[0] if length > 1 else 1, length)]
        view = tiles.strided(place.storage, pattern, first + begin[0])
        part = tile[: span.partitions, :, at : at + many * length]
        shape = (span.partitions, span.blocks, many, length)
        nisa.dma_copy(dst=view, src=part.reshape(shape))


_Run = tuple[int, int, Step, Step]
_Group = tuple[int, int, _Run]
"""Evenly spaced runs: their count, the distance between their starts, and the first run."""


def _group_evenly(pieces: Iterator[_Run]) -> Iterator[_Group]:
    """Successive runs in HBM, in groups of equal length whose starts are evenly spaced."""
    group: list[_Run] = []
    for run in pieces:
        if group and not _continues_evenly(group, run):
            yield _as_group(group)
            group = []
        group.append(run)
    if group:
        yield _as_group(group)


def _continues_evenly(group: list[_Run], run: _Run) -> bool:
    """True if a run has the length and the stride of a group's runs, and follows them evenly."""
    last = group[-1]
    space = run[2][0] - last[2][0]
    is_even = space >= 0 if len(group) == 1 else space == _as_group(group)[1]
    return is_even and (run[1], run[3]) == (last[1], last[3])


def _as_group(group: list[_Run]) -> _Group:
    """Evenly spaced runs as a `_Group`."""
    space = group[1][2][0] - group[0][2][0] if len(group) > 1 else 0
    return len(group), space, group[0]
