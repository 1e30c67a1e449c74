"""Tiles: typed views of storages, the operands of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from trnsim.dtypes import Array, Dtype, Float32Array, round_to, to_float32
from trnsim.errors import IllegalInstruction, InternalError

if TYPE_CHECKING:
    from trnsim.memory.access import AccessPattern
    from trnsim.memory.storage import Memory, Storage


class Box(NamedTuple):
    """The smallest rectangle of a storage that holds a tile: rows, and bytes within a row."""

    first_row: int
    last_row: int
    first_byte: int
    last_byte: int

    def overlaps(self, other: Box) -> bool:
        """Whether the two rectangles share a byte."""
        return (
            self.first_row <= other.last_row
            and other.first_row <= self.last_row
            and self.first_byte <= other.last_byte
            and other.first_byte <= self.last_byte
        )

    def contains(self, other: Box) -> bool:
        """Whether `other` lies within."""
        return (
            self.first_row <= other.first_row
            and other.last_row <= self.last_row
            and self.first_byte <= other.first_byte
            and other.last_byte <= self.last_byte
        )


class Tile:
    """A view of a storage: on chip, axis 0 is the partition axis and the rest is the free axis."""

    __slots__ = ("_array", "_box", "_signature", "dtype", "pattern", "storage")

    def __init__(self, storage: Storage, dtype: Dtype, pattern: AccessPattern) -> None:
        self.storage = storage
        self.dtype = dtype
        self.pattern = pattern
        self._array: Array | None = None
        self._box: Box | None = None
        self._signature: tuple[object, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions, in elements."""
        return self.pattern.shape

    @property
    def memory(self) -> Memory:
        """Where the tile lives."""
        return self.storage.memory

    @property
    def partitions(self) -> int:
        """Length of the partition axis."""
        return self.pattern.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of all its elements."""
        return self.pattern.elements * self.dtype.itemsize

    @property
    def start_partition(self) -> int:
        """The partition of its first element, on chip."""
        return self.storage.start_partition + self.pattern.offset_bytes // self.storage.pitch_bytes

    @property
    def array(self) -> Array:
        """The tile's elements as numpy sees them: a view, never a copy.

        Raises:
            IllegalInstruction: where the pattern leaves its storage.
        """
        if self._array is None:
            data = self.storage.data
            if data is None:
                raise InternalError("values were asked of a shape-only run")
            pattern = self.pattern
            try:
                self._array = np.ndarray(
                    pattern.shape,
                    self.dtype.dtype,
                    data,
                    pattern.offset_bytes,
                    pattern.strides_bytes,
                )
            except (TypeError, ValueError):
                self._refuse_bounds()
        return self._array

    def load(self) -> Float32Array:
        """The values in float32."""
        return to_float32(self.array)

    def store(self, values: Array) -> None:
        """Write `values`, rounded once to the tile's dtype and reshaped to its shape."""
        array = self.array
        rounded = round_to(values, self.dtype)
        array[...] = rounded if rounded.shape == array.shape else rounded.reshape(array.shape)

    @property
    def box(self) -> Box:
        """The smallest rectangle of the storage that holds the tile.

        Raises:
            IllegalInstruction: where the pattern leaves its storage or, on chip, its partition.
        """
        if self._box is None:
            self._box = self._find_box()
        return self._box

    def _find_box(self) -> Box:
        pitch, pattern = self.storage.pitch_bytes, self.pattern
        row, first = divmod(pattern.offset_bytes, pitch)
        on_chip = self.storage.memory.is_on_chip
        rows, span = 0, self.dtype.itemsize - 1
        for dim, (length, stride) in enumerate(
            zip(pattern.shape, pattern.strides_bytes, strict=True)
        ):
            if stride < 0:
                self._refuse_bounds()
            # On chip only the partition axis goes from row to row.
            if stride % pitch or (on_chip and dim):
                span += (length - 1) * stride
            else:
                rows += (length - 1) * (stride // pitch)
        last = pattern.offset_bytes + rows * pitch + span
        leaves_row = on_chip and first + span >= pitch
        if pattern.offset_bytes < 0 or last >= self.storage.nbytes or leaves_row:
            self._refuse_bounds()
        if first + span < pitch:
            return Box(row, row + rows, first, first + span)
        return Box(row, row + rows + (first + span) // pitch, 0, pitch - 1)

    def _refuse_bounds(self) -> NoReturn:
        raise IllegalInstruction(
            f"{self} reaches beyond its storage of {self.storage.nbytes} bytes, "
            f"{self.storage.pitch_bytes} a row: offset {self.pattern.offset_bytes}, strides "
            f"{self.pattern.strides_bytes} bytes",
            fix="keep the access pattern within the tensor it was made from",
            source="nki.language.NkiTensor.ap",
        )

    @property
    def signature(self) -> tuple[object, ...]:
        """All that a rule or a cost may depend on: memory, dtype, shape, strides, place."""
        if self._signature is None:
            pattern, memory = self.pattern, self.storage.memory
            place = (
                divmod(pattern.offset_bytes, self.storage.pitch_bytes)
                if memory.is_on_chip
                else None
            )
            self._signature = (
                memory,
                self.dtype.name,
                pattern.shape,
                pattern.strides_bytes,
                place,
                self.storage.start_partition,
            )
        return self._signature

    def __str__(self) -> str:
        name = f"{self.storage.name} " if self.storage.name else ""
        return f"{name}{self.memory.value} {list(self.shape)} {self.dtype}"

    __repr__ = __str__
