"""`neuronxcc.starfish.support.util`: comparison of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, **kwargs: Any) -> bool:
    """``|a - b| <= atol + rtol * |b|`` in every element, computed in float64."""
    first, second = (np.asarray(x, np.float64) for x in (a, b))
    return bool(np.allclose(first, second, rtol, atol, equal_nan=bool(kwargs.get("equal_nan"))))
