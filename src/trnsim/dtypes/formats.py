"""The number formats of a NeuronCore, one `Dtype` each.

A `Dtype` prints as its bare name, compares equal to the numpy dtype that stores it, works as a
dictionary key, and is accepted by numpy wherever a dtype is (through its attribute ``dtype``).

Two formats have no NKI name but are included for tools that inspect data: float8_e3m4, the third
of the configurable FP8 formats (data-types.rst, Trn1 / Inf2), and float4_e2m1fn, the element of
MXFP4 (mxfp-matmul.rst).

Source: nki.api.shared.rst, Supported Data Types by NKI; data-types.rst, neuron-core-v4.rst.
`trnsim.arch.Features.dtypes` lists the formats of each NeuronCore.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar, Final, Literal, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from trnsim.absence import refuse_attribute
from trnsim.errors import IllegalInstruction


class NoConversion(IllegalInstruction, TypeError):
    """A call of a number format; also the TypeError that Python would raise."""


Family = Literal["float", "signed", "unsigned", "bool", "packed"]


class Dtype:
    """A number format: one object per format, preserved by `copy` and `pickle`.

    Not a dataclass, so that `dataclasses.asdict` keeps it as it is.

    Attributes:
        name: Neuron's name ("bfloat16").
        dtype: the numpy dtype that stores it.
        family: float, signed, unsigned, bool or packed.
        mantissa_bits: explicit mantissa bits of a float, else 0.
        element: the format of the four elements of a packed format, else None.
    """

    __slots__ = ("dtype", "element", "family", "mantissa_bits", "name")
    truncates: ClassVar[bool] = False
    """Whether floats are cast to it as numpy does, instead of as the engines do."""

    name: str
    dtype: np.dtype[Any]
    family: Family
    mantissa_bits: int
    element: Dtype | None

    def __init__(
        self,
        name: str,
        dtype: np.dtype[Any],
        family: Family,
        mantissa_bits: int = 0,
        element: Dtype | None = None,
    ) -> None:
        for field, value in (
            ("name", name),
            ("dtype", dtype),
            ("family", family),
            ("mantissa_bits", mantissa_bits),
            ("element", element),
        ):
            object.__setattr__(self, field, value)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that number formats lack."""
        legal = [public for public in dir(type(self)) if not public.startswith("_")]
        refuse_attribute(lambda: f"nl.{self}", name, legal)

    def __setattr__(self, field: str, value: object) -> NoReturn:
        """Refused: a number format is a constant.

        Raises:
            AttributeError: always.
        """
        raise AttributeError(f"{self!r} is a constant: {field} cannot become {value!r}")

    def __call__(self, *values: object) -> NoReturn:
        """Refused: a number format converts no values.

        Raises:
            NoConversion: always.
        """
        text = ", ".join(map(repr, values))
        raise NoConversion(
            f"{self!r}({text}): a number format converts no values; legal: dtype={self!r} of a "
            "tensor or an instruction",
            fix=f"write the number alone, or nl.copy(tile, dtype={self!r}) for a tile",
            source="nki.api.shared.rst, Supported Data Types by NKI",
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        """The name of its constant in this module, by which `copy` and `pickle` find it again."""
        return self.name.rstrip("_").upper()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def chip_itemsize(self) -> int:
        """Bytes of one element on the chip; `itemsize` is greater where the host stores more."""
        return self.dtype.itemsize

    @property
    def is_float(self) -> bool:
        """True if arithmetic on it is floating point."""
        return self.family == "float"

    @property
    def is_integer(self) -> bool:
        """True for integers and booleans: the formats that bitvec operators accept."""
        return self.family in {"signed", "unsigned", "bool"}

    @property
    def is_packed(self) -> bool:
        """True if one element packs four numbers; such a format has no arithmetic."""
        return self.element is not None

    @property
    def __name__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"nl.{self.name}" if self.name in BY_NAME else self.name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dtype):
            return self.name == other.name
        dtype = _BY_NUMPY.get(other) if isinstance(other, np.dtype | type) else None
        return dtype is not None and dtype.name == self.name

    def __hash__(self) -> int:
        return hash(self.dtype)


class FloatRange(NamedTuple):
    """The range of the finite values of a float format."""

    smallest_normal: float
    largest: float


def _float(name: str, scalar: type, mantissa_bits: int) -> Dtype:
    return Dtype(name, np.dtype(scalar), "float", mantissa_bits)


def _packed(element: Dtype, storage: type) -> Dtype:
    # The field's name distinguishes packed formats of equal width.
    name = f"{element.name}_x4"
    return Dtype(name, np.dtype([(name, storage)]), "packed", 0, element)


FLOAT32: Final = _float("float32", np.float32, 23)
TFLOAT32: Final = _float("tfloat32", np.float32, 10)
BFLOAT16: Final = _float("bfloat16", ml_dtypes.bfloat16, 7)
FLOAT16: Final = _float("float16", np.float16, 10)
FLOAT8_E4M3: Final = _float("float8_e4m3", ml_dtypes.float8_e4m3, 3)
FLOAT8_E5M2: Final = _float("float8_e5m2", ml_dtypes.float8_e5m2, 2)
FLOAT8_E4M3FN: Final = _float("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 3)
FLOAT8_E3M4: Final = _float("float8_e3m4", ml_dtypes.float8_e3m4, 4)
FLOAT8_E8M0FNU: Final = _float("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, 0)
FLOAT4_E2M1FN: Final = _float("float4_e2m1fn", ml_dtypes.float4_e2m1fn, 1)
# 32 bits hold four FP8, 16 bits hold four FP4 (mxfp-matmul.rst, Data Tensor).
FLOAT8_E5M2_X4: Final = _packed(FLOAT8_E5M2, np.uint32)
FLOAT8_E4M3FN_X4: Final = _packed(FLOAT8_E4M3FN, np.uint32)
FLOAT4_E2M1FN_X4: Final = _packed(FLOAT4_E2M1FN, np.uint16)
INT8: Final = Dtype("int8", np.dtype(np.int8), "signed")
INT16: Final = Dtype("int16", np.dtype(np.int16), "signed")
INT32: Final = Dtype("int32", np.dtype(np.int32), "signed")
INT64: Final = Dtype("int64", np.dtype(np.int64), "signed")
UINT8: Final = Dtype("uint8", np.dtype(np.uint8), "unsigned")
UINT16: Final = Dtype("uint16", np.dtype(np.uint16), "unsigned")
UINT32: Final = Dtype("uint32", np.dtype(np.uint32), "unsigned")
BOOL: Final = Dtype("bool_", np.dtype(np.bool_), "bool")

# All formats with which engines compute: int64 and packed formats are none of them.
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
# data-types.rst, Trn1 / Inf2: the configurable FP8 formats.
CFP8: Final = (FLOAT8_E5M2, FLOAT8_E4M3, FLOAT8_E3M4)
PACKED: Final = (FLOAT8_E5M2_X4, FLOAT8_E4M3FN_X4, FLOAT4_E2M1FN_X4)
# The formats that NKI names. No engine computes with int64: scalars of the device have it, and
# memory keeps it (nki.isa.scalar_load).
BY_NAME: Final = {d.name: d for d in (*ALL, INT64, FLOAT8_E8M0FNU, *PACKED)} | {"bool": BOOL}
_BY_ANY_NAME: Final = BY_NAME | {d.name: d for d in (FLOAT8_E3M4, FLOAT4_E2M1FN)}
# tfloat32 is stored as float32, and numpy's float32 means float32; packed types share numpy.void.
_BY_NUMPY: Final[dict[np.dtype[Any] | type, Dtype]] = {
    key: d
    for d in _BY_ANY_NAME.values()
    if d is not TFLOAT32
    for key in ((d.dtype,) if d.is_packed else (d.dtype, d.dtype.type))
}


@cache
def float_range(dtype: Dtype) -> FloatRange:
    """The smallest normal and the largest finite value of a float format."""
    if dtype is TFLOAT32:
        single = np.finfo(np.float32)
        last_place = 2.0**-TFLOAT32.mantissa_bits
        return FloatRange(
            float(single.smallest_normal), math.ldexp(2 - last_place, single.maxexp - 1)
        )
    narrow = ml_dtypes.finfo(dtype.dtype)  # type: ignore[no-untyped-call]
    return FloatRange(float(narrow.smallest_normal), float(narrow.max))


def as_dtype(identifier: object) -> Dtype:
    """The `Dtype` of an identifier: a Dtype, a name, or a numpy, ml_dtypes or torch dtype.

    Raises:
        IllegalInstruction: if NeuronCores have no such format.
    """
    if isinstance(identifier, Dtype):
        return identifier
    dtype = _BY_NUMPY.get(identifier) if isinstance(identifier, np.dtype | type) else None
    if dtype is None:
        name = str(identifier).removeprefix("torch.").removeprefix("dtype('").removesuffix("')")
        dtype = _BY_ANY_NAME.get(name)
    if dtype is None:
        raise IllegalInstruction(
            f"dtype {identifier} is not one that a NeuronCore has; legal: {', '.join(BY_NAME)}",
            fix="cast the array first, for example array.astype('float32')",
            source="nki.api.shared.rst, Supported Data Types by NKI",
        )
    return dtype
