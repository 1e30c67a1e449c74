"""Stochastic rounding: up or down, with a probability proportional to the distance.

``P(up) = (x - below) / (above - below)``, so the expectation is x (to within 2**-53 of the distance
between neighbours); an exact value is unchanged, and overflow is as in rounding to nearest.  The
caller supplies the random numbers: the same generator state gives the same result.
How the hardware draws them is not documented, so single results differ from a chip's.

Source: rounding-modes.rst, Stochastic Rounding (SR); from NeuronCore-v2 on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.dtypes.conversion import Array
from trnsim.dtypes.formats import FLOAT8_E8M0FNU, FLOAT32, Dtype, float_range
from trnsim.dtypes.rounding import round_to, to_float32
from trnsim.errors import Unspecified

_FLOAT32_EXPONENT: Final = np.uint32(0x7F800000)


def round_stochastically(values: Array, dtype: Dtype, generator: np.random.Generator) -> Array:
    """Float32 `values` rounded stochastically, once, to the float format `dtype`.

    Draws one number from `generator` for each value, in C order; none for float32, which is exact.

    Raises:
        Unspecified: if `dtype` is not a float format with a sign and a mantissa.
    """
    if not dtype.is_float or dtype is FLOAT8_E8M0FNU:
        raise Unspecified(
            f"stochastic rounding to {dtype}; AWS describes it for floating point values only",
            fix="round to nearest, or round to a float",
            source="rounding-modes.rst, Stochastic Rounding (SR)",
        )
    floats = to_float32(values)
    if dtype is FLOAT32:
        return floats
    smallest_normal, largest = map(np.float32, float_range(dtype))
    units_in_power = np.float32(2**dtype.mantissa_bits)
    flat = np.ascontiguousarray(floats).reshape(-1)
    magnitude = np.abs(flat)
    is_overflow = ~(magnitude <= largest)  # true of NaN too
    power = (magnitude.view(np.uint32) & _FLOAT32_EXPONENT).view(np.float32)
    np.maximum(power, smallest_normal, out=power)
    with np.errstate(invalid="ignore", over="ignore"):
        # All exact: powers of two, and a difference of neighbours.
        units = np.multiply(np.divide(magnitude, power, out=magnitude), units_in_power)
        result = np.floor(units)
        units -= result
        result += generator.random(flat.shape) < units
        result /= units_in_power
        result *= power
    np.copysign(result, flat, out=result)
    np.copyto(result, flat, where=is_overflow)
    return round_to(result.reshape(floats.shape), dtype)
