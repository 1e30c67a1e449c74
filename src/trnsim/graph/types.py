"""Types of tensors: a shape, and an element type that a NeuronCore stores."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

FLOATS: Final = (
    *("float32", "bfloat16", "float16"),
    *("float8_e4m3", "float8_e4m3fn", "float8_e5m2"),
)
INTEGERS: Final = ("int32", "uint32", "int16", "int8", "uint8")
BOOL: Final = "bool"
NUMBERS: Final = (*FLOATS, *INTEGERS)
ELEMENT_TYPES: Final = (*NUMBERS, BOOL)
"""Element types of tensors. A truth value is stored as a byte, 0 or 1."""

ITEM_BYTES: Final = {
    name: np.dtype(getattr(ml_dtypes, name, name)).itemsize for name in ELEMENT_TYPES
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """A shape and an element type."""

    shape: Shape
    dtype: str

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in HBM."""
        return self.elements * ITEM_BYTES[self.dtype]

    @property
    def is_floating(self) -> bool:
        """True if the elements are floating point."""
        return self.dtype in FLOATS

    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of numpy arrays that hold such a tensor."""
        return np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}>"


def widen(array: Array) -> Array:
    """An array in the widest numbers of its kind: float64, int64 or bool."""
    if array.dtype == np.bool_:
        return array
    return array.astype(np.int64 if np.issubdtype(array.dtype, np.integer) else np.float64)


def round_to_dtype(values: Array, dtype: str) -> Array:
    """Values as a tensor of `dtype`: floats rounded to nearest, integers modulo 2**bits."""
    kind = TensorType((), dtype).numpy_dtype()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values).astype(kind)


def dense(shape: Shape) -> Shape:
    """Row-major strides in elements."""
    return tuple(prod(shape[dim + 1 :]) for dim in range(len(shape)))
