"""Constant tiles of a program, which are made or loaded once and read many times."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from trnsim.lower.emit.inputs import ProgramInputs
from trnsim.lower.emit.places import transposing
from trnsim.lower.emit.places.spans import tile_spans
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import (
    Frame,
    axes_along,
    is_aligned,
    load_tile,
    repeat_partitions,
)
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_MANY_RUNS: Final = 8
"""Most runs of a column that is loaded as it lies; one with more is made contiguous in HBM first.

Each run is a transfer.
"""


class Constants:
    """Cache of the constant tiles of a program."""

    def __init__(self, inputs: ProgramInputs, most_bytes: int) -> None:
        """An empty cache; `most_bytes` is the room for results on a partition."""
        self._inputs, self._most_bytes = inputs, most_bytes
        self._tiles: dict[Any, Tensor] = {}
        self._columns: dict[Any, Tensor] = {}

    def get_or_make(self, key: Any, make: Callable[[], Tensor]) -> Tensor:
        """The tile of a key, made at its first request."""
        if key not in self._tiles:
            self._tiles[key] = make()
        return self._tiles[key]

    def ones(self, dtype: Any) -> Tensor:
        """A block of ones, [128, 128]."""

        def make() -> Tensor:
            tile = new((P, P), dtype)
            nisa.memset(dst=tile, value=1.0)
            return tile

        return self.get_or_make(("ones", dtype), make)

    def periodic_block(self, number: int, place: TensorPlace, frame: Frame) -> Tensor | None:
        """The first block of a tensor whose blocks are all equal, [block, 1, columns]; else None.

        `number` is that of the tensor's value.
        """
        repeats = [
            dim for dim in frame.p_dims if frame.shape[dim] > 1 and not any(place.steps[dim])
        ]
        period_dims = frame.p_dims[len(repeats) :]
        length = prod(frame.shape[dim] for dim in period_dims)
        if not repeats or frame.p_dims[: len(repeats)] != tuple(repeats) or frame.block % length:
            return None
        key = ("periodic", number, frame, place.steps, place.offset)
        if key in self._tiles:
            return self._tiles[key]
        varying = [dim for dim in frame.f_dims if any(place.steps[dim])]
        if any(not any(place.steps[dim]) and frame.shape[dim] > 1 for dim in period_dims):
            return None
        if varying and any(not any(place.steps[d]) and frame.shape[d] > 1 for d in frame.f_dims):
            return None
        dims = (*period_dims, *varying)
        period_frame = Frame(
            tuple(frame.shape[dim] for dim in dims),
            tuple(range(len(period_dims))),
            tuple(range(len(period_dims), len(dims))),
            length,
        )
        if period_frame.columns * nl.float32.itemsize > self._most_bytes // 2:
            return None
        steps = tuple(place.steps[dim] for dim in dims)
        period = TensorPlace(place.storage, period_frame.shape, steps, place.offset)
        if length == 1 and not place.is_on_chip:
            tile = transposing.load_repeated(period, period_frame, frame.block)
        else:
            copy = transposing.copy_in_frame(period, period_frame)
            tile = repeat_partitions(copy.storage.tile, frame.block)
        self._tiles[key] = tile
        return tile

    def column(self, number: int, place: TensorPlace, frame: Frame) -> Tensor:
        """A value with one element for each row of a frame, as a column [128, blocks, 1].

        It is loaded once. `number` is `Value.number`.
        """
        dims = frame.p_dims
        shape = tuple(place.shape[dim] for dim in dims)
        steps = tuple(place.steps[dim] for dim in dims)
        key = (number, shape, steps, place.offset, frame.block, frame.is_replicated)
        if key not in self._columns:
            p_dims = tuple(range(len(dims)))
            column_frame = Frame(shape, p_dims, (), frame.block, frame.is_replicated)
            vector = TensorPlace(place.storage, shape, steps, place.offset)
            weight = None if column_frame.is_replicated else self._inputs.weight_of(vector)
            if weight is not None:
                source = self._inputs.prepare(weight, column_frame)
                tile = new(source.shape, source.dtype)
                nisa.dma_copy(dst=tile, src=source)
            else:
                tile = self._load_column(vector, column_frame)
            if tile.dtype.name in ("bfloat16", "float16"):  # engines take columns in float32
                float32_tile = new(tile.shape)
                nisa.tensor_copy(dst=float32_tile, src=tile)
                tile = float32_tile
            self._columns[key] = tile
        return self._columns[key]

    def _load_column(self, vector: TensorPlace, frame: Frame) -> Tensor:
        """Load a vector as a column [128, blocks, 1]; `frame` has no dimensions along columns."""
        dtype = vector.storage.tile.dtype if vector.is_on_chip else vector.storage.dtype
        if vector.is_on_chip and is_aligned(vector, frame.flipped()):
            vector = transposing.copy_in_frame(vector, frame)
        elif count_row_runs(vector, frame) > _MANY_RUNS:
            vector = _copy_contiguous(vector, dtype)
        tile = new((min(frame.block, frame.rows), frame.blocks, 1), dtype)
        for span in tile_spans(frame, 0, 1, frame.blocks, 1):
            part = load_tile(vector, frame, span, dtype)
            if span.partitions == frame.rows or span.blocks == frame.blocks:
                return part
            target = tile[: span.partitions, span.block : span.block + span.blocks]
            nisa.tensor_copy(dst=target, src=part)
        return tile


def count_row_runs(place: TensorPlace, frame: Frame) -> int:
    """The number of transfers that load one block of a vector as a column, in a frame's order."""
    axes = axes_along(place, frame.p_dims)
    if not place.is_on_chip:
        return prod(length for length, _ in axes[:-1])
    if place.storage.is_replicated or any(step[1] for _, step in axes):
        return 1  # it lies in several columns, which are not laid out anew
    is_even = len(axes) == 1 and axes[0][1] == (1, 0)
    return 1 if is_even else prod(length for length, _ in axes)


def _copy_contiguous(place: TensorPlace, dtype: Any) -> TensorPlace:
    """A contiguous copy in HBM of a vector in HBM, or in a column of SBUF."""
    if place.is_on_chip:
        place = _column_in_hbm(place, dtype)
    line = nl.ndarray((prod(place.shape),), dtype=dtype, buffer=nl.shared_hbm)
    target = in_hbm(line, place.shape)
    pairs = [(step, n) for (step,), n in zip(place.steps, place.shape, strict=True)]
    goals = [(step, n) for (step,), n in zip(target.steps, place.shape, strict=True)]
    source = tiles.strided(place.storage, pairs, place.offset[0])
    nisa.dma_copy(dst=tiles.strided(line, goals), src=source)
    return target


def _column_in_hbm(place: TensorPlace, dtype: Any) -> TensorPlace:
    """The place in HBM of a vector in a column of a matrix in SBUF, after the column is copied."""
    matrix = place.storage
    full, rest = divmod(matrix.rows, matrix.block)
    column = nl.ndarray((matrix.rows,), dtype=dtype, buffer=nl.shared_hbm)
    tile, at = matrix.tile, place.offset[1]
    if full:
        target = tiles.strided(column, [(1, matrix.block), (matrix.block, full)])
        nisa.dma_copy(dst=target, src=tile[:, :full, at])
    if rest:
        target = tiles.strided(column, [(1, rest)], full * matrix.block)
        nisa.dma_copy(dst=target, src=tile[:rest, full, at])
    steps = tuple((step[0],) for step in place.steps)
    return TensorPlace(column, place.shape, steps, (place.offset[0],))
