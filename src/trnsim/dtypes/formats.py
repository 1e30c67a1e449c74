"""The number formats of a NeuronCore, one `Dtype` each.

A `Dtype` prints as its bare name, compares equal to the numpy dtype that stores it, works as a
dictionary key, and is accepted by numpy wherever a dtype is (through its attribute ``dtype``).

Source: nki.api.shared.rst, Supported Data Types by NKI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from trnsim.errors import IllegalInstruction

Family = Literal["float", "signed", "unsigned", "bool"]


@dataclass(frozen=True, eq=False, slots=True)
class Dtype:
    """A number format.

    Attributes:
        name: Neuron's name ("bfloat16").
        dtype: the numpy dtype of its bytes.
        family: float, signed, unsigned or bool.
        mantissa_bits: explicit mantissa bits of a float, else 0.
        first_generation: the first NeuronCore generation that has it.
    """

    name: str
    dtype: np.dtype[Any]
    family: Family
    mantissa_bits: int = 0
    first_generation: int = 2

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating point."""
        return self.family == "float"

    @property
    def __name__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dtype):
            return self.name == other.name
        found = _BY_NUMPY.get(other) if isinstance(other, np.dtype | type) else None
        return found is not None and found.name == self.name

    def __hash__(self) -> int:
        return hash(self.dtype)


def _float(name: str, scalar: type, mantissa_bits: int, first_generation: int = 2) -> Dtype:
    return Dtype(name, np.dtype(scalar), "float", mantissa_bits, first_generation)


FLOAT32: Final = _float("float32", np.float32, 23)
TFLOAT32: Final = _float("tfloat32", np.float32, 10)
BFLOAT16: Final = _float("bfloat16", ml_dtypes.bfloat16, 7)
FLOAT16: Final = _float("float16", np.float16, 10)
FLOAT8_E4M3: Final = _float("float8_e4m3", ml_dtypes.float8_e4m3, 3)
FLOAT8_E5M2: Final = _float("float8_e5m2", ml_dtypes.float8_e5m2, 2)
FLOAT8_E4M3FN: Final = _float("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 3, first_generation=4)
INT8: Final = Dtype("int8", np.dtype(np.int8), "signed")
INT16: Final = Dtype("int16", np.dtype(np.int16), "signed")
INT32: Final = Dtype("int32", np.dtype(np.int32), "signed")
UINT8: Final = Dtype("uint8", np.dtype(np.uint8), "unsigned")
UINT16: Final = Dtype("uint16", np.dtype(np.uint16), "unsigned")
UINT32: Final = Dtype("uint32", np.dtype(np.uint32), "unsigned")
BOOL: Final = Dtype("bool_", np.dtype(np.bool_), "bool")

ALL: Final = (
    FLOAT32,
    TFLOAT32,
    BFLOAT16,
    FLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E5M2,
    FLOAT8_E4M3FN,
    INT8,
    INT16,
    INT32,
    UINT8,
    UINT16,
    UINT32,
    BOOL,
)
BY_NAME: Final = {dtype.name: dtype for dtype in ALL} | {"bool": BOOL}
# tfloat32 is stored as float32, and numpy's float32 means float32.
_BY_NUMPY: Final[dict[np.dtype[Any] | type, Dtype]] = {
    key: d for d in ALL if d is not TFLOAT32 for key in (d.dtype, d.dtype.type)
}


def as_dtype(given: object) -> Dtype:
    """The `Dtype` that `given` names: a Dtype, a name, or a numpy, ml_dtypes or torch dtype.

    Raises:
        IllegalInstruction: where NeuronCores have no such format.
    """
    if isinstance(given, Dtype):
        return given
    found = _BY_NUMPY.get(given) if isinstance(given, np.dtype | type) else None
    if found is None:
        name = str(given).removeprefix("torch.").removeprefix("dtype('").removesuffix("')")
        found = BY_NAME.get(name)
    if found is None:
        raise IllegalInstruction(
            f"dtype {given} is not one that a NeuronCore has; legal: {', '.join(BY_NAME)}",
            fix="cast the array first, for example array.astype('float32')",
            source="nki.api.shared.rst, Supported Data Types by NKI",
        )
    return found
