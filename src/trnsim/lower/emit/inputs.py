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
        weights: `Value.number` of each input that never changes, so its layout may be chosen.
        prepare: a function that lays a weight, or some of its columns, out in HBM as a frame asks,
            and returns the tensor.
        is_ring_full: True if a tile in the ring buffer had to wait until an earlier one was read.
    """

    def __init__(
        self,
        weights: frozenset[int],
        prepare: Callable[..., Tensor],
        ring_bytes: int = FIRST_SCHEDULE.ring_bytes,
    ) -> None:
        """Inputs; weights that are read once share a ring buffer of `ring_bytes` of a partition."""
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
        """The number of the weight that a place holds entirely, row-major; else None."""
        number = None if place.is_on_chip else self._numbers.get(id(place.storage))
        return number if number in self.weights and is_dense(place) else None

    def ring_tile(self, shape: tuple[int, int, int], dtype: Any) -> Tensor:
        """A tile [partitions, blocks, columns] for data that is read once, in the ring buffer.

        A new tile if it takes more than half of the ring, or fewer than 128 partitions.
        """
        rows, blocks, columns = shape
        elements, ring_elements = blocks * columns, self._ring_bytes // dtype.itemsize
        if elements * 2 > ring_elements or rows != P:
            return new(shape, dtype)
        ring, start = self._rings.get(dtype) or (new((P, ring_elements), dtype), 0)
        if start + elements > ring_elements:
            start = 0
            self.is_ring_full = True
        self._rings[dtype] = ring, start + elements
        return ring[:, start : start + elements].reshape(shape)


def is_dense(place: TensorPlace) -> bool:
    """True if a place has all elements of a tensor in HBM, in row-major order."""
    return place.is_contiguous and prod(place.storage.shape) == prod(place.shape)
