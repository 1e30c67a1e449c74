"""NkiTensor: a tile with NKI's indexing and view methods.

On chip, dimension 0 is the partition axis: no view may move, split or drop it, and an integer
index keeps it with length 1. In HBM an integer index drops its dimension.

Source: nki.language.NkiTensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from trnsim.dtypes import Dtype, as_dtype
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.memory import AccessPattern, Memory, Storage, Tile

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE = "nki.language.NkiTensor"


class MemoryRegion(Enum):
    """Where `nl.ndarray` puts a tensor. `hbm` is an alias of `private_hbm`."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    @property
    def memory(self) -> Memory:
        """The memory that holds it."""
        return {"sbuf": Memory.SBUF, "psum": Memory.PSUM}.get(self.value, Memory.HBM)


@dataclass(frozen=True, slots=True)
class DynamicSlice:
    """`nl.ds(start, size)`: `size` elements from `start` on."""

    start: int
    size: int


class NkiTensor(Tile):
    """A multi-dimensional view of SBUF, PSUM or HBM. Views share storage; nothing is copied."""

    __slots__ = ("buffer",)

    def __init__(
        self, storage: Storage, dtype: Dtype, pattern: AccessPattern, buffer: MemoryRegion
    ) -> None:
        super().__init__(storage, dtype, pattern)
        self.buffer = buffer

    # What it is

    @property
    def name(self) -> str:
        """The name given to `nl.ndarray`, or ""."""
        return self.storage.name

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.pattern.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.pattern.elements

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(stride // self.dtype.itemsize for stride in self.pattern.strides_bytes)

    @property
    def offset(self) -> int:
        """Offset from the start of its storage, in elements."""
        return self.pattern.offset_bytes // self.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether it is row-major without gaps; on chip, within each partition."""
        return self.pattern.is_contiguous(self.dtype.itemsize, 1 if self._on_chip else 0)

    def is_indirect(self) -> bool:
        """Whether an index tensor addresses it."""
        return False

    def get_pattern(self) -> list[list[int]]:
        """[stride, count] of each dimension, in elements."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    # Indexing

    def __getitem__(self, key: Any) -> NkiTensor:
        """NumPy-style basic indexing: integers, slices, nl.ds and one Ellipsis."""
        keys = self._expanded(key if isinstance(key, tuple) else (key,))
        pattern = self.pattern
        dim = 0
        for index in keys:
            length = pattern.shape[dim]
            if isinstance(index, slice):
                pattern = pattern.slice(dim, *_bounds(index, length))
            elif isinstance(index, DynamicSlice):
                pattern = pattern.slice(dim, index.start, index.start + index.size)
            else:
                at = _integer(index, length)
                if self._keeps(dim, pattern):
                    pattern = pattern.slice(dim, at, at + 1)
                else:
                    pattern = pattern.select(dim, at)
                    continue
            dim += 1
        return self._view(pattern)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assignment belongs to the older NKI; an instruction writes instead."""
        del key, value
        raise NotModelled(
            "tensor[...] = value is the assignment of NKI 0.1; it is not emulated yet",
            fix="write with an instruction: nisa.tensor_copy(dst=tensor[...], src=value)",
            source="nki/migration/index.rst",
        )

    def _keeps(self, dim: int, pattern: AccessPattern) -> bool:
        """On chip the partition axis stays, and at least one free axis; in HBM one axis stays."""
        smallest = 2 if self._on_chip else 1
        return (self._on_chip and dim == 0) or len(pattern.shape) <= smallest

    def _expanded(self, keys: tuple[Any, ...]) -> list[Any]:
        """The keys with Ellipsis and missing trailing dimensions spelled out."""
        given = [k for k in keys if not isinstance(k, EllipsisType)]
        missing = self.ndim - len(given)
        if missing < 0 or len(keys) - len(given) > 1:
            raise IllegalInstruction(
                f"{len(given)} indices for {self}, which has {self.ndim} dimensions",
                fix="index each dimension at most once",
                source=_SOURCE,
            )
        full = [slice(None)] * missing
        for place, index in enumerate(keys):
            if isinstance(index, EllipsisType):
                return [*keys[:place], *full, *keys[place + 1 :]]
        return [*keys, *full]

    # Views

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements `start` to `end` (exclusive) of dimension `dim`, every `step`-th."""
        return self._view(self.pattern.slice(dim, start, end, step))

    def select(self, dim: int, index: int) -> NkiTensor:
        """Element `index` of dimension `dim`, which goes away."""
        if isinstance(index, Tile):
            raise NotModelled(
                "select by a tensor (dynamic addressing) is not emulated yet",
                fix="select by an integer",
                source=f"{_SOURCE}.select",
            )
        self._guard(dim, "select")
        return self._view(self.pattern.select(dim, index))

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Dimensions in another order; on chip the partition axis stays first."""
        if self._on_chip and dims[0] != 0:
            self._refuse_partition(f"permute({tuple(dims)})")
        return self._view(self.pattern.permute(tuple(dims)))

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """A dimension of length 1, repeated `size` times."""
        self._guard(dim, "broadcast")
        return self._view(self.pattern.broadcast(dim, size))

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new dimension of length 1 at `dim`."""
        if self._on_chip and dim % (self.ndim + 1) == 0:
            self._refuse_partition(f"expand_dim({dim})")
        return self._view(self.pattern.expand_dim(dim))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Without dimension `dim` of length 1."""
        self._guard(dim, "squeeze_dim")
        return self._view(self.pattern.squeeze_dim(dim))

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Dimension `dim` split into `shape`, of which one length may be -1."""
        if len(shape) > 1:
            self._guard(dim, "reshape_dim")
        return self._view(self.pattern.reshape_dim(dim, tuple(shape)))

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Dimensions `start_dim` to `end_dim` (inclusive) merged."""
        self._guard(start_dim, "flatten_dims")
        return self._view(self.pattern.flatten_dims(start_dim, end_dim))

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """The same elements under another shape; on chip the partition axis stays."""
        shape = tuple(shape)
        if not self._on_chip:
            return self._view(self.pattern.reshape(shape))
        if not shape or shape[0] != self.shape[0]:
            self._refuse_partition(f"reshape({shape})")
        free = AccessPattern(
            self.pattern.shape[1:], self.pattern.strides_bytes[1:], self.pattern.offset_bytes
        ).reshape(shape[1:])
        return self._view(
            AccessPattern(
                shape, (self.pattern.strides_bytes[0], *free.strides_bytes), free.offset_bytes
            )
        )

    def view(self, dtype: Any) -> NkiTensor:
        """The same bytes as another dtype; the last dimension grows or shrinks."""
        new = as_dtype(dtype)
        pattern = self.pattern.reinterpret(self.dtype.itemsize, new.itemsize)
        return NkiTensor(self.storage, new, pattern, self.buffer)

    reinterpret_cast = view

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: NkiTensor | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: Any = None,
    ) -> NkiTensor:
        """An explicit [[stride, count], ...] pattern over the storage, in elements.

        `offset` counts from the view's own start. Bounds are checked when an instruction uses it.
        """
        del indirect_dim
        if scalar_offset is not None or vector_offset is not None:
            raise NotModelled(
                "ap with scalar_offset or vector_offset (dynamic addressing) is not emulated yet",
                fix="use a static offset",
                source=f"{_SOURCE}.ap",
            )
        new = self.dtype if dtype is None else as_dtype(dtype)
        return NkiTensor(
            self.storage,
            new,
            AccessPattern(
                tuple(count for _, count in pattern),
                tuple(stride * new.itemsize for stride, _ in pattern),
                self.pattern.offset_bytes + (offset or 0) * new.itemsize,
            ),
            self.buffer,
        )

    @property
    def _on_chip(self) -> bool:
        return self.storage.memory is not Memory.HBM

    def _view(self, pattern: AccessPattern) -> NkiTensor:
        return NkiTensor(self.storage, self.dtype, pattern, self.buffer)

    def _guard(self, dim: int, method: str) -> None:
        if self._on_chip and dim % self.ndim == 0:
            self._refuse_partition(f"{method} on dimension {dim}")

    def _refuse_partition(self, what: str) -> None:
        raise IllegalInstruction(
            f"{what} of {self}: the partition axis of an on-chip tensor stays dimension 0",
            fix="view the free dimensions only; nisa.nc_transpose moves data between partitions",
            source=_SOURCE,
        )


def _bounds(index: slice, length: int) -> tuple[int, int, int]:
    """(start, end, step) with defaults and negative ends resolved, not clamped."""
    start = 0 if index.start is None else int(index.start)
    end = length if index.stop is None else int(index.stop)
    step = 1 if index.step is None else int(index.step)
    return (
        start + length if start < 0 else start,
        end + length if end < 0 else end,
        step,
    )


def _integer(index: Any, length: int) -> int:
    try:
        at = index.__index__()
    except AttributeError:
        raise IllegalInstruction(
            f"an index of type {type(index).__name__}; legal: integers, slices, nl.ds, Ellipsis",
            fix="index with integers; tensors index through .ap(vector_offset=...)",
            source=_SOURCE,
        ) from None
    return int(at + length if at < 0 else at)
