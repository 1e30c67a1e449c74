"""The place of a tensor of a graph: its storage, on the chip or in HBM, and its strides.

A tensor on the chip is a matrix: one axis runs along partitions, in blocks, the other along the
free dimension. The stride (`Step`) of a dimension is then a pair (partitions, columns), in HBM a
number of elements. Reshapes, transposes, slices and repeats of a tensor are the same storage with
other strides, and move nothing if strides can describe them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, Final

from trnsim.graph.types import Shape, dense
from trnsim.lower.kernels.tiles import BANK, P, Tensor

Step = tuple[int, ...]
"""The stride of a dimension: (partitions, columns) on the chip, (elements,) in HBM."""
_CACHED_AXES: Final = 1 << 12
"""Maximum number of places and dimensions of which `merged_axes` is cached."""


@dataclass(frozen=True, slots=True)
class SbufMatrix:
    """A matrix in SBUF: ``tile[p % block, p // block, f]`` holds element (p, f).

    Attributes:
        tile: [block, blocks, columns]; fewer partitions where there are fewer rows.
        rows: elements along the partitions, over all blocks.
        block: partitions of a block.
        is_replicated: whether every partition holds the same row, so that p is ignored.
    """

    tile: Tensor
    rows: int
    block: int = P
    is_replicated: bool = False

    @property
    def columns(self) -> int:
        """Elements along the free dimension."""
        return int(self.tile.shape[2])


class PendingResult:
    """A result that is computed tile by tile where it is read.

    Attributes:
        block: partitions of a block.
        is_replicated: whether every partition holds the same row.
        frame: the matrix that its dimensions form.
        banks: number of PSUM banks that its reader leaves for sums of the next spans.
        has_rows_on_partitions: whether it asks of what is added to it that rows lie as its own.
    """

    name: str = ""
    block: int = P
    banks: int = 1
    is_replicated: bool = False
    has_rows_on_partitions: ClassVar[bool] = False
    frame: Any

    def span_columns(self) -> int:
        """The best number of columns of a span: at most a bank of PSUM."""
        return BANK

    def chunk_columns(self) -> int:
        """The number of the result's columns whose operands are in SBUF at once."""
        raise NotImplementedError

    def load_columns(self, start: int, columns: int) -> None:
        """Load the operands for a range of columns."""
        raise NotImplementedError

    def has_columns(self, start: int, columns: int) -> bool:
        """True if an earlier reader left the operands for a range of columns in SBUF."""
        del start, columns
        return False

    def tile(self, span: Any) -> Tensor:
        """The elements of a span of one block, in PSUM."""
        raise NotImplementedError


def chunks_of(pending: list[PendingResult], start: int, end: int) -> list[tuple[int, int]]:
    """Ranges (first, count) of columns from `start` to `end`, each with its operands in SBUF.

    They are in reverse order if an earlier reader left the operands of the last range in SBUF.
    """
    longest = min((result.chunk_columns() for result in pending), default=end - start)
    chunks = [(first, min(longest, end - first)) for first in range(start, end, longest)]
    if len(chunks) > 1 and any(result.has_columns(*chunks[-1]) for result in pending):
        chunks.reverse()
    return chunks


@dataclass(frozen=True, slots=True, eq=False)
class TileSource:
    """A tensor without storage, whose elements every reader generates in SBUF for itself.

    Attributes:
        dtype: its format.
        fits_any_frame: False if some frames must load it from HBM.
    """

    dtype: Any
    fits_any_frame: ClassVar[bool] = True

    def tile(self, place: Any, frame: Any, span: Any) -> Tensor | None:
        """The elements of a span; None if they must come from HBM."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class TensorPlace:
    """A tensor in its storage; places are equal if they are the same elements of one storage.

    Attributes:
        storage: an `SbufMatrix`, a tensor in HBM, a `PendingResult` or a `TileSource`.
        steps: the stride of each dimension; along a stride of zeros an element is repeated.
        offset: the position of element (0, ..., 0), in the units of a `Step`.
    """

    storage: Any
    shape: Shape
    steps: tuple[Step, ...]
    offset: Step

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorPlace)
            and self.storage is other.storage
            and (self.shape, self.steps, self.offset) == (other.shape, other.steps, other.offset)
        )

    def __hash__(self) -> int:
        return hash((id(self.storage), self.shape, self.steps, self.offset))

    @property
    def is_on_chip(self) -> bool:
        """True if the tensor lies in SBUF."""
        return isinstance(self.storage, SbufMatrix)

    @property
    def is_pending(self) -> bool:
        """True if the tensor is yet to be computed."""
        return isinstance(self.storage, PendingResult)

    @property
    def is_generated(self) -> bool:
        """True if the tensor has no storage: each reader generates its elements."""
        return isinstance(self.storage, TileSource)

    @property
    def is_contiguous(self) -> bool:
        """True if it is the first elements of a tensor in HBM, in row-major order."""
        axes = merge_axes(self.shape, self.steps)
        is_row_major = axes in ([], [(prod(self.shape), (1,))])
        return is_row_major and not self.is_on_chip and self.offset == (0,)

    def transposed(self, permutation: Sequence[int]) -> TensorPlace:
        """The place with dimension ``permutation[i]`` as dimension i."""
        return replace(
            self,
            shape=tuple(self.shape[dim] for dim in permutation),
            steps=tuple(self.steps[dim] for dim in permutation),
        )

    def sliced(self, shape: Shape, starts: Sequence[int], strides: Sequence[int]) -> TensorPlace:
        """``shape[d]`` elements of dimension d from ``starts[d]``, every ``strides[d]``-th one."""
        offset = self.offset
        for step, start in zip(self.steps, starts, strict=True):
            offset = tuple(o + start * s for o, s in zip(offset, step, strict=True))
        steps = tuple(
            tuple(component * stride for component in step)
            for step, stride in zip(self.steps, strides, strict=True)
        )
        return replace(self, shape=shape, steps=steps, offset=offset)

    def repeated(self, shape: Shape, dims: Sequence[int]) -> TensorPlace:
        """The place with its dimension i as dimension ``dims[i]``, repeated along the others."""
        no_step = (0,) * len(self.offset)
        steps: list[Step] = [no_step] * len(shape)
        for dim, length, step in zip(dims, self.shape, self.steps, strict=True):
            steps[dim] = step if length == shape[dim] else no_step
        return replace(self, shape=shape, steps=tuple(steps))

    def reshaped(self, shape: Shape) -> TensorPlace | None:
        """The elements in row-major order in another shape; None if no strides describe them."""
        axes = merge_axes(self.shape, self.steps)
        no_step = (0,) * len(self.offset)
        steps: list[Step] = []
        remaining_axes = list(axes)[::-1]
        for length in reversed(shape):
            if length == 1:
                steps.append(no_step)
                continue
            if not remaining_axes:
                return None
            extent, step = remaining_axes.pop(0)
            if extent % length:
                return None
            steps.append(step)
            if extent > length:
                outer_step = tuple(component * length for component in step)
                remaining_axes.insert(0, (extent // length, outer_step))
        return None if remaining_axes else replace(self, shape=shape, steps=tuple(steps[::-1]))


def merge_axes(shape: Shape, steps: Sequence[Step]) -> list[tuple[int, Step]]:
    """Lengths and strides of axes longer than 1, with evenly spaced neighbours joined."""
    axes: list[tuple[int, Step]] = []
    for length, step in zip(shape, steps, strict=True):
        if length == 1:
            continue
        extent = tuple(component * length for component in step)
        if axes and axes[-1][1] == extent:
            axes[-1] = (axes[-1][0] * length, step)
        else:
            axes.append((length, step))
    return axes


@lru_cache(_CACHED_AXES)
def merged_axes(
    shape: Shape, steps: tuple[Step, ...], dims: tuple[int, ...]
) -> list[tuple[int, Step]]:
    """`merge_axes` of some dimensions; the list is cached, and must not be changed."""
    return merge_axes(tuple(shape[dim] for dim in dims), [steps[dim] for dim in dims])


def in_hbm(tensor: Tensor, shape: Shape) -> TensorPlace:
    """The place of a dense tensor in HBM."""
    return TensorPlace(tensor, shape, tuple((step,) for step in dense(shape)), (0,))
