"""The inputs of a program in HBM: the caller's tensors, and weights in layouts of their own."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from trnsim.graph import Value
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.schedule import FIRST_SCHEDULE
from trnsim.lower.kernels.tiles import P, Tensor, new


class ProgramInputs:
    """The inputs of a program.

    Attributes:
        weights: numbers of the inputs that never change, so that their layout may be chosen.
        prepare: returns a range of columns of a weight in HBM, in the layout of a frame.
        is_ring_full: True if a tile in the ring buffer had to wait until an earlier one was read.
    """

    def __init__(
        self,
        weights: frozenset[int],
        prepare: Callable[..., Tensor],
        ring_bytes: int = FIRST_SCHEDULE.ring_bytes,
    ) -> None:
        """Inputs, with `ring_bytes` of a partition as a ring buffer for weights that pass."""
        self.weights, self.prepare = weights, prepare
        self.is_ring_full = False
        self._ring_bytes = ring_bytes
        self._numbers: dict[int, int] = {}
        self._rings: dict[Any, tuple[Tensor, int]] = {}

    def add(self, value: Value, tensor: Tensor) -> TensorPlace:
        """Register an input and return its place: a dense tensor in HBM."""
        self._numbers[id(tensor)] = value.number
        return in_hbm(tensor, value.shape)

    def is_input(self, tensor: Tensor) -> bool:
        """True if a tensor is one of the caller's inputs."""
        return id(tensor) in self._numbers

    def weight_of(self, place: TensorPlace) -> int | None:
        """The number of the weight that a place holds whole, in row-major order; else None."""
        number = None if place.is_on_chip else self._numbers.get(id(place.storage))
        return number if number in self.weights and is_dense(place) else None

    def ring_tile(self, shape: tuple[int, int, int], dtype: Any) -> Tensor:
        """A tile for data read once: a slot of the ring buffer, or a new tile if none fits."""
        rows, blocks, columns = shape
        size, most = blocks * columns, self._ring_bytes // dtype.itemsize
        if size * 2 > most or rows != P:
            return new(shape, dtype)
        ring, at = self._rings.get(dtype) or (new((P, most), dtype), 0)
        if at + size > most:
            at = 0
            self.is_ring_full = True
        self._rings[dtype] = ring, at + size
        return ring[:, at : at + size].reshape(shape)


def is_dense(place: TensorPlace) -> bool:
    """True if a place is all of a tensor in HBM, in row-major order."""
    return (
        not place.is_on_chip
        and place == in_hbm(place.storage, place.shape)
        and (prod(place.storage.shape) == prod(place.shape))
    )
