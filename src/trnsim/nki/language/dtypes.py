"""The dtypes of `nki.language`; public code imports this module too.

Source: nki.api.shared.rst, Supported Data Types by NKI.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trnsim.dtypes import BY_NAME, Dtype

globals().update(BY_NAME)
DType = Dtype


class FloatLimits(NamedTuple):
    """The limits of a float format, as `nl.fp32.min` (NKI 0.1).

    Attributes:
        min: the lowest finite value.
        max: the highest finite value.
    """

    min: float
    max: float


_single = np.finfo(np.float32)
fp32 = FloatLimits(float(_single.min), float(_single.max))

NAMES = ("DType", "fp32", *BY_NAME)
"""The names that `nki.language` imports from this module."""
