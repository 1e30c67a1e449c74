"""Static views of a tensor: other shapes over the same bytes, without an index tensor.

On chip the partition axis stays dimension 0 of every view. So does the dimension whose rows an
index tensor selects.

Source: nki.language.NkiTensor.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import prod
from types import MethodType
from typing import Any, ParamSpec, Self, TypeVar, cast

from trnsim.absence import NoAttribute
from trnsim.behaviours.tensors import RESHAPE_UNCHECKED, VIEW_METHODS
from trnsim.dtypes import Dtype
from trnsim.errors import IllegalInstruction
from trnsim.memory import (
    AccessPattern,
    Index,
    Memory,
    SnakeIndex,
    Storage,
    TileLayout,
    VectorIndex,
)
from trnsim.nki.arguments import SOURCE, check_call, integers, lengths
from trnsim.nki.dialect import follows, is_refused, running_version
from trnsim.nki.indexing import MemoryRegion
from trnsim.nki.precision import reinterpreted_dtype
from trnsim.nki.rearrange import Group, names, order, split_lengths
from trnsim.nki.values import Valueless

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Since05:
    """A view method that exists since NKI 0.5; tensors of older programs lack it.

    Functions of trnsim may call the method under every version.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = documented_method(method)
        self.__doc__, self.__name__ = method.__doc__, method.__name__

    def __get__(self, tensor: Any, _: type | None = None) -> Any:
        """The method of a tensor.

        Raises:
            NoAttribute: for a program of an older version.
        """
        if tensor is None:
            return self.method
        if not follows(VIEW_METHODS) and not _is_own_caller() and is_refused(VIEW_METHODS):
            raise self.refusal()
        return MethodType(self.method, tensor)

    def refusal(self) -> NoAttribute:
        """The error of a program of an older version."""
        refusal = VIEW_METHODS.refusal(running_version(), f"tensor.{self.__name__}()")
        return NoAttribute(refusal.reason, fix=refusal.fix, source=refusal.source)


def since_05(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator of a view method that exists since NKI 0.5; see `_Since05`."""
    return cast("Callable[_P, _R]", _Since05(method))


def documented_method(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator of a method of tensors: errors of wrong calls show its signature."""

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except TypeError:
            _check_call(method, args, kwargs)
            raise

    return call


def _check_call(method: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Refuse a call of a tensor's method that does not fit its signature, without the tensor."""
    signature, name = inspect.signature(method), method.__name__
    _, *parameters = signature.parameters.values()
    without_tensor = signature.replace(parameters=parameters)
    check_call(f"tensor.{name}", without_tensor, args[1:], kwargs, source=f"{SOURCE}.{name}")


def _is_own_caller() -> bool:
    """True if the caller of a view method is a function of trnsim."""
    name: str = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001
    return name.startswith("trnsim.")


class TensorViews(Valueless):
    """A tile with NKI's static view methods."""

    __slots__ = ("buffer",)

    def __init__(
        self,
        storage: Storage,
        dtype: Dtype,
        pattern: AccessPattern,
        buffer: MemoryRegion,
        index: Index | None = None,
    ) -> None:
        # The body of `Tile.__init__`: each operand is a tensor, and a call would double its time.
        self.storage = storage
        self.dtype = dtype
        self.pattern = pattern
        self.index = index
        self._array = None
        self.buffer = buffer

    @classmethod
    def laid_out(
        cls, storage: Storage, dtype: Dtype, layout: TileLayout, buffer: MemoryRegion
    ) -> Self:
        """A tensor in `storage` with a known layout."""
        tensor = cls(storage, dtype, layout.pattern, buffer)
        tensor.layout = layout
        return tensor

    def absent(self, name: str) -> Any:
        """Refuse an attribute that tensors lack, or lack in the program's version of NKI."""
        method = inspect.getattr_static(type(self), name, None)
        if isinstance(method, _Since05):
            raise method.refusal()
        return super().absent(name)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.pattern.shape)

    @since_05
    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Self:
        """Every `step`-th element from `start` to `end` (exclusive) of dimension `dim`."""
        dim, start, end, step = integers("slice", dim, start, end, step)
        self._guard_rows(dim, "slice")
        return self._view(self.pattern.slice(dim, start, end, step))

    @since_05
    def permute(self, dims: Sequence[int]) -> Self:
        """Dimensions in another order; on chip the partition axis stays first."""
        dims = lengths("permute", dims)
        if dims[:1] != (0,):
            self._guard_rows(0, "permute")
        if self._on_chip and dims[:1] != (0,):
            self._refuse_partition(f"permute({dims})")
        return self._view(self.pattern.permute(dims))

    @since_05
    def broadcast(self, dim: int, size: int) -> Self:
        """A dimension of length 1, repeated `size` times."""
        dim, size = integers("broadcast", dim, size)
        self._guard(dim, "broadcast")
        return self._view(self.pattern.broadcast(dim, size))

    @since_05
    def expand_dim(self, dim: int) -> Self:
        """A new dimension of length 1 at `dim`."""
        (dim,) = integers("expand_dim", dim)
        if dim in (0, -self.ndim - 1):
            self._guard(0, "expand_dim")
        return self._view(self.pattern.expand_dim(dim))

    @since_05
    def squeeze_dim(self, dim: int) -> Self:
        """The tensor without dimension `dim`, which has length 1."""
        (dim,) = integers("squeeze_dim", dim)
        self._guard(dim, "squeeze_dim")
        return self._view(self.pattern.squeeze_dim(dim))

    @since_05
    def reshape_dim(self, dim: int, shape: Sequence[int]) -> Self:
        """Dimension `dim` split into `shape`, of which one length may be -1."""
        (dim,), shape = integers("reshape_dim", dim), lengths("reshape_dim", shape)
        if len(shape) > 1:
            self._guard(dim, "reshape_dim")
        return self._view(self.pattern.reshape_dim(dim, shape))

    @since_05
    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        """Dimensions `start_dim` to `end_dim` (inclusive) merged."""
        start_dim, end_dim = integers("flatten_dims", start_dim, end_dim)
        self._guard(start_dim, "flatten_dims")
        return self._view(self.pattern.flatten_dims(start_dim, end_dim))

    @documented_method
    def reshape(self, shape: Sequence[int]) -> Self:
        """The same elements under another shape; on chip the partition axis stays."""
        shape = lengths("reshape", shape)
        if prod(shape) != self.pattern.elements and self._may_change_size(shape):
            return self._view(self._pattern_from_start(shape))
        if not self._on_chip:
            if shape[:1] != self.shape[:1]:
                self._guard_rows(0, "reshape")
            return self._view(self.pattern.reshape(shape))
        if not shape or shape[0] != self.shape[0]:
            self._refuse_partition(f"reshape({shape})")
        free_pattern = AccessPattern(
            self.pattern.shape[1:] or (1,),
            self.pattern.strides_bytes[1:] or (self.dtype.itemsize,),
            self.pattern.offset_bytes,
        ).reshape(shape[1:])
        return self._view(
            AccessPattern(
                (shape[0], *free_pattern.shape),
                (self.pattern.strides_bytes[0], *free_pattern.strides_bytes),
                free_pattern.offset_bytes,
            )
        )

    @since_05
    def rearrange(
        self,
        src_pattern: Sequence[Group],
        dst_pattern: Sequence[Group],
        fixed_sizes: Mapping[str, int] | None = None,
    ) -> Self:
        """Dimensions split, reordered and merged by name, in the notation of einops.

        ``t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})`` splits, then swaps.
        """
        view = self
        sizes = {} if fixed_sizes is None else fixed_sizes
        group_lengths = split_lengths(self.shape, src_pattern, sizes)
        for dim in reversed(range(self.ndim)):
            if len(group_lengths[dim]) > 1:
                view = view.reshape_dim(dim, group_lengths[dim])
        view = view.permute(order(src_pattern, dst_pattern))
        for dim, group in enumerate(dst_pattern):
            if len(names(group)) > 1:
                view = view.flatten_dims(dim, dim + len(names(group)) - 1)
        return view

    @documented_method
    def view(self, dtype: Any) -> Self:
        """The same bytes as another dtype; the last dimension grows or shrinks."""
        if self.index is not None:
            raise IllegalInstruction(
                f"view of {self} as {dtype}, whose place an index gives",
                fix="view it as another dtype before the dynamic index",
                source=f"{SOURCE}.view",
            )
        new_dtype = reinterpreted_dtype(self.dtype, dtype)
        if self._on_chip and self.ndim == 1 and new_dtype.itemsize != self.dtype.itemsize:
            self._refuse_partition(f"view as {new_dtype}")
        pattern = self.pattern.reinterpret(self.dtype.itemsize, new_dtype.itemsize)
        return type(self)(self.storage, new_dtype, pattern, self.buffer)

    reinterpret_cast = view

    def _may_change_size(self, shape: tuple[int, ...]) -> bool:
        """True if a reshape may change the number of elements, as before NKI 0.5."""
        is_same_partition = not self._on_chip or shape[:1] == self.shape[:1]
        is_dense = self.pattern.is_contiguous(self.dtype.itemsize, 1 if self._on_chip else 0)
        is_positive = all(length > 0 for length in shape)
        return is_positive and is_dense and is_same_partition and follows(RESHAPE_UNCHECKED)

    def _pattern_from_start(self, shape: tuple[int, ...]) -> AccessPattern:
        """The row-major pattern of `shape` from this tensor's first element; partitions stay."""
        pitch_bytes = self.pattern.strides_bytes[0] if self._on_chip else 0
        pattern = AccessPattern.dense(shape, self.dtype.itemsize, pitch_bytes)
        return pattern._replace(offset_bytes=self.pattern.offset_bytes)

    @property
    def _on_chip(self) -> bool:
        return self.storage.memory is not Memory.HBM

    def _view(self, pattern: AccessPattern, index: Index | None = None) -> Self:
        """The view of `pattern`, at the tensor's own dynamic address unless `index` is another."""
        self._guard_columns()
        if not pattern.shape:
            raise IllegalInstruction(
                f"a view of {self} without dimensions; legal: one dimension or more",
                fix="keep a dimension of length 1: tensor.reshape((1,)), or slice it",
                source=SOURCE,
            )
        address = self.index if index is None else index
        return type(self)(self.storage, self.dtype, pattern, self.buffer, address)

    def _guard(self, dim: int, method: str) -> None:
        """Refuse a change of the partition axis, and of rows that an index tensor selects."""
        if self._on_chip and self.pattern.axis(dim) == 0:
            self._refuse_partition(f"{method} on dimension {dim}")
        self._guard_rows(dim, method)

    def _guard_rows(self, dim: int, method: str) -> None:
        """Refuse a change of the dimension whose rows an index tensor selects."""
        if isinstance(self.index, VectorIndex) and self.pattern.axis(dim) == 0:
            raise IllegalInstruction(
                f"{method} on dimension {dim} of {self}, whose rows an index tensor picks",
                fix="slice the index tensor, or view the other dimensions",
                source=f"{SOURCE}.vector_select",
            )

    def _guard_columns(self) -> None:
        """Refuse a view of the result of `.indirect()`, which only serves as an operand."""
        if isinstance(self.index, SnakeIndex):
            raise IllegalInstruction(
                f"a view of {self}, whose columns an index tensor picks",
                fix="slice and reshape the tensor before .indirect()",
                source=f"{SOURCE}.indirect",
            )

    def _guard_second(self, index: Index | None) -> None:
        """Refuse a second dynamic index: a tensor has at most one."""
        if index is not None:
            raise IllegalInstruction(
                f"a second dynamic index of {self}; legal: one a tensor",
                fix="index one dimension by a register and the others by integers",
                source=f"{SOURCE}.select",
            )

    def _refuse_partition(self, label: str) -> None:
        raise IllegalInstruction(
            f"{label} of {self}: the partition dimension of an on-chip tensor stays dimension 0",
            fix="view the free dimensions only; nisa.nc_transpose moves data between partitions",
            source=SOURCE,
        )
