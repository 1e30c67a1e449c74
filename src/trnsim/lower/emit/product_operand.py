"""An operand of a product: its columns in SBUF, with the contraction along the partitions."""

from __future__ import annotations

from typing import Any, Final

from trnsim.errors import InternalError
from trnsim.graph import Value
from trnsim.lower.emit.computing.gathering import GatheredMatrices, GatheredRows, gathered_operand
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace
from trnsim.lower.emit.places.transposing import is_straight, load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, is_aligned, slice_of
from trnsim.lower.kernels.tiles import BANK, P, Tensor, dtype_of, new
from trnsim.lower.patterns.contractions import PANEL_BYTES
from trnsim.nki import isa as nisa

_STATIONARY_PANEL_BYTES: Final = 32 * 1024
"""Bytes of a partition for a panel of the stationary operand."""
_SHORT_ROW_BYTES: Final = 2048
"""Panels are larger if their rows would have fewer bytes, as transfers of short rows are slow."""
_WEIGHT_PANEL_BYTES: Final = 16 * 1024
"""Bytes of a partition for a panel of a weight, whose layout in HBM suits transfers."""


class ProductOperand:
    """An operand of a product, with its contraction along the partitions.

    Attributes:
        frame: the layout in which the product reads it.
        blocks: blocks of the contraction.
        length: columns of a matrix of the batch.
        spare_bytes: bytes of a partition that the other operand leaves unused.
    """

    def __init__(self, emission: Emission, value: Value, contraction: int) -> None:
        self.emission, self.value = emission, value
        rank = len(value.shape)
        free = 2 * rank - 3 - contraction
        self.frame = Frame(value.shape, (contraction,), (*range(rank - 2), free))
        self.blocks = self.frame.blocks
        self.length = value.shape[free]
        self._loaded_place: TensorPlace | None = None
        self._start, self._is_part = 0, False
        self._views: dict[tuple[int, int, int], Tensor] = {}
        self._panel: tuple[Any, Tensor] | None = None
        self.spare_bytes = 0
        self._gathered = gathered_operand(emission, value)
        are_few = self.total_bytes() <= _STATIONARY_PANEL_BYTES
        if isinstance(self._gathered, GatheredRows) and are_few:
            # Loaded before the other operand, whose transfers they would wait for.
            emission.add_place(value, self._copy_in_frame(0, self.frame.columns))
            self._gathered = None

    # As the moving operand

    def _ready_place(self) -> TensorPlace | None:
        """A place in SBUF with the contraction along the partitions; else None."""
        if self._gathered is not None or self._weight() is not None:
            return None
        dtype, free = dtype_of(self.value.dtype), self.frame.f_dims[-1]
        for place in self.emission.materialize(self.value):
            varies = self.length == 1 or any(place.steps[free])
            if varies and is_aligned(place, self.frame) and place.storage.tile.dtype == dtype:
                return place
        return None

    def total_bytes(self) -> int:
        """Bytes of a partition for the whole operand."""
        return int(self.frame.columns * self.blocks * dtype_of(self.value.dtype).itemsize)

    def is_ready(self) -> bool:
        """True if the operand lies in SBUF as a product reads it."""
        return self._ready_place() is not None

    def chunk_columns(self) -> int:
        """The number of columns that are in SBUF at once, as the bytes of a panel allow.

        If all columns fit, and the operand is neither a weight nor a deferred gather, this call
        loads it, and it has a place in SBUF from then on.
        """
        if self._ready_place() is not None:
            return int(self.frame.columns)
        column_bytes = dtype_of(self.value.dtype).itemsize * self.blocks
        fitting = PANEL_BYTES // column_bytes
        most_columns = fitting // BANK * BANK or max(fitting // P, 1) * P
        is_loaded = self._gathered is None and self._weight() is None
        if most_columns >= self.frame.columns and is_loaded:
            self.emission.add_place(
                self.value, load_in_frame(self.emission, self.value, self.frame)
            )
        return int(min(most_columns, self._columns_together()))

    def _columns_together(self) -> int:
        """Most columns of one load: those of one matrix if a gather chooses matrices, else all."""
        is_chosen = isinstance(self._gathered, GatheredMatrices)
        return int(self.length if is_chosen else self.frame.columns)

    def load_columns(self, start: int, columns: int) -> None:
        """Load a range of columns into SBUF."""
        self._loaded_place, self._start, self._is_part = self._ready_place(), 0, False
        self._views.clear()
        if self._loaded_place is None:
            self._is_part = True
            self._start = start
            weight_place = self._load_weight(start, columns)
            self._loaded_place = weight_place or self._load_columns(start, columns)

    def has_columns(self, start: int, columns: int) -> bool:
        """True if a range of columns is what the latest product loaded."""
        latest = self.emission.loaded_moving
        return latest is not None and latest[0] == (self.value.number, self.frame, start, columns)

    def _load_columns(self, start: int, columns: int) -> TensorPlace:
        """A range of columns in SBUF, shared with the next product that reads the same."""
        key = self.value.number, self.frame, start, columns
        latest = self.emission.loaded_moving
        if latest is None or latest[0] != key:
            place = self._copy_in_frame(start, columns)
            self.emission.loaded_moving = latest = key, place
        return latest[1]

    def _copy_in_frame(self, start: int, columns: int) -> TensorPlace:
        """A range of columns in SBUF in the frame: a copy, or the choice of a deferred gather."""
        if self._gathered is None:
            return load_in_frame(self.emission, self.value, self.frame, start, columns)
        tile = self._gathered.load(start, columns, dtype_of(self.value.dtype))
        matrix = SbufMatrix(tile, self.frame.rows)
        return TensorPlace(matrix, self.frame.shape, self.frame.steps(), (0, 0))

    def _load_weight(self, start: int, columns: int) -> TensorPlace | None:
        """A range of columns of a weight in SBUF; None if the operand is no weight."""
        weight = self._weight()
        if weight is None:
            return None
        number, frame = weight
        source = self.emission.inputs.prepare(number, frame, start, columns)
        tile = new(tuple(source.shape), dtype_of(self.value.dtype))
        nisa.dma_copy(dst=tile, src=source)
        return TensorPlace(
            SbufMatrix(tile, frame.rows), self.frame.shape, self.frame.steps(), (0, 0)
        )

    def moving_tile(self, k: int, start: int, columns: int) -> Tensor:
        """Columns of block `k` of the contraction, for nc_matmul's moving operand."""
        key = k, start, columns
        view = self._views.get(key)
        if view is None:  # each block of the other operand reads it
            view = self._views[key] = self._view(k, start, columns)
        return view

    def _view(self, k: int, start: int, columns: int) -> Tensor:
        place = self._loaded_place
        if place is None:
            raise InternalError("columns are read before they are loaded")
        rows = min(P, self.frame.rows - k * P)
        if self._is_part:
            at = start - self._start
            return place.storage.tile[:rows, k, at : at + columns]
        view = slice_of(place, self.frame, TileSpan(k, 1, rows, start, columns))
        if view is None:
            raise InternalError(f"columns of {self.frame} do not lie evenly")
        return view[:, 0, :]

    # As the stationary operand

    def stationary_tile(self, panel: tuple[Tensor, int], k: int, span: TileSpan) -> Tensor:
        """The columns of block `k` of the contraction that give a span's partitions."""
        rows = min(P, self.frame.rows - k * P)
        tile, start = panel
        at = span.block * P - start
        return tile[:rows, k, at : at + span.partitions]

    def panel(self, number: int, span: TileSpan) -> tuple[Tensor, int]:
        """Columns in SBUF that include a span's, [rows, blocks of the contraction, columns].

        Also returns the number of the first of them. `number` is that of the matrix in the batch.
        """
        first = span.block * P
        ready_place = self._ready_place()
        if ready_place is not None:
            offset = number * self.length
            columns = slice_of(
                ready_place,
                self.frame,
                TileSpan(0, self.blocks, min(P, self.frame.rows), offset, self.length),
            )
            if columns is not None:
                return columns, 0
        column_bytes = dtype_of(self.value.dtype).itemsize * self.blocks
        width = max(self._panel_bytes() // column_bytes // P, 1) * P
        together = min(width, self._columns_together()) // self.length
        if together > 1:  # several matrices
            begin = number // together * together
            panel = self._cached_panel(
                begin, 0, min(together * self.length, self._columns_from(begin))
            )
            at = (number - begin) * self.length
            return panel[:, :, at : at + self.length], 0
        width = self._even_width(width)
        start = first // width * width
        return self._cached_panel(number, start, min(width, self.length - start)), start

    def _even_width(self, width: int) -> int:
        """At most `width` columns, a multiple of 128, of panels that are about equally wide."""
        panels = -(-self.length // width)
        return -(-self.length // (panels * P)) * P

    def _columns_from(self, number: int) -> int:
        """Columns of the matrices of the batch from number `number` on."""
        return self.frame.columns - number * self.length

    def _cached_panel(self, number: int, start: int, columns: int) -> Tensor:
        """The latest panel if it begins at that column of that matrix; else it is loaded."""
        key = (number, start)
        if self._panel is None or self._panel[0] != key:
            self._panel = key, self._load_panel(number, start, columns)
        return self._panel[1]

    def _panel_bytes(self) -> int:
        """Bytes of a partition for a panel; more if its rows in HBM would be short otherwise."""
        if self._weight() is not None:
            return _WEIGHT_PANEL_BYTES
        is_long = _STATIONARY_PANEL_BYTES // self.blocks >= _SHORT_ROW_BYTES
        if (
            self._gathered is not None
            or is_long
            or not is_straight(self.emission.materialize(self.value)[0], self.frame)
        ):
            return _STATIONARY_PANEL_BYTES
        return PANEL_BYTES + self.spare_bytes

    def _weight(self) -> tuple[int, Frame] | None:
        """(number, frame) of the weight that the operand is a conversion or a transpose of.

        None if there is no such weight.
        """
        if self._gathered is not None:
            return None
        for place in self.emission.convertible_places(self.value):
            number = self.emission.inputs.weight_of(place)
            if number is not None:
                return number, self.frame
            order = sorted(range(len(place.steps)), key=lambda dim: -place.steps[dim][0])
            number = (
                None
                if place.is_on_chip
                else self.emission.inputs.weight_of(place.transposed(order))
            )
            if number is not None:
                position = {dim: at for at, dim in enumerate(order)}
                frame = Frame(
                    tuple(place.shape[dim] for dim in order),
                    tuple(position[dim] for dim in self.frame.p_dims),
                    tuple(position[dim] for dim in self.frame.f_dims),
                )
                return number, frame
        return None

    def _load_panel(self, number: int, start: int, columns: int) -> Tensor:
        """Columns of the whole contraction, loaded from the operand's place."""
        weight, inputs = self._weight(), self.emission.inputs
        if weight is not None:
            source = inputs.prepare(*weight, number * self.length + start, columns)
            tile = inputs.ring_tile(tuple(source.shape), dtype_of(self.value.dtype))
            nisa.dma_copy(dst=tile, src=source)
            return tile
        at = number * self.length + start
        return self._copy_in_frame(at, columns).storage.tile
