"""`neuron_dtypes`: casts between numpy arrays of Neuron's dtypes, as test suites use them.

Rounds as the chip does: once, to nearest even, saturating for integers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from trnsim.dtypes import BY_NAME, Array, Dtype, as_dtype, round_to, to_float32

globals().update(BY_NAME)


def static_cast(array: Any, dtype: Any) -> Array:
    """`array` rounded to `dtype`."""
    values = np.asarray(array)
    kind = as_dtype(dtype)
    if values.dtype.kind in "iub" or values.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return round_to(values, kind)
    return round_to(to_float32(values), kind)


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
