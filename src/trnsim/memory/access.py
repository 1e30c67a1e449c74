"""Access patterns: the bytes of a storage that a view covers, as pure integer arithmetic.

A pattern is a shape, a byte stride per dimension and a byte offset: an engine's access pattern
of up to five dimensions. Every view of a tensor (slice, select, permute, reshape ...) makes a new
pattern and moves no data. An impossible view raises `IllegalInstruction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, NoReturn

from trnsim.errors import IllegalInstruction

_SOURCE = "nki.language.NkiTensor"


def _refuse(reason: str, fix: str) -> NoReturn:
    raise IllegalInstruction(reason, fix=fix, source=_SOURCE)


class AccessPattern(NamedTuple):
    """Shape in elements, strides and offset in bytes."""

    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    offset_bytes: int

    @staticmethod
    def dense(shape: tuple[int, ...], itemsize: int, pitch_bytes: int = 0) -> AccessPattern:
        """Row-major pattern of `shape`; rows of dimension 0 lie `pitch_bytes` apart if given."""
        strides: list[int] = []
        step = itemsize
        for length in reversed(shape):
            strides.append(step)
            step *= length
        strides.reverse()
        if pitch_bytes:
            strides[0] = pitch_bytes
        return AccessPattern(shape, tuple(strides), 0)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def free_dimensions(self) -> int:
        """Number of loops after dimension 0, with contiguous dimensions merged."""
        return len(_merged_dims(self.shape[1:], self.strides_bytes[1:]))

    def axis(self, dim: int) -> int:
        """`dim` as a non-negative index; refused where there is no such dimension."""
        ndim = len(self.shape)
        if not -ndim <= dim < ndim:
            _refuse(
                f"dimension {dim} of a tensor of shape {self.shape}; legal: {-ndim} to {ndim - 1}",
                "count the dimensions from 0",
            )
        return dim % ndim

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> AccessPattern:
        """Every `step`-th element from `start` to `end` (exclusive) of dimension `dim`."""
        dim = self.axis(dim)
        length = self.shape[dim]
        if not (0 <= start < end <= length and step >= 1):
            _refuse(
                f"slice {start}:{end}:{step} of dimension {dim}, which has {length} elements; "
                f"legal: 0 <= start < end <= {length}, step >= 1",
                "keep the slice within the tensor, and not empty",
            )
        stride = self.strides_bytes[dim]
        return AccessPattern(
            (*self.shape[:dim], -(-(end - start) // step), *self.shape[dim + 1 :]),
            (*self.strides_bytes[:dim], stride * step, *self.strides_bytes[dim + 1 :]),
            self.offset_bytes + start * stride,
        )

    def select(self, dim: int, index: int) -> AccessPattern:
        """Element `index` of dimension `dim`, which is dropped."""
        dim = self.axis(dim)
        length = self.shape[dim]
        if not 0 <= index < length:
            _refuse(
                f"index {index} of dimension {dim}, which has {length} elements; "
                f"legal: 0 to {length - 1}",
                "keep the index within the tensor",
            )
        return AccessPattern(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides_bytes[:dim] + self.strides_bytes[dim + 1 :],
            self.offset_bytes + index * self.strides_bytes[dim],
        )

    def cut(self, spans: Sequence[tuple[int, int, int, bool]]) -> AccessPattern:
        """Each dimension cut to (start, end, step, is_kept), and dropped if `is_kept` is False.

        An empty span of a kept dimension gives an empty pattern, which no instruction accepts.
        """
        shape: list[int] = []
        strides: list[int] = []
        offset = self.offset_bytes
        for dim, (start, end, step, is_kept) in enumerate(spans):
            length, stride = self.shape[dim], self.strides_bytes[dim]
            if is_kept and 0 <= start == end <= length and step >= 1:
                shape.append(0)
                strides.append(stride * step)
                continue
            if not (0 <= start < end <= length and step >= 1):
                return self.slice(dim, start, end, step) if is_kept else self.select(dim, start)
            offset += start * stride
            if is_kept:
                shape.append(-(-(end - start) // step))
                strides.append(stride * step)
        return AccessPattern(tuple(shape), tuple(strides), offset)

    def permute(self, dims: tuple[int, ...]) -> AccessPattern:
        """Dimensions in the order `dims`."""
        if sorted(dims) != list(range(len(self.shape))):
            _refuse(
                f"permute{dims} of a tensor of shape {self.shape}; legal: a permutation of "
                f"{tuple(range(len(self.shape)))}",
                "name each dimension once",
            )
        return AccessPattern(
            tuple(self.shape[d] for d in dims),
            tuple(self.strides_bytes[d] for d in dims),
            self.offset_bytes,
        )

    def broadcast(self, dim: int, size: int) -> AccessPattern:
        """Dimension `dim` of length 1, repeated `size` times."""
        dim = self.axis(dim)
        if self.shape[dim] != 1 or size < 1:
            _refuse(
                f"broadcast to {size} of dimension {dim}, which has {self.shape[dim]} elements; "
                "legal: 1 element, to a size of at least 1",
                "broadcast a dimension of length 1; expand_dim makes one",
            )
        return AccessPattern(
            (*self.shape[:dim], size, *self.shape[dim + 1 :]),
            (*self.strides_bytes[:dim], 0, *self.strides_bytes[dim + 1 :]),
            self.offset_bytes,
        )

    def expand_dim(self, dim: int) -> AccessPattern:
        """A new dimension of length 1 at `dim`."""
        ndim = len(self.shape)
        if not -ndim - 1 <= dim <= ndim:
            _refuse(f"expand_dim({dim}) of a tensor of shape {self.shape}", f"use 0 to {ndim}")
        dim %= ndim + 1
        step = self.strides_bytes[dim] * self.shape[dim] if dim < ndim else self.strides_bytes[-1]
        return AccessPattern(
            (*self.shape[:dim], 1, *self.shape[dim:]),
            (*self.strides_bytes[:dim], step, *self.strides_bytes[dim:]),
            self.offset_bytes,
        )

    def squeeze_dim(self, dim: int) -> AccessPattern:
        """The pattern without dimension `dim`, which must have length 1."""
        dim = self.axis(dim)
        if self.shape[dim] != 1:
            _refuse(
                f"squeeze_dim({dim}) of a tensor of shape {self.shape}; legal: a length of 1",
                "select an element of the dimension instead",
            )
        return self.select(dim, 0)

    def reshape_dim(self, dim: int, lengths: tuple[int, ...]) -> AccessPattern:
        """Dimension `dim` split into `lengths`, of which one may be -1."""
        dim = self.axis(dim)
        lengths = _inferred_lengths(lengths, self.shape[dim])
        stride = self.strides_bytes[dim]
        strides: list[int] = []
        for length in reversed(lengths):
            strides.append(stride)
            stride *= length
        return AccessPattern(
            (*self.shape[:dim], *lengths, *self.shape[dim + 1 :]),
            (*self.strides_bytes[:dim], *reversed(strides), *self.strides_bytes[dim + 1 :]),
            self.offset_bytes,
        )

    def flatten_dims(self, first: int, last: int) -> AccessPattern:
        """Dimensions `first` to `last` (inclusive) merged into one."""
        first, last = self.axis(first), self.axis(last)
        if first > last:
            _refuse(f"flatten_dims({first}, {last}); legal: the first dimension first", "swap them")
        dims = _merged_dims(self.shape[first : last + 1], self.strides_bytes[first : last + 1])
        if len(dims) > 1:
            _refuse(
                f"flatten_dims({first}, {last}) of shape {self.shape} with byte strides "
                f"{self.strides_bytes}: non-contiguous layout",
                "copy the view into a tensor of its own first",
            )
        length, stride = dims[0] if dims else (1, self.strides_bytes[last])
        return AccessPattern(
            (*self.shape[:first], length, *self.shape[last + 1 :]),
            (*self.strides_bytes[:first], stride, *self.strides_bytes[last + 1 :]),
            self.offset_bytes,
        )

    def reshape(self, shape: tuple[int, ...]) -> AccessPattern:
        """The same elements in row-major order in another shape; refused if that needs a copy."""
        shape = _inferred_lengths(shape, self.elements)
        runs = _merged_dims(self.shape, self.strides_bytes) or [(1, self.strides_bytes[-1])]
        strides: list[int] = []
        run = len(runs) - 1
        remaining, stride = runs[run]
        for length in reversed(shape):
            while length > 1 and remaining == 1:
                run -= 1
                remaining, stride = runs[run]
            if remaining % length:
                _refuse(
                    f"reshape of {self.shape} with byte strides {self.strides_bytes} to {shape} "
                    "needs a copy: non-contiguous layout",
                    "copy the view into a tensor of its own first, or reshape before slicing",
                )
            strides.append(stride)
            remaining //= length
            stride *= length
        return AccessPattern(shape, tuple(reversed(strides)), self.offset_bytes)

    def reinterpret(self, itemsize: int, new_itemsize: int) -> AccessPattern:
        """The same bytes as elements of another size; the last dimension grows or shrinks."""
        *outer, last = self.shape
        *outer_strides, stride = self.strides_bytes
        if (last > 1 and stride != itemsize) or last * itemsize % new_itemsize:
            _refuse(
                f"view of shape {self.shape} as elements of {new_itemsize} bytes; legal: a last "
                f"dimension that is contiguous and a multiple of {new_itemsize} bytes",
                "slice the last dimension to such a length first",
            )
        return AccessPattern(
            (*outer, last * itemsize // new_itemsize),
            (*outer_strides, new_itemsize),
            self.offset_bytes,
        )

    def runs(self, itemsize: int) -> tuple[AccessPattern, int]:
        """The pattern of the maximal contiguous runs, and the bytes of a run."""
        outer = len(self.shape)
        while outer and (self.shape[outer - 1] == 1 or self.strides_bytes[outer - 1] == itemsize):
            outer -= 1
            itemsize *= self.shape[outer]
        runs = AccessPattern(self.shape[:outer], self.strides_bytes[:outer], self.offset_bytes)
        return runs, itemsize

    @property
    def order(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Offset and merged dimensions: equal for equal sequences of elements."""
        return self.offset_bytes, tuple(_merged_dims(self.shape, self.strides_bytes))

    def is_packed(self, itemsize: int) -> bool:
        """True if its elements are dense and disjoint in some order of dimensions."""
        step = itemsize
        for stride, length in sorted(zip(self.strides_bytes, self.shape, strict=True)):
            if length != 1 and stride != step:
                return False
            step *= length
        return True

    def is_contiguous(self, itemsize: int, first_dim: int = 0) -> bool:
        """True if the dimensions from `first_dim` on are row-major without gaps."""
        step = itemsize
        for length, stride in zip(
            reversed(self.shape[first_dim:]), reversed(self.strides_bytes[first_dim:]), strict=True
        ):
            if length != 1 and stride != step:
                return False
            step *= length
        return True


def _inferred_lengths(lengths: tuple[int, ...], total: int) -> tuple[int, ...]:
    """`lengths` with -1 replaced by the length that gives `total` elements."""
    fixed = prod(length for length in lengths if length != -1)
    if lengths.count(-1) == 1 and fixed and total % fixed == 0:
        lengths = tuple(total // fixed if length == -1 else length for length in lengths)
    if prod(lengths) != total or any(length < 1 for length in lengths):
        _refuse(
            f"size mismatch: shape {lengths} for {total} elements; legal: lengths whose product "
            f"is {total}, one of them may be -1",
            "choose lengths whose product is the number of elements",
        )
    return lengths


def _merged_dims(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(length, stride) of each dimension longer than 1, with adjacent dimensions merged."""
    runs: list[tuple[int, int]] = []
    for length, stride in zip(shape, strides, strict=True):
        if length == 1:
            continue
        if runs and runs[-1][1] == length * stride:
            runs[-1] = (runs[-1][0] * length, stride)
        else:
            runs.append((length, stride))
    return runs
