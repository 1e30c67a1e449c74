"""Panels of kernels in SBUF, with channels along the partitions, for kernels that are not weights.

A panel has all taps of its kernels. They are loaded in the order in which they lie in HBM, as a
transfer takes as long for one element as for hundreds of bytes. The Tensor Engine then reads each
tap by its stride. Kernels that lie as rows in HBM are transposed tap by tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from trnsim.graph import Value
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.emit.places.transposing import load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, axes_along, load_tile
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_PASSING_BYTES: Final = 32 * 1024
"""Bytes of a partition for panels if SBUF does not hold the panels of all kernels."""
_LINES_BYTES: Final = 16 * 1024
"""Bytes of a partition for rows of kernels that wait to be transposed."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """Neighbouring kernels in SBUF.

    Attributes:
        tile: [channels of a block, blocks of channels, kernels and taps].
        kernel_step: columns from one kernel to the next.
        tap_step: columns from one tap to the next.
    """

    tile: Tensor
    kernel_step: int
    tap_step: int


class KernelPanels:
    """The panels of kernels ``[O, C, *window]``, each loaded when it is first read."""

    def __init__(self, emission: Emission, value: Value) -> None:
        self._emission, self._value = emission, value
        self._shape, self._taps = value.shape, prod(value.shape[2:])
        self._window = tuple(range(2, len(value.shape)))
        self._item_bytes = ITEM_BYTES[value.dtype]
        self._panels: dict[int, _Panel] = {}

    def columns(self, tap: int, first: int, count: int) -> Tensor:
        """One tap of `count` kernels from `first` on, [channels of a block, blocks, count]."""
        panel = self._panels.get(first) or self._load_and_keep(first, count)
        at = tap * panel.tap_step
        end = at + (count - 1) * panel.kernel_step + 1
        return panel.tile[:, :, at : end : panel.kernel_step]

    def _load_and_keep(self, first: int, count: int) -> _Panel:
        """Load a panel; earlier panels are dropped if SBUF does not hold those of all kernels."""
        blocks = -(-self._shape[1] // P)
        kernel_bytes = blocks * self._taps * self._item_bytes
        total_bytes = (len(self._panels) + 1) * count * kernel_bytes
        is_large = self._shape[0] * kernel_bytes > self._emission.residents.most_bytes
        if is_large and total_bytes > _PASSING_BYTES:
            self._panels.clear()
        self._panels[first] = panel = self._load(first, count)
        return panel

    def _load(self, first: int, count: int) -> _Panel:
        """Load `count` kernels from `first` on, in the way that suits their layout in HBM."""
        places = self._emission.materialize(self._value)
        kernel_frame = Frame(self._shape, (0,), (1, *self._window))
        channel_frame = Frame(self._shape, (1,), (0, *self._window))
        for place in places:
            if _is_contiguous(place, channel_frame):
                start, columns = first * self._taps, count * self._taps
                span = (self._emission, self._value, channel_frame, start, columns)
                return _Panel(load_in_frame(*span).storage.tile, self._taps, 1)
            if _is_contiguous(place, kernel_frame):
                return self._load_transposed(place, kernel_frame, first, count)
        tap_frame = Frame(self._shape, (1,), (*self._window, 0))
        if count == self._shape[0]:
            whole = load_in_frame(self._emission, self._value, tap_frame)
            return _Panel(whole.storage.tile, 1, count)
        return self._load_by_taps(tap_frame, first, count)

    def _load_by_taps(self, frame: Frame, first: int, count: int) -> _Panel:
        """A panel whose taps are loaded one by one."""
        tile = self._new(count)
        for tap in range(self._taps):
            start = tap * self._shape[0] + first
            part = load_in_frame(self._emission, self._value, frame, start, count).storage.tile
            nisa.tensor_copy(dst=tile[:, :, tap * count : (tap + 1) * count], src=part)
        return _Panel(tile, 1, count)

    def _new(self, count: int) -> Tensor:
        """A new tile for `count` kernels, [channels of a block, blocks, taps * count]."""
        channels = self._shape[1]
        shape = (min(channels, P), -(-channels // P), self._taps * count)
        return new(shape, tiles.dtype_of(self._value.dtype))

    def _load_transposed(self, place: TensorPlace, rows: Frame, first: int, count: int) -> _Panel:
        """A panel of kernels that lie in HBM as rows: the rows are loaded, and then transposed."""
        tile, taps, channels = self._new(count), self._taps, self._shape[1]
        max_channels = max(_LINES_BYTES // (P * taps * self._item_bytes), 1) * P
        for start, length in tiles.pieces(channels, max_channels):
            span = TileSpan(0, 1, count, start * taps, length * taps)
            lines = load_tile(place, rows, span, place.storage.dtype, first)
            for at, width in tiles.pieces(length, P):
                data = lines[:, 0, at * taps : (at + width) * taps]
                self._transpose(data, tile[:width, (start + at) // P])
        return _Panel(tile, 1, count)

    def _transpose(self, data: Tensor, target: Tensor) -> None:
        """Transpose rows of kernels ``[count, channels * taps]`` into [channels, taps * count]."""
        taps, (count, _), (channels, _) = self._taps, data.shape, target.shape
        together = max(tiles.BANK_BYTES // (count * tiles.psum_bytes(data.dtype)), 1)
        for first, number in tiles.pieces(taps, together):
            flipped = new((channels, number, count), data.dtype, nl.psum)
            for tap in range(number):
                columns = data[:, first + tap : (channels - 1) * taps + first + tap + 1 : taps]
                nisa.nc_transpose(dst=flipped[:, tap], data=columns)
            part = target[:, first * count : (first + number) * count]
            nisa.tensor_copy(dst=part, src=flipped.reshape((channels, number * count)))


def _is_contiguous(place: TensorPlace, frame: Frame) -> bool:
    """True if the columns of a frame lie in HBM one after another."""
    return not place.is_on_chip and axes_along(place, frame.f_dims) in ([(frame.columns, (1,))], [])
