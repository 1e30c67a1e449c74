"""NkiTensor: a tile with NKI's indexing and view methods.

On chip, dimension 0 is the partition axis: no view may move, split or drop it, and an integer
index keeps it with length 1. In HBM an integer index drops its dimension.

Source: nki.language.NkiTensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

from trnsim.absence import AbsentAttribute
from trnsim.behaviours.grids import TENSOR_DATA
from trnsim.behaviours.instructions import COMPUTE_INDIRECTION
from trnsim.behaviours.tensors import AP_OFFSET_ADDS
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import FREE_DIMENSIONS, Scalar, VirtualRegister
from trnsim.memory import (
    AccessPattern,
    Index,
    Memory,
    ScalarIndex,
    Tile,
)
from trnsim.nki.arguments import SOURCE, check_tensor, integers, lengths
from trnsim.nki.dialect import follows, require, running_version
from trnsim.nki.indexing import (
    DynamicSlice,
    MemoryRegion,
    cache_key,
    check_within,
    dynamic_index,
    expand_keys,
    index_text,
    limit_index,
    refuse_scalar,
    snake_index,
    start_end_step,
    static_part,
)
from trnsim.nki.precision import reinterpreted_dtype
from trnsim.nki.views import TensorViews, documented_method, since_05

__all__ = ["DynamicSlice", "MemoryRegion", "NkiTensor"]

_PAIR = 2


class NkiTensor(TensorViews):
    """A multi-dimensional view of SBUF, PSUM or HBM. Views share storage; nothing is copied."""

    __slots__ = ()

    # Properties

    @property
    def name(self) -> str:
        """The name passed to `nl.ndarray`, or ""."""
        return self.storage.name

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.pattern.elements

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        first_stride, *free_strides = self.pattern.strides_bytes
        byte_strides = [self.storage.own_bytes(first_stride), *free_strides]
        return tuple(stride // self.dtype.itemsize for stride in byte_strides)

    @property
    def offset(self) -> int:
        """Offset from the start of the allocated tensor, in elements."""
        storage = self.storage
        offset_bytes = storage.own_bytes(self.pattern.offset_bytes - storage.origin_bytes)
        return offset_bytes // self.dtype.itemsize

    @property
    def base_tensor(self) -> NkiTensor:
        """The allocated tensor of which this is a view; the tensor itself if it is no view."""
        base = self.storage.allocated_as
        if base is None or (self.index is None and (self.dtype, self.pattern) == base):
            return self
        return NkiTensor(self.storage, *base, self.buffer)

    @property
    def data(self) -> Self:
        """The tensor itself, so that code can take `data` of a tensor and of a grid alike.

        Raises:
            AttributeError: in versions of NKI without grids.

        Source: nki.language.NkiTileGrid, Examples.
        """
        if not follows(TENSOR_DATA):
            refusal = TENSOR_DATA.refusal(running_version(), f"data of {self}")
            raise AbsentAttribute(refusal.reason, fix=refusal.fix, source=refusal.source)
        return self

    @since_05
    def is_contiguous(self) -> bool:
        """True if it is row-major without gaps; on chip, within each partition."""
        return self.pattern.is_contiguous(self.dtype.itemsize, 1 if self._on_chip else 0)

    @since_05
    def is_indirect(self) -> bool:
        """True if an index tensor addresses it."""
        return self.index is not None

    def get_pattern(self) -> list[list[int]]:
        """[stride, count] of each dimension, in elements."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    # Indexing

    def __getitem__(self, key: Any) -> NkiTensor:
        """NumPy-style basic indexing: integers, slices, nl.ds and one Ellipsis."""
        keys = key if key.__class__ is tuple else (key,)
        cut_key = cache_key(keys) if self.index is None else None
        if cut_key is None:
            return self._cut(keys)
        try:
            layout = self.layout
        except IllegalInstruction:  # a tensor that reaches beyond its storage can still be cut
            return self._cut(keys)
        cut_layout = layout.cuts.get(cut_key)
        if cut_layout is None:
            cut = self._cut(keys)
            layout.keep_cut(cut_key, cut.layout)
            return cut
        # The body of `laid_out`: most operands are cuts, and a call would double their time.
        tensor = NkiTensor(self.storage, self.dtype, cut_layout.pattern, self.buffer)
        tensor.layout = cut_layout
        return tensor

    def _cut(self, keys: tuple[Any, ...]) -> NkiTensor:
        """The view of an index `tensor[keys]`."""
        self._guard_columns()
        pattern, address = self.pattern, self.index
        spans: list[tuple[int, int, int, bool]] = []
        # On chip the partition axis stays, and at least one free axis; in HBM one axis stays.
        on_chip = self._on_chip
        droppable = len(pattern.shape) - (2 if on_chip else 1)
        for dim, index in enumerate(expand_keys(keys, self)):
            register, static = static_part(index)
            if register is not None:
                address = self._dynamic_address(dim, register, static, address)
            start, end, step, is_span = span = start_end_step(static, pattern.shape[dim])
            check_within(index, span, dim, pattern.shape[dim])
            is_kept = is_span or droppable <= 0 or (on_chip and not dim)
            droppable -= not is_kept
            if (start, end, step, is_kept) != (0, pattern.shape[dim], 1, True):
                self._guard_rows(dim, f"tensor[{index_text(index)}]")
            spans.append((start, end, step, is_kept))
        return NkiTensor(self.storage, self.dtype, pattern.cut(spans), self.buffer, address)

    def _dynamic_address(
        self,
        dim: int,
        start: VirtualRegister,
        static: DynamicSlice | int,
        index: Index | None,
    ) -> Index:
        """The dynamic address of a dimension that a register indexes.

        Args:
            dim: the dimension.
            start: register with the first element's index.
            static: the static part of the index; its size bounds `start`.
            index: the tensor's own dynamic address, of which there can be only one.
        """
        pattern = self.pattern
        self._guard(dim, "a dynamic index")
        self._guard_second(index)
        size = static.size if isinstance(static, DynamicSlice) else 1
        return ScalarIndex(start, pattern.strides_bytes[dim], pattern.shape[dim] - size + 1)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy a tile to a part of this tensor, both on chip: `nisa.tensor_copy` with its casts.

        That it is one copy is assumed: AWS's guide shows the statement, and says no more.

        Raises:
            NotModelled: for a tensor in HBM on either side, and for any value but a tensor.

        Source: nki/migration/index.rst, sb_blocks_migrated; nki.language.NkiTensor.__setitem__.
        """
        from trnsim.nki.tiles import issue  # noqa: PLC0415  tiles are built of tensors

        fix = "fill it with nisa.memset(dst=tensor[...], value=number)"
        if isinstance(value, NkiTensor):
            if Memory.HBM not in (self.memory, value.memory):
                issue("tensor_copy", self[key], value)
                return
            fix = "write nl.store(dst=tensor[...], value=tile)"
            if self.memory is not Memory.HBM:
                fix = "write nisa.dma_copy(dst=tensor[...], src=value)"
        content = value if isinstance(value, NkiTensor | int | float) else type(value).__name__
        raise NotModelled(
            f"tensor[...] = {content}, for {self}; emulated: a tile of SBUF or PSUM, assigned to a "
            "tensor in SBUF or PSUM, as AWS documents it",
            fix=fix,
            source="nki/migration/index.rst, sb_blocks_migrated",
        )

    # Dynamic addresses, and explicit ones

    @since_05
    def select(self, dim: int, index: int | NkiTensor | VirtualRegister) -> NkiTensor:
        """Element `index` of dimension `dim`, which is dropped; a tensor or register is dynamic."""
        (dim,) = integers("select", dim)
        self._guard(dim, "select")
        if isinstance(index, Scalar):
            refuse_scalar("select")
        if isinstance(index, Tile | VirtualRegister):
            self._guard_second(self.index)
            address = dynamic_index(self.pattern, index, None, dim, is_on_chip=self._on_chip)
            return self._view(self.pattern.select(dim, 0), address)
        (index,) = integers("select", index)
        return self._view(self.pattern.select(dim, index))

    @documented_method
    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: NkiTensor | VirtualRegister | Scalar | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """An explicit [[stride, count], ...] pattern over the storage, in elements.

        On chip the first stride is one partition: the free size of the tensor or of the view.
        Bounds are checked when an instruction uses the result.

        Args:
            pattern: [stride, count] of each dimension, the slowest first.
            offset: first element, from the view's start; before NKI 0.5 from its tensor's start.
            scalar_offset: a register, one element in SBUF, or a scalar: int32, in HBM int64 too.
                It counts steps along `indirect_dim`.
            vector_offset: a tensor with the row of each element of dimension 0.
            indirect_dim: the dimension of this tensor whose stride is the step of an offset.
            dtype: dtype as which the bytes are read; by default the tensor's.

        Source: nki-aps.rst, Semantics of the Access Pattern, property 1.
        """
        new_dtype = self.dtype if dtype is None else reinterpreted_dtype(self.dtype, dtype)
        storage, itemsize, on_chip = self.storage, new_dtype.itemsize, self._on_chip
        index = dynamic_index(
            self.pattern, scalar_offset, vector_offset, indirect_dim, is_on_chip=on_chip
        )
        if self.index is not None:
            self._guard_second(index)
            self._guard_columns()
            self._guard_rows(0, "ap")
            index = self.index
        counts, (first_stride, *free_strides) = _counts_and_strides(pattern)
        first_bytes, start_bytes = first_stride * itemsize, self.pattern.offset_bytes
        if on_chip:
            first_bytes = self._partition_step(first_bytes, itemsize, counts)
        if start_bytes != storage.origin_bytes and not follows(AP_OFFSET_ADDS):
            start_bytes = storage.origin_bytes
        if offset is not None:
            (start,) = integers("ap", offset, source=f"{SOURCE}.ap")
            start_bytes += storage.placed_bytes(start * itemsize)
        strides = storage.placed_bytes(first_bytes), *map(itemsize.__mul__, free_strides)
        access = AccessPattern(counts, strides, start_bytes)
        bounded_index = limit_index(index, access, itemsize, storage.nbytes)
        return NkiTensor(storage, new_dtype, access, self.buffer, bounded_index)

    def _partition_step(self, step_bytes: int, itemsize: int, counts: tuple[int, ...]) -> int:
        """Bytes from one partition to the next in an `ap` whose first stride is `step_bytes`.

        Raises:
            IllegalInstruction: for a step other than a partition, and for more free dimensions
                than an engine has.
        """
        row_bytes, view_row_bytes = (
            self.storage.row_bytes,
            math.prod(self.shape[1:]) * self.dtype.itemsize,
        )
        if counts[0] > 1 and step_bytes not in {row_bytes, view_row_bytes}:
            steps = " or ".join(
                str(row // itemsize) for row in dict.fromkeys((row_bytes, view_row_bytes))
            )
            raise IllegalInstruction(
                f"ap of {self} with a step of {step_bytes // itemsize} elements on the partition "
                f"dimension; legal: {steps}, the free size, which is one partition",
                fix="step by the free size; copy the partitions apart with nisa.dma_copy, or "
                "repeat one with nisa.nc_stream_shuffle",
                source="nki-aps.rst, Restriction on SBUF/PSUM Tensors",
            )
        if len(counts) > 1 + FREE_DIMENSIONS:
            raise IllegalInstruction(
                f"ap of {self} with {len(counts) - 1} free dimensions; legal on chip: up to "
                f"{FREE_DIMENSIONS}",
                fix="merge dimensions that follow each other in memory, or use two instructions",
                source="nki-aps.rst, Hardware Capability",
            )
        return row_bytes if step_bytes == view_row_bytes else step_bytes

    @since_05
    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Row i is row ``vector_offset[i]`` of an HBM tensor; `dim` must be 0."""
        if integers("vector_select", dim) != (0,) or self._on_chip or self.index is not None:
            raise IllegalInstruction(
                f"vector_select({dim}) of {self}; legal: dimension 0 of a plain tensor in HBM",
                fix="permute the dimension to the front before storing it to HBM",
                source=f"{SOURCE}.vector_select",
            )
        offsets = check_tensor("vector_offset", vector_offset, f"{SOURCE}.vector_select")
        if math.prod(offsets.shape[1:]) != 1:
            raise IllegalInstruction(
                f"vector_select of {self} by {offsets}; legal: one index a partition, [P, 1]",
                fix="lay the indices out along the partitions, or slice a column of them",
                source=f"{SOURCE}.vector_select",
            )
        index = dynamic_index(self.pattern, None, offsets, 0, is_on_chip=False)
        rows = self.pattern._replace(shape=(offsets.pattern.elements, *self.pattern.shape[1:]))
        return NkiTensor(self.storage, self.dtype, rows, self.buffer, index)

    @documented_method
    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Tensor indirection: element i of a partition is its column ``index[i % G, i // G]``.

        Each group of G partitions reads its indices from the group's own rows of `index`. G is 16,
        for operands of the Tensor Engine 32.
        """
        require(COMPUTE_INDIRECTION, "tensor.indirect()")
        self._guard_second(self.index)
        snake = snake_index(self, index, num_elem)
        pattern = self.pattern._replace(shape=(self.pattern.shape[0], snake.count))
        return NkiTensor(self.storage, self.dtype, pattern, self.buffer, snake)


def _counts_and_strides(pattern: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The two columns of an `ap` pattern.

    Raises:
        IllegalInstruction: for values other than pairs of integers, each count at least 1.
    """
    if pattern.__class__ is list and pattern and all(map(_is_plain_pair, pattern)):
        plain_strides, plain_counts = zip(*pattern, strict=True)  # the usual case
        return plain_counts, plain_strides
    source = f"{SOURCE}.ap"
    are_pairs = isinstance(pattern, list | tuple) and all(
        isinstance(pair, Iterable) and not isinstance(pair, Tile) for pair in pattern
    )
    pairs = [lengths("ap", pair, source) for pair in pattern] if are_pairs else []
    if not pairs or any(len(pair) != _PAIR or pair[1] < 1 for pair in pairs):
        raise IllegalInstruction(
            f"ap({pattern!r}); legal: a list of [stride, count] pairs, each count at least 1",
            fix="describe the view as [[stride, count], ...] in elements, the slowest first",
            source=source,
        )
    strides, counts = zip(*pairs, strict=True)
    return counts, strides


def _is_plain_pair(pair: Any) -> bool:
    """True for a list of an integer (stride) and a positive integer (count)."""
    return (
        pair.__class__ is list
        and len(pair) == _PAIR
        and pair[0].__class__ is int
        and pair[1].__class__ is int
        and pair[1] > 0
    )
