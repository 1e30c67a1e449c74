"""`neuron_dtypes`: casts between numpy arrays of Neuron's dtypes, as test suites use them.

Rounds as the chip does: once, to nearest even, saturating for integers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from trnsim.dtypes import (
    BY_NAME,
    PACKED,
    Array,
    Dtype,
    as_dtype,
    pack_x4,
    round_to,
    to_float32,
    unpack_x4,
)

globals().update(BY_NAME)
_ROUNDED_ONCE = (np.dtype(np.float32), np.dtype(np.float64))


def static_cast(array: Any, dtype: Any) -> Array:
    """`array` rounded to `dtype`.

    A packed format holds four elements in one: converting to it makes ``[..., F / 4]`` of
    ``[..., F]``, and converting from it makes ``[..., 4 * F]``.
    """
    values = np.asarray(array)
    kind = as_dtype(dtype)
    packed_dtype = next((d for d in PACKED if d.dtype == values.dtype), None)
    if packed_dtype is not None:
        values = unpack_x4(values, packed_dtype)
    if not (values.dtype.kind in "iub" or values.dtype in _ROUNDED_ONCE):
        values = to_float32(values)
    if kind.element is None:
        return round_to(values, kind)
    return pack_x4(round_to(values, kind.element))


def sizeinbytes(dtype: Any) -> int:
    """Bytes of an element."""
    return as_dtype(dtype).itemsize


def is_float_type(dtype: Any) -> bool:
    """Whether `dtype` is floating point."""
    return as_dtype(dtype).is_float


def finfo(dtype: Any) -> Any:
    """Range and precision, as `numpy.finfo` gives them."""
    return ml_dtypes.finfo(as_dtype(dtype).dtype)  # type: ignore[no-untyped-call]


__all__ = ["Dtype", "finfo", "is_float_type", "sizeinbytes", "static_cast"]
