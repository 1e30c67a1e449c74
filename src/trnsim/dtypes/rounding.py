"""Conversion between stored formats and the float32 in which engines compute.

Engines cast inputs to float32, compute in float32 and cast once on write: floats round to nearest
even, integers round to nearest even and saturate.

Source: nki.isa.tensor_tensor, Data types; release notes of NKI 0.4 (saturating integer casts).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trnsim.dtypes.formats import BOOL, TFLOAT32, Dtype

Array = npt.NDArray[Any]
Float32Array = npt.NDArray[np.float32]

_TF32_DROPPED_BITS = 13


def to_float32(stored: Array) -> Float32Array:
    """The float32 values of a stored array; the array itself where it is float32 already."""
    if stored.dtype == np.float32:
        return stored
    return stored.astype(np.float32)


def round_to(values: Array, dtype: Dtype) -> Array:
    """`values` rounded once to `dtype`, in the numpy dtype that stores it."""
    if dtype is TFLOAT32:
        return _round_mantissa(values.astype(np.float32), _TF32_DROPPED_BITS)
    if values.dtype == dtype.dtype:
        return values
    if dtype is BOOL:
        return np.not_equal(values, 0)
    if dtype.is_float:
        # Overflow to infinity is what a cast does; numpy would warn of it.
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype.dtype)
    return _saturate(values, dtype)


def _saturate(values: Array, dtype: Dtype) -> Array:
    """Integers: round to nearest even, clamp to the range, NaN to 0."""
    limits = np.iinfo(dtype.dtype)
    if values.dtype.kind in "iu":
        return np.clip(values, limits.min, limits.max).astype(dtype.dtype)
    wide = np.rint(values.astype(np.float64))
    clamped: Array = np.clip(
        np.nan_to_num(wide, nan=0.0, posinf=limits.max, neginf=limits.min), limits.min, limits.max
    )
    return np.asarray(clamped, dtype.dtype)


def _round_mantissa(values: Float32Array, dropped_bits: int) -> Float32Array:
    """Round to nearest even after dropping the low bits of the mantissa; NaN and Inf stay."""
    bits = values.view(np.uint32)
    half = np.uint32((1 << (dropped_bits - 1)) - 1)
    odd = (bits >> np.uint32(dropped_bits)) & np.uint32(1)
    rounded = (bits + half + odd) & np.uint32(0xFFFFFFFF << dropped_bits & 0xFFFFFFFF)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)
