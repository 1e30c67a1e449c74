"""Packed formats: four FP8 in 32 bits, four FP4 in 16, the first element in the lowest bits.

Source: mxfp-matmul.rst, Data Tensor; mx_cpu_utils.py beside it, pack_mx_data_into_x4.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.dtypes.conversion import Array, UInt8Array
from trnsim.dtypes.formats import FLOAT4_E2M1FN, PACKED, Dtype
from trnsim.errors import BadInput

_ELEMENTS: Final = 4
_NIBBLE_BITS: Final = np.uint8(4)
_NIBBLE: Final = np.uint8(0xF)
_SOURCE: Final = "mxfp-matmul.rst, Data Tensor"


def pack_x4(values: Array) -> Array:
    """``[..., F]`` elements of an MX format as ``[..., F / 4]`` of its packed format.

    Raises:
        BadInput: if no packed format has such elements, or F is not a multiple of four.
    """
    packed_dtype = next((d for d in PACKED if d.element == values.dtype), None)
    if packed_dtype is None:
        raise BadInput(
            f"no packed format holds four {values.dtype}; legal elements: "
            f"{', '.join(str(d.element) for d in PACKED)}",
            fix="round to one of them first: round_to(values, FLOAT8_E4M3FN)",
            source=_SOURCE,
        )
    _check_multiple(values, _ELEMENTS, f"elements, to be packed as {packed_dtype}")
    raw = np.ascontiguousarray(values).view(np.uint8)
    if packed_dtype.element == FLOAT4_E2M1FN:
        raw = _join_nibbles(raw)
    return raw.view(packed_dtype.dtype)


def unpack_x4(packed_values: Array, dtype: Dtype) -> Array:
    """``[..., F]`` of packed `dtype` as ``[..., 4 * F]`` of its elements.

    `packed_values` may have the packed dtype itself or be any integers with the same bytes, as
    frameworks without packed formats carry them (uint8, uint16 or uint32).

    Raises:
        BadInput: if `dtype` is not packed, or the bytes of the last axis are not a whole number of
            packed elements.
    """
    if dtype.element is None:
        raise BadInput(
            f"{dtype} is not packed; legal: {', '.join(map(str, PACKED))}", source=_SOURCE
        )
    raw = np.ascontiguousarray(packed_values).view(np.uint8)
    _check_multiple(raw, dtype.itemsize, f"bytes, to be read as {dtype}")
    if dtype.element == FLOAT4_E2M1FN:
        raw = _split_nibbles(raw)
    return raw.view(dtype.element.dtype)


def _check_multiple(values: Array, step: int, unit: str) -> None:
    length = values.shape[-1] if values.ndim else 1
    if length % step:
        raise BadInput(
            f"the last axis has {length} {unit}; legal: a multiple of {step}",
            fix="pad the last axis with zeros",
            source=_SOURCE,
        )


def _join_nibbles(raw: UInt8Array) -> UInt8Array:
    pairs = raw[..., 1::2] << _NIBBLE_BITS
    pairs |= raw[..., 0::2] & _NIBBLE
    return pairs


def _split_nibbles(raw: UInt8Array) -> UInt8Array:
    split = np.empty((*raw.shape[:-1], 2 * raw.shape[-1]), np.uint8)
    np.bitwise_and(raw, _NIBBLE, out=split[..., 0::2])
    np.right_shift(raw, _NIBBLE_BITS, out=split[..., 1::2])
    return split
