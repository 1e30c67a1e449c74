"""PJRT's element types as numpy's dtypes, and the bytes of their elements in HBM."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from trnsim.errors import NotModelled
from trnsim.jax.pjrt.structs import enumeration

_TYPE_NUMBERS: Final = enumeration("Buffer_Type")
_NUMPY_TYPES: Final[dict[str, Any]] = {
    "PRED": np.bool_,
    **{f"S{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": getattr(np, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": getattr(np, f"float{bits}") for bits in (16, 32, 64)},
    "BF16": ml_dtypes.bfloat16,
    "C64": np.complex64,
    "C128": np.complex128,
    "F8E5M2": ml_dtypes.float8_e5m2,
    "F8E4M3FN": ml_dtypes.float8_e4m3fn,
    "F8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "F8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8E4M3": ml_dtypes.float8_e4m3,
    "F8E3M4": ml_dtypes.float8_e3m4,
    "F8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "F4E2M1FN": ml_dtypes.float4_e2m1fn,
    "S4": ml_dtypes.int4,
    "U4": ml_dtypes.uint4,
    "S2": ml_dtypes.int2,
    "U2": ml_dtypes.uint2,
}
_DTYPE_BY_NUMBER: Final[dict[int, np.dtype[Any]]] = {
    _TYPE_NUMBERS[name]: np.dtype(kind) for name, kind in _NUMPY_TYPES.items()
}
_NUMBER_BY_DTYPE: Final = {dtype: number for number, dtype in _DTYPE_BY_NUMBER.items()}
_BITS: Final = {
    np.dtype(kind): bits
    for kind, bits in (
        (ml_dtypes.int4, 4),
        (ml_dtypes.uint4, 4),
        (ml_dtypes.float4_e2m1fn, 4),
        (ml_dtypes.int2, 2),
        (ml_dtypes.uint2, 2),
    )
}
"""Bits of an element where they are fewer than a byte; on the host each has a byte of its own."""


def dtype_of(number: int) -> np.dtype[Any]:
    """The dtype of an element type.

    Raises:
        NotModelled: for types that have none, such as tokens.
    """
    if number not in _DTYPE_BY_NUMBER:
        name = next((name for name, code in _TYPE_NUMBERS.items() if code == number), str(number))
        raise NotModelled(f"arrays of {name} are not modelled by the neuron device")
    return _DTYPE_BY_NUMBER[number]


def type_of(dtype: np.dtype[Any] | None) -> int:
    """The element type of a dtype; None is the type of a token.

    Raises:
        NotModelled: if PJRT has no such type.
    """
    if dtype is None:
        return _TYPE_NUMBERS["TOKEN"]
    if dtype not in _NUMBER_BY_DTYPE:
        raise NotModelled(f"PJRT has no element type for {dtype}")
    return _NUMBER_BY_DTYPE[dtype]


def hbm_bytes(shape: tuple[int, ...], dtype: np.dtype[Any] | None) -> int:
    """The bytes of an array in HBM, where elements of fewer than 8 bits are packed."""
    if dtype is None:
        return 0
    count = 1
    for side in shape:
        count *= side
    return (count * _BITS.get(dtype, 8 * dtype.itemsize) + 7) // 8
