"""Rounding to whole numbers, and conversions of the element type."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from trnsim.graph.operation import Example
from trnsim.graph.ops.elementwise import Unary
from trnsim.graph.types import (
    BOOL,
    ELEMENT_TYPES,
    FLOATS,
    ITEM_BYTES,
    Array,
    TensorType,
    round_to_dtype,
)

_HALF: Final = 0.5


class Rounding(Unary, abstract=True):
    """A whole number near the operand."""

    legal = (FLOATS,)
    tolerance = 0.0


class Floor(Rounding):
    """The largest whole number that is not above the operand."""

    def reference(self, operand: Array) -> Array:
        """Downwards."""
        return np.floor(operand)


class Ceil(Rounding):
    """The smallest whole number that is not below the operand."""

    def reference(self, operand: Array) -> Array:
        """Upwards."""
        return np.ceil(operand)


class Trunc(Rounding, source="nki.language.trunc"):
    """The operand without its fraction."""

    def reference(self, operand: Array) -> Array:
        """Towards 0."""
        return np.trunc(operand)


class RoundNearestEven(Rounding):
    """The nearest whole number; halfway between two, the even one."""

    def reference(self, operand: Array) -> Array:
        """To nearest."""
        return np.rint(operand)


class RoundNearestAfz(Rounding):
    """The nearest whole number; halfway between two, the one away from 0."""

    def reference(self, operand: Array) -> Array:
        """To nearest, half away from 0."""
        truncated = np.trunc(operand)
        is_far = np.abs(operand - truncated) >= _HALF
        return np.asarray(truncated + np.copysign(is_far, operand))


class Convert(Unary):
    """The operand in the element type `to`.

    Integers wrap around. Floating point becomes an integer without its fraction; beyond the
    integer's range it becomes the nearest one, and NaN becomes 0, which StableHLO leaves to the
    implementation. Everything but 0 is true.
    """

    legal = (ELEMENT_TYPES,)
    tolerance = 0.0
    to: str = ""

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the type is one that tensors have."""
        super().check(tensors)
        if self.to and self.to not in ELEMENT_TYPES:
            self.refuse(f"of {tensors[0]} to {self.to}; legal: {', '.join(ELEMENT_TYPES)}")

    def result_dtype(self, *dtypes: str) -> str:
        """The type `to`."""
        return self.to or dtypes[0]

    def reference(self, operand: Array) -> Array:
        """The value, rounded to an integer or truth value where `to` is one."""
        if not self.to:
            return operand
        if self.to == BOOL:
            return np.not_equal(operand, 0)
        if self.to not in FLOATS and operand.dtype == np.float64:
            limits = np.iinfo(TensorType((), self.to).numpy_dtype())
            truncated = np.nan_to_num(np.trunc(operand), nan=0.0)
            return np.asarray(np.clip(truncated, limits.min, limits.max).astype(np.int64))
        return operand

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """From every type to every other."""
        return tuple(
            Example(cls(to), (TensorType((3, 40), source),), ("edges",))
            for source in ELEMENT_TYPES
            for to in ELEMENT_TYPES
            if to != source
        )


class BitcastConvert(Unary):
    """The operand's bits as another type of the same size."""

    legal = (ELEMENT_TYPES,)
    tolerance = 0.0
    names_dtype = False
    reads_stored = True
    to: str = "int32"

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The type `to`."""
        if ITEM_BYTES.get(self.to) != ITEM_BYTES[tensors[0].dtype]:
            self.refuse(f"of {tensors[0]} to {self.to}; legal: a type of the same size")
        return (TensorType(tensors[0].shape, self.to),)

    def reference(self, operand: Array) -> Array:
        """The bits of the operand, which is in its stored dtype."""
        return operand.view(TensorType((), self.to).numpy_dtype())

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Types of 4, 2 and 1 bytes."""
        pairs = (
            ("float32", "int32"),
            ("int32", "float32"),
            ("bfloat16", "int16"),
            ("int8", "uint8"),
        )
        return tuple(
            Example(cls(to), (TensorType((3, 40), source),), ("edges",)) for source, to in pairs
        )


class ReducePrecision(Unary):
    """The nearest number with the exponent and mantissa bits of `format`.

    If the operand's type has more exponent bits, numbers beyond the range of `format` become
    infinite, and numbers below its smallest normal number become 0.
    """

    legal = (FLOATS,)
    tolerance = 0.0
    reads_stored = True  # whether bits of the exponent go depends on the operand's type
    format: str = "bfloat16"

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the format is one of floating point."""
        super().check(tensors)
        if self.format not in FLOATS:
            self.refuse(f"of {tensors[0]} to {self.format}; legal: {', '.join(FLOATS)}")

    def reference(self, operand: Array) -> Array:
        """The nearest number of the format, or 0."""
        numbers = operand.astype(np.float64)
        is_below = np.abs(numbers) < self.smallest(operand.dtype.name)
        nearest = round_to_dtype(numbers, self.format).astype(np.float64)
        return np.asarray(np.where(is_below, np.copysign(0.0, numbers), nearest))

    def smallest(self, dtype: str) -> float:
        """The magnitude below which results are 0: half a digit below the smallest normal."""
        dtype_limits, format_limits = _limits(dtype), _limits(self.format)
        if format_limits.nexp >= dtype_limits.nexp:
            return 0.0
        half_a_place: float = 2.0 ** -(format_limits.nmant + 2)
        return float(format_limits.smallest_normal) * (1 - half_a_place)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """To the upper half of float32, and to a format of a smaller range."""
        narrow = Example(cls("float16"), (TensorType((3, 40), "float32"),), ("edges",))
        return (*super().examples(), narrow)


def _limits(dtype: str) -> Any:
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
