"""Tiles: typed views of storages, the operands of instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from trnsim.dtypes import BFLOAT16, FLOAT32, Array, Dtype, Float32Array, round_to, to_float32
from trnsim.errors import IllegalInstruction, InternalError, UninitializedRead
from trnsim.memory.access import AccessPattern
from trnsim.memory.box import Box
from trnsim.memory.index import Index, ScalarIndex, SnakeIndex, VectorIndex, is_in_range
from trnsim.memory.layout import TileLayout, layout_of
from trnsim.memory.storage import Memory, Storage


class Tile:
    """A view of a storage: on chip, axis 0 is the partition axis and the rest is the free axis.

    With an `index` its address is known only when an instruction runs: `bits` and `load` gather,
    `put` and `store` scatter, and `footprint` covers all that the tile may touch.
    """

    __slots__ = ("_array", "dtype", "index", "layout", "pattern", "storage")

    layout: TileLayout
    """Properties of the tile's place in its storage, computed at first use (`__getattr__`)."""

    def __init__(
        self,
        storage: Storage,
        dtype: Dtype,
        pattern: AccessPattern,
        index: Index | None = None,
    ) -> None:
        self.storage = storage
        self.dtype = dtype
        self.pattern = pattern
        self.index = index
        self._array: Array | None = None

    def __deepcopy__(self, memo: object) -> Self:
        """The tile itself, so that a copy of an object that holds it refers to the same memory."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions, in elements."""
        return self.pattern.shape

    @property
    def memory(self) -> Memory:
        """The memory that holds the tile."""
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
        """The elements of the footprint as a numpy view, never a copy.

        Raises:
            IllegalInstruction: if the pattern leaves its storage.
        """
        if self._array is None:
            data = self.storage.data
            if data is None:
                raise InternalError("values were asked of a shape-only run")
            pattern = self.pattern if self.index is None else self.footprint
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

    def forget_array(self) -> None:
        """Drop the cached `array`: the storage was given other bytes."""
        self._array = None

    def bits(self, rows: Array | None = None) -> Array:
        """The elements as stored: a view, or with an index or `rows` a copy.

        Args:
            rows: a boolean per row, True for the rows to return; None for all.

        Raises:
            IllegalInstruction: if an index is out of bounds.
        """
        if self.index is None and rows is None:
            return self.array
        bits: Array = self.array[self._places(rows)]
        return bits

    def put(self, bits: Array, rows: Array | None = None) -> None:
        """Write elements as stored; `bits` is reshaped to the tile (or to its `rows`)."""
        array = self.array
        if self.index is None and rows is None:
            array[...] = bits if bits.shape == array.shape else bits.reshape(array.shape)
            return
        shape = self.shape if rows is None else (int(rows.sum()), *self.shape[1:])
        array[self._places(rows)] = bits.reshape(shape)

    def fill(self, value: Array) -> None:
        """Write `value`, one element as stored, to every element."""
        self.array[self.touched()] = value

    def load(self) -> Float32Array:
        """The values in float32."""
        bits = self.array if self.index is None else self.bits()
        return bits if self.dtype is FLOAT32 else to_float32(bits)

    def store(self, values: Array) -> None:
        """Write `values`, rounded once to the tile's dtype and reshaped to its shape."""
        if values is self._array:
            return
        if self.dtype is BFLOAT16 and self.index is None and values.dtype == np.float32:
            self.array[...] = values.reshape(self.shape)  # ml_dtypes rounds as it copies
        else:
            self.put(round_to(values, self.dtype))

    def output(self, *inputs: Array) -> Float32Array | None:
        """The tile's own buffer, if a float32 result may be computed into it directly; else None.

        The tile must be float32, without an index, and of the shape of the first input. It may
        share memory with the first input, but not with the others.

        Args:
            *inputs: an array of the result's shape, which is read element by element; then arrays
                that are read again after the first element of the result is written.
        """
        if self.dtype is not FLOAT32 or self.index is not None:
            return None
        array = self.array
        if inputs and inputs[0].shape != array.shape:
            return None
        for later_input in inputs[1:]:
            if np.may_share_memory(array, later_input):
                return None
        return array

    # Flags of written elements

    def index_tiles(self) -> tuple[Tile, ...]:
        """The tile that holds its indices, if any."""
        source = self.index.source if self.index is not None else None
        return (source,) if isinstance(source, Tile) else ()

    def is_written(self) -> bool:
        """True if every element has been written; rows skipped by an index do not count."""
        mask, itemsize = self.storage.written, self.dtype.itemsize
        if self.index is None:
            return mask.covers(*self.layout.runs)
        if mask.covers(self.footprint, itemsize):
            return True
        flags = mask.flags(self.footprint, itemsize)
        return bool(flags[self._places(self.legal_rows())].all())

    def mark_written(self) -> None:
        """Record that every element has been written, and which storage wrote there last."""
        storage, layout = self.storage, self.layout
        if storage.is_placed:
            storage.note_write(layout.box)
        changes = storage.changed
        for mask in (storage.written,) if changes is None else (storage.written, changes):
            if self.index is not None:
                if storage.data is not None:  # without values, an index adds no bytes
                    places = self._places(self.legal_rows())
                    mask.mark(self.footprint, self.dtype.itemsize, places)
            elif layout.is_whole:
                mask.fill()
            else:
                mask.add(*layout.runs)

    def note_psum_write(self, *, by_matmul: bool, places: Any = None) -> None:
        """Record a write to PSUM, by a matmul or by another instruction.

        Args:
            by_matmul: whether a matmul wrote it.
            places: numpy index of the written elements in the footprint; None for all.
        """
        storage = self.storage
        elements = self.touched() if places is None else places
        pattern, itemsize = storage.dense_pattern(self.footprint), self.dtype.itemsize
        if by_matmul:
            storage.set_by_others.discard(pattern, itemsize, elements)
        else:
            storage.set_by_others.mark(pattern, itemsize, elements)

    def written_flags(self) -> Array:
        """One boolean per element: whether it has been written."""
        return self.storage.written.flags(self.pattern, self.dtype.itemsize)

    def mark_written_where(self, flags: Array) -> None:
        """Record a write that also copied unwritten elements.

        `flags` has a boolean per element: true for a written element.
        """
        storage, itemsize = self.storage, self.dtype.itemsize
        storage.note_write(self.box)
        storage.written.discard(self.pattern, itemsize)
        for mask in (storage.written, storage.changed):
            if mask is not None:
                mask.mark(self.pattern, itemsize, flags.reshape(self.shape))

    # Dynamic addressing

    @property
    def footprint(self) -> AccessPattern:
        """The pattern of every element that the tile may select."""
        pattern, index = self.pattern, self.index
        if index is None:
            return pattern
        if isinstance(index, VectorIndex):
            return AccessPattern(
                (index.limit, *pattern.shape[1:]),
                (index.stride_bytes, *pattern.strides_bytes[1:]),
                pattern.offset_bytes,
            )
        if isinstance(index, SnakeIndex):
            return pattern._replace(shape=(pattern.shape[0], index.limit))
        return pattern

    def touched(self) -> Any:
        """Numpy index of the tile's elements within `array`, without rows out of bounds."""
        return ... if self.index is None else self._places(self.legal_rows())

    def resolved(self) -> Tile:
        """The tile with its scalar index applied; the tile itself if it has none.

        Raises:
            IllegalInstruction: if the index is out of bounds.
        """
        index = self.index
        if not isinstance(index, ScalarIndex):
            return self
        value = index.value
        if not 0 <= value < index.limit:
            self._refuse_index(value, index.limit, index.limit_reason)
        offset = self.pattern.offset_bytes + value * index.stride_bytes
        return Tile(self.storage, self.dtype, self.pattern._replace(offset_bytes=offset))

    def legal_rows(self) -> Array | None:
        """One boolean per row: whether its index is in bounds; None if all are."""
        if not isinstance(self.index, VectorIndex):
            return None
        mask = is_in_range(self.index.rows(self.shape[0]), self.index.limit)
        return None if mask.all() else mask

    def _places(self, rows: Array | None) -> Any:
        """Numpy index of the tile's elements within `array`; with `rows`, of these rows alone."""
        index = self.index
        if index is None:
            return rows
        if isinstance(index, VectorIndex):
            indices = index.rows(self.shape[0])
            indices = indices if rows is None else indices[rows]
        elif isinstance(index, SnakeIndex):
            indices = index.columns(self.shape[0])
        else:
            raise InternalError(f"{self} was used before its index was resolved")
        illegal_indices = indices[~is_in_range(indices, index.limit)]
        if illegal_indices.size:
            self._refuse_index(int(illegal_indices[0]), index.limit)
        if isinstance(index, SnakeIndex):
            return np.arange(self.shape[0])[:, None], indices
        return indices

    def _refuse_index(self, value: int, limit: int, reason: str = "") -> NoReturn:
        raise IllegalInstruction(
            f"index {value} of {self}; legal: 0 to {limit - 1}" + (f"; {reason}" if reason else ""),
            fix="keep the indices within the tensor, or skip those outside it with "
            "oob_mode=nisa.oob_mode.skip where the instruction has it",
            source="nki.isa.dma_copy, Indirect addressing",
        )

    if not TYPE_CHECKING:  # type checkers see `layout` as a plain attribute

        def __getattr__(self, name: str) -> TileLayout:
            """Compute `layout` at its first use; once the slot is set, Python does not call this.

            Raises:
                IllegalInstruction: if the pattern leaves its storage or, on chip, its partition.
            """
            if name != "layout":
                return self.absent(name)
            self.layout = self._find_layout()
            return self.layout

    def absent(self, name: str) -> Any:
        """Raise AttributeError for an attribute that does not exist.

        If it is a property that raised an AttributeError, that error is raised again.
        """
        return object.__getattribute__(self, name)

    def require_within(self) -> None:
        """Refuse a tile that leaves its storage.

        Raises:
            IllegalInstruction: if the pattern leaves its storage or, on chip, its partition.
        """
        _ = self.layout

    def require_intact(self, reader: str) -> None:
        """Raise if `reader` would read bytes that a tensor at an overlapping address overwrote.

        Raises:
            UninitializedRead: names the lines that allocated both tensors.
        """
        culprit = self.storage.overwritten_by(self.box)
        if culprit is not None:
            raise UninitializedRead(
                f"{reader} reads {self} (allocated at {self.storage.line}), whose bytes a tensor "
                f"at an overlapping address has overwritten since (allocated at {culprit.line})",
                fix="place one of the two at another address, or read before overwriting",
                source="nki.language.ndarray, address",
            )

    def _find_layout(self) -> TileLayout:
        storage, dtype = self.storage, self.dtype
        place = (
            storage.memory,
            storage.nbytes,
            storage.pitch_bytes,
            storage.start_partition,
            dtype.name,
            dtype.dtype,
        )
        if isinstance(self.index, ScalarIndex):
            layout = layout_of(*place, self.pattern, is_moved=True)
        else:
            layout = layout_of(*place, self.footprint)
        return layout or self._refuse_bounds()

    @property
    def box(self) -> Box:
        """The bounding rectangle of the tile.

        Raises:
            IllegalInstruction: if the pattern leaves its storage or, on chip, its partition.
        """
        return self.layout.box

    def _refuse_bounds(self) -> NoReturn:
        if any(stride < 0 for stride in self.pattern.strides_bytes):
            raise IllegalInstruction(
                f"{self} has the strides {self.pattern.strides_bytes} bytes; legal: 0 or more",
                fix="step forward, and reverse the order of the elements before or after",
                source="nki.language.NkiTensor.ap",
            )
        raise IllegalInstruction(
            f"{self} reaches beyond its storage of {self.storage.nbytes} bytes, "
            f"{self.storage.pitch_bytes} a row: offset {self.pattern.offset_bytes}, strides "
            f"{self.pattern.strides_bytes} bytes",
            fix="keep the access pattern within the tensor it was made from",
            source="nki.language.NkiTensor.ap",
        )

    def without_bytes(self) -> Tile:
        """The tile on a storage without data, with the layout of all that its index may reach.

        Rows that a vector index picks do not lie one after the other: their stride is 0.
        """
        storage = self.storage
        bare_storage = Storage(
            storage.memory,
            storage.nbytes,
            storage.pitch_bytes,
            start_partition=storage.start_partition,
        )
        pattern = self.pattern
        if isinstance(self.index, VectorIndex):
            pattern = pattern._replace(strides_bytes=(0, *pattern.strides_bytes[1:]))
        twin = Tile(bare_storage, self.dtype, pattern)
        twin.layout = self.layout
        return twin

    @property
    def signature(self) -> object:
        """A key of all that a rule or a cost may depend on: memory, dtype, shape, strides, place.

        A tile with an index adds the kind of the index, the signature of the tile that holds the
        indices, and for both tiles whether the kernel fixed the address.
        """
        if self.index is None:
            return self.layout.signature
        sources = [(tile.signature, tile.storage.is_placed) for tile in self.index_tiles()]
        is_placed = self.storage.is_placed
        return (self.layout.signature, self.shape, type(self.index), is_placed, *sources)

    def __str__(self) -> str:
        name = f"{self.storage.name} " if self.storage.name else ""
        return f"{name}{self.memory.value} {list(self.shape)} {self.dtype}"

    __repr__ = __str__
