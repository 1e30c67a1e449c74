"""What the caller gives in HBM, and how it comes from there."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from trnsim.graph import Value
from trnsim.lower.emit.places.tensor_place import TensorPlace, in_hbm
from trnsim.lower.emit.schedule import FIRST
from trnsim.lower.kernels.tiles import P, Tensor, new


class ProgramInputs:
    """The inputs of a program.

    Attributes:
        weights: those whose layout in HBM may be chosen, as they do not change.
        prepare: a weight in HBM in a layout of its own, of a frame and a range of its columns.
        is_ring_full: whether what is loaded ahead waited for something before it to be read.
    """

    def __init__(
        self,
        weights: frozenset[int],
        prepare: Callable[..., Tensor],
        ring_bytes: int = FIRST.ring_bytes,
    ) -> None:
        """Inputs with so many bytes of a partition for weights that pass, several panels ahead."""
        self.weights, self.prepare = weights, prepare
        self.is_ring_full = False
        self._ring_bytes = ring_bytes
        self._numbers: dict[int, int] = {}
        self._rings: dict[Any, tuple[Tensor, int]] = {}

    def add(self, value: Value, tensor: Tensor) -> TensorPlace:
        """The place of an input, a tensor in HBM."""
        self._numbers[id(tensor)] = value.number
        return in_hbm(tensor, value.shape)

    def is_input(self, tensor: Tensor) -> bool:
        """Whether a tensor is the caller's."""
        return id(tensor) in self._numbers

    def weight_of(self, place: TensorPlace) -> int | None:
        """The weight that a place holds all of, in order, if it does."""
        number = None if place.is_on_chip else self._numbers.get(id(place.storage))
        return number if number in self.weights and is_dense(place) else None

    def ring_tile(self, shape: tuple[int, int, int], dtype: Any) -> Tensor:
        """A tile for what is loaded, read and forgotten: it takes the place of an earlier one."""
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
    """Whether it is all of a tensor in HBM, in order."""
    return (
        not place.is_on_chip
        and place == in_hbm(place.storage, place.shape)
        and (prod(place.storage.shape) == prod(place.shape))
    )
