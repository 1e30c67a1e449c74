"""Configurable FP8: a sign, 2 to 6 bits of exponent, the rest mantissa, and any exponent bias.

``value = (-1)**sign * 2**(exponent - bias) * (1 + mantissa / 2**mantissa_bits)``, with subnormals
where the exponent field is zero.  Encoding rounds to nearest, ties to even.

NeuronCore-v2 has the formats e5m2, e4m3 and e3m4; from NeuronCore-v3 the bias can be set
(neuron-core-v3.rst, Tensor Engine: "adjustable exponent biasing for the cFP8 data type").  AWS does
not document the default biases, nor which codes are special under a bias that is set; the
IEEE bias ``2**(exponent_bits - 1) - 1`` and IEEE codes give ml_dtypes' float8_e5m2, float8_e4m3 and
float8_e3m4, the meaning of NKI's names.  No NKI instruction takes a bias.

Source: data-types.rst, Trn1 / Inf2 (NeuronCore v2); neuron-core-v3.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from trnsim.dtypes.conversion import (
    Array,
    Float32Array,
    UInt8Array,
    round_to_odd,
    upper_halves,
)
from trnsim.dtypes.rounding import to_float32
from trnsim.errors import BadInput

_CODES: Final = 2**8
_SIGN: Final = 0x80
_MAGNITUDE_BITS: Final = 7
_EXPONENT_BITS: Final = range(2, _MAGNITUDE_BITS)
# Every value of a format has to be a float32: up to 2**127, down to 2**-149.
_FLOAT32_MAX_EXPONENT: Final = 127
_FLOAT32_MIN_EXPONENT: Final = -149
_FLOAT32_MIN_NORMAL_EXPONENT: Final = -126


@dataclass(frozen=True, slots=True)
class Cfp8:
    """A configurable FP8 format.

    Attributes:
        exponent_bits: 2 to 6.
        mantissa_bits: the other bits beside the sign, ``7 - exponent_bits``.
        bias: the exponent field less the exponent.
        is_finite: False as in IEEE 754 (the largest exponent field means infinity and NaN), True
            where only the code of all ones is NaN and there is no infinity.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    is_finite: bool = False

    def __post_init__(self) -> None:
        if (
            self.exponent_bits not in _EXPONENT_BITS
            or self.exponent_bits + self.mantissa_bits != _MAGNITUDE_BITS
        ):
            raise BadInput(
                f"cFP8 with {self.exponent_bits} exponent and {self.mantissa_bits} mantissa bits; "
                f"legal: {_EXPONENT_BITS[0]} to {_EXPONENT_BITS[-1]} exponent bits, and "
                f"{_MAGNITUDE_BITS} bits in all"
            )
        if self.max_exponent > _FLOAT32_MAX_EXPONENT or self.unit_exponent < _FLOAT32_MIN_EXPONENT:
            raise BadInput(
                f"cFP8 with bias {self.bias} holds values from 2**{self.unit_exponent} to beyond "
                f"2**{self.max_exponent}; legal: what float32 holds, 2**{_FLOAT32_MIN_EXPONENT} "
                f"to 2**{_FLOAT32_MAX_EXPONENT}",
            )

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal value."""
        return 1 - self.bias

    @property
    def unit_exponent(self) -> int:
        """Exponent of the smallest value above zero."""
        return self.min_exponent - self.mantissa_bits

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite value."""
        all_ones = (1 << self.exponent_bits) - 1
        return (all_ones if self.is_finite else all_ones - 1) - self.bias

    @property
    def overflow_code(self) -> int:
        """The code to which overflow rounds: infinity, or NaN in a finite format."""
        infinity = ((1 << self.exponent_bits) - 1) << self.mantissa_bits
        return self.nan_code if self.is_finite else infinity

    @property
    def nan_code(self) -> int:
        """The code of a positive NaN: all ones, or quiet as in IEEE 754."""
        all_ones = _SIGN - 1
        quiet = _SIGN - (1 << (self.mantissa_bits - 1))
        return all_ones if self.is_finite else quiet


def cfp8_encode(values: Array, form: Cfp8) -> UInt8Array:
    """The codes in `form` of float32 `values`, rounded to nearest even."""
    floats = to_float32(values)
    if form.unit_exponent > _FLOAT32_MIN_NORMAL_EXPONENT:
        return _encode_table(form).take(round_to_odd(floats), mode="wrap").reshape(floats.shape)
    return _encode(floats, form)  # 16 bits do not suffice for subnormal float32


def _encode(floats: Float32Array, form: Cfp8) -> UInt8Array:
    is_nan = np.isnan(floats)
    magnitude = np.abs(np.where(is_nan | np.isinf(floats), 0, floats)).astype(np.float64)
    exponent = np.where(magnitude > 0, np.frexp(magnitude)[1] - 1, form.min_exponent)
    exponent = np.maximum(exponent, form.min_exponent)
    units = np.rint(np.ldexp(magnitude, form.mantissa_bits - exponent)).astype(np.int64)
    # The implicit bit of `units` adds one to the exponent field, and so does a carry.
    code = ((exponent - form.min_exponent).astype(np.int64) << form.mantissa_bits) + units
    code = np.where(np.isinf(floats), form.overflow_code, np.minimum(code, form.overflow_code))
    code = np.where(is_nan, form.nan_code, code)
    return (code | np.where(np.signbit(floats), _SIGN, 0)).astype(np.uint8)


def cfp8_decode(codes: UInt8Array, form: Cfp8) -> Float32Array:
    """The float32 values of `codes`."""
    return _decode_table(form).take(codes)


@cache
def _encode_table(form: Cfp8) -> UInt8Array:
    return _encode(upper_halves(), form)


@cache
def _decode_table(form: Cfp8) -> Float32Array:
    codes = np.arange(_CODES)
    magnitude = codes & (_SIGN - 1)
    field, mantissa = np.divmod(magnitude, 2**form.mantissa_bits)
    units = mantissa + np.where(field > 0, 2**form.mantissa_bits, 0)
    value = np.ldexp(units.astype(np.float64), np.maximum(field, 1) - 1 + form.unit_exponent)
    if form.is_finite:
        value = np.where(magnitude == form.nan_code, np.nan, value)
    else:
        value = np.where(magnitude == form.overflow_code, np.inf, value)
        value = np.where(magnitude > form.overflow_code, np.nan, value)
    with np.errstate(over="ignore"):
        return np.copysign(value, np.where(codes & _SIGN, -1, 1)).astype(np.float32)
