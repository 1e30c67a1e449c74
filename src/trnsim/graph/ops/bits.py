"""Logic on truth values and on the bits of integers, and shifts."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from trnsim.graph.operation import Example, Operation
from trnsim.graph.ops.elementwise import Binary, Unary
from trnsim.graph.types import BOOL, INTEGERS, ITEM_BYTES, Array, TensorType

_LOGICAL_DTYPES = ((*INTEGERS, BOOL),)


class And(Binary):
    """``lhs and rhs``; of integers bit by bit."""

    legal = _LOGICAL_DTYPES
    tolerance = 0.0

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The conjunction."""
        return lhs & rhs


class Or(Binary):
    """``lhs or rhs``; of integers bit by bit."""

    legal = _LOGICAL_DTYPES
    tolerance = 0.0

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The disjunction."""
        return lhs | rhs


class Xor(Binary):
    """Exclusive or: ``lhs != rhs``; of integers bit by bit."""

    legal = _LOGICAL_DTYPES
    tolerance = 0.0

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The exclusive disjunction."""
        return lhs ^ rhs


class Not(Unary):
    """``not operand``; of integers bit by bit."""

    legal = _LOGICAL_DTYPES
    tolerance = 0.0

    def reference(self, operand: Array) -> Array:
        """The negation."""
        return ~operand


class Shift(Binary, abstract=True):
    """The bits of `lhs` shifted by `rhs`; a negative shift, or one by all bits, removes them all.

    Attributes:
        bits: number of bits of the operands' type.
    """

    legal: ClassVar[tuple[tuple[str, ...], ...]] = (INTEGERS,)
    tolerance = 0.0
    bits: int = 32

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that `bits` is the size of the type."""
        super().check(tensors)
        _check_size(self, tensors[0], self.bits)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Each element type, shifted by every number of bits up to one more than it has."""
        return tuple(
            Example(
                cls(TensorType((), dtype).nbytes * 8),
                (TensorType((3, 40), dtype),) * 2,
                ("edges", "places"),
                TensorType((), dtype).nbytes * 8 + 1,
            )
            for dtype in cls.legal[0]
        )


class ShiftLeft(Shift):
    """``lhs * 2**rhs``, modulo 2**bits."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """Zeros enter from the right."""
        is_in = (rhs >= 0) & (rhs < self.bits)
        return np.where(is_in, lhs << np.where(is_in, rhs, 0), 0)


class ShiftRightLogical(Shift):
    """The bits of `lhs` moved right; zeros enter from the left."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The bits as a number without a sign, divided."""
        is_in = (rhs >= 0) & (rhs < self.bits)
        return np.where(is_in, (lhs & (2**self.bits - 1)) >> np.where(is_in, rhs, 0), 0)


class ShiftRightArithmetic(Shift):
    """``floor(lhs / 2**rhs)``: copies of the sign enter from the left. For types with a sign."""

    legal = (("int32", "int16", "int8"),)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The sign stays."""
        is_in = (rhs >= 0) & (rhs < self.bits)
        return lhs >> np.where(is_in, rhs, self.bits - 1)


class Popcnt(Unary):
    """The number of bits that are 1.

    Attributes:
        bits: number of bits of the operand's type.
    """

    legal = (INTEGERS,)
    tolerance = 0.0
    bits: int = 32

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that `bits` is the size of the type."""
        super().check(tensors)
        _check_size(self, tensors[0], self.bits)

    def reference(self, operand: Array) -> Array:
        """The number of ones."""
        return np.asarray(_count_ones(operand & (2**self.bits - 1)), np.int64)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example of each element type."""
        return tuple(
            Example(
                cls(TensorType((), dtype).nbytes * 8), (TensorType((3, 40), dtype),), ("edges",)
            )
            for dtype in INTEGERS
        )


def _check_size(operation: Operation, tensor: TensorType, bits: int) -> None:
    if ITEM_BYTES[tensor.dtype] * _BITS_PER_BYTE != bits:
        operation.refuse(f"of {tensor} with bits={bits}; legal: the size of its type")


_BITS_PER_BYTE: Final = 8
_count_ones = np.frompyfunc(int.bit_count, 1, 1)
