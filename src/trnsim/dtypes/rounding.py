"""Conversion between stored formats and float32, the format in which engines compute.

Engines cast inputs to float32, compute in float32 and cast once on write: floats round to nearest
even, integers round to nearest even and saturate.  AWS does not document the integer that a NaN
becomes (here 0), nor FP8 overflow (here as in ml_dtypes: infinity where the format has one, NaN
in float8_e4m3fn, the largest value in float4_e2m1fn).

Source: nki.isa.tensor_tensor, Data types; data-types.rst, Rounding Modes; release notes of NKI
0.6.0, Bug Fixes ("fp32-to-integer casts match hardware (round to nearest, ties to even; saturate
to the destination range)").
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from trnsim.dtypes.conversion import (
    Array,
    Float32Array,
    decode_byte,
    decode_float16,
    encode_byte,
    encode_float16,
)
from trnsim.dtypes.formats import BFLOAT16, BOOL, FLOAT16, INT64, TFLOAT32, Dtype, as_dtype
from trnsim.errors import IllegalInstruction

_TF32_DROPPED_BITS = 13
_FLOAT32_BYTES = 4
_FLOAT32 = np.dtype(np.float32)
_FLOAT16 = np.dtype(np.float16)
_BFLOAT16 = BFLOAT16.dtype


def to_float32(values: Array) -> Float32Array:
    """The float32 values of a stored array; the array itself if it is float32 already.

    Raises:
        IllegalInstruction: for a packed format, which has no values of its own.
    """
    kind = values.dtype
    if kind is _FLOAT32:  # nearly always the same object
        return values
    if kind is _BFLOAT16:
        return values.astype(_FLOAT32)
    if kind == _FLOAT16:
        return decode_float16(values)
    if kind.itemsize == 1 and kind.kind not in "iub":  # numpy's own bytes are int, uint and bool
        return decode_byte(values)
    if kind.names is not None:
        _refuse_packed(as_dtype(kind))
    return values.astype(_FLOAT32, copy=False)


def round_to(values: Array, dtype: Dtype) -> Array:
    """`values` rounded once to `dtype`, in the numpy dtype that stores it.

    Raises:
        IllegalInstruction: if `dtype` is packed and `values` are numbers other than zero.
    """
    if dtype is TFLOAT32:
        return _round_mantissa(to_float32(values), _TF32_DROPPED_BITS)
    if values.dtype == dtype.dtype:
        return values
    if dtype.is_float:
        return _round_float(values, dtype)
    if dtype.is_packed:
        if np.any(to_float32(values)):
            _refuse_packed(dtype)
        return np.zeros(values.shape, dtype.dtype)
    if dtype is BOOL:
        return np.not_equal(_widen(values), 0)
    return _saturate(values, dtype)


def _widen(values: Array) -> Array:
    """float64 unchanged, as compile-time constants may need it; anything else as float32."""
    return values if values.dtype == np.float64 else to_float32(values)


def _round_float(values: Array, dtype: Dtype) -> Array:
    # Overflow to infinity is correct here; numpy would warn of it.
    with np.errstate(over="ignore", invalid="ignore"):
        wide = to_float32(values)  # the engine's result, before it is rounded
        if dtype.itemsize == 1:
            return encode_byte(wide, dtype.dtype)
        if dtype is FLOAT16:
            return encode_float16(wide)
        return wide.astype(dtype.dtype, copy=False)


def _saturate(values: Array, dtype: Dtype) -> Array:
    """Integers: round to nearest even, clamp to the range, NaN to 0."""
    if dtype.truncates:
        with np.errstate(invalid="ignore"):
            return values.astype(dtype.dtype)
    limits = np.iinfo(dtype.dtype)
    if values.dtype.kind in "iu":
        return np.clip(values, limits.min, limits.max).astype(dtype.dtype)
    wide = _widen(values)
    if dtype.itemsize == _FLOAT32_BYTES:
        wide = wide.astype(np.float64)  # float32 has no 2**31 - 1
    with np.errstate(invalid="ignore"):
        integers = np.rint(wide)
        is_nan = np.isnan(integers)
        if is_nan.any():
            integers = np.where(is_nan, 0, integers)
        clipped = np.asarray(np.clip(integers, limits.min, limits.max), dtype.dtype)
    if dtype is INT64:  # no float is 2**63 - 1
        return np.where(integers >= limits.max, limits.max, clipped)
    return clipped


def _round_mantissa(values: Float32Array, dropped_bits: int) -> Float32Array:
    """`values` without the low bits of the mantissa, rounded to nearest even; NaN and Inf stay."""
    flat = np.ascontiguousarray(values).reshape(-1)
    bits = flat.view(np.uint32)
    new_bits = bits >> np.uint32(dropped_bits)
    new_bits &= np.uint32(1)
    new_bits += bits
    new_bits += np.uint32((1 << (dropped_bits - 1)) - 1)
    new_bits &= np.uint32(0xFFFFFFFF << dropped_bits & 0xFFFFFFFF)
    result = new_bits.view(np.float32)
    is_finite = np.isfinite(flat)
    if not is_finite.all():
        result = np.where(is_finite, result, flat)
    return result.reshape(values.shape)


def _refuse_packed(dtype: Dtype) -> NoReturn:
    raise IllegalInstruction(
        f"{dtype} holds four {dtype.element}, and has no arithmetic of its own; legal: copying "
        "it, filling it with zero, and the MX instructions",
        fix="quantize with nki.isa.quantize_mx, or view the bytes as an integer",
        source="nki.isa.memset, value; nki.isa.quantize_mx, Data types",
    )
