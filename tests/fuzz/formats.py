"""The number formats as the oracle knows them: what a float64 becomes in each, by arithmetic alone.

Nothing of trnsim is used here, so that a mistake of `trnsim.dtypes` is not made twice. Floats round
to nearest even (data-types.rst, Rounding Modes); integers round likewise and saturate (release
notes of NKI 0.6.0, Bug Fixes). NaN as an integer is 0, and an FP8 overflow is infinity, or NaN in
the format without one: AWS does not say, `trnsim.dtypes` does.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A number format.

    Attributes:
        name: its name in nki.language.
        stored: the numpy dtype of its bytes.
        kind: "float", "int", "bool", or "code" of one whose elements are kept as they are stored.
        precision: bits of a float's significand, the hidden one included.
        exponents: of the smallest normal and of the largest finite value of a float.
        largest: largest finite value.
        smallest: smallest value of an integer.
        has_infinity: whether an overflow is infinite; else it is NaN.
        generation: the first NeuronCore generation that has it.
    """

    name: str
    stored: np.dtype
    kind: str
    precision: int = 0
    lowest_exponent: int = 0
    largest: float = 0
    smallest: float = 0
    has_infinity: bool = True
    generation: int = 2

    @property
    def itemsize(self):
        return self.stored.itemsize

    @property
    def is_float(self):
        return self.kind == "float"

    def rounded(self, x):
        """Float64 `x` rounded once to the format, as float64."""
        if self.kind == "bool":
            return np.where(x == 0, 0.0, 1.0)
        if self.kind == "int":
            return np.clip(np.where(np.isnan(x), 0.0, np.rint(x)), self.smallest, self.largest)
        if self.precision == _FLOAT32_BITS:
            return x.astype(np.float32).astype(np.float64)
        _, exponent = np.frexp(x)
        ulp = np.ldexp(1.0, np.maximum(exponent - 1, self.lowest_exponent) - self.precision + 1)
        near = np.rint(x / ulp) * ulp
        beyond = np.inf if self.has_infinity else np.nan
        return np.where(np.abs(near) > self.largest, np.copysign(beyond, x), near)


_FLOAT32_BITS = 24


def _float(name, stored, precision, lowest_exponent, largest, **more):
    return Format(name, np.dtype(stored), "float", precision, lowest_exponent, largest, **more)


def _integer(name):
    limits = np.iinfo(name)
    return Format(name, np.dtype(name), "int", 0, 0, float(limits.max), float(limits.min))


FLOAT32 = _float("float32", np.float32, _FLOAT32_BITS, -126, float(np.finfo(np.float32).max))

# Exponents and largest values: data-types.rst, and OCP 8-bit Floating Point for float8_e4m3fn.
_ALL = (
    FLOAT32,
    _float("tfloat32", np.float32, 11, -126, (2 - 2.0**-10) * 2.0**127),
    _float("bfloat16", ml_dtypes.bfloat16, 8, -126, (2 - 2.0**-7) * 2.0**127),
    _float("float16", np.float16, 11, -14, 65504.0),
    _float("float8_e4m3", ml_dtypes.float8_e4m3, 4, -6, 240.0),
    _float("float8_e5m2", ml_dtypes.float8_e5m2, 3, -14, 57344.0),
    _float(
        "float8_e4m3fn", ml_dtypes.float8_e4m3fn, 4, -6, 448.0, has_infinity=False, generation=4
    ),
    *map(_integer, ("int8", "int16", "int32", "uint8", "uint16", "uint32")),
    Format("bool_", np.dtype(np.bool_), "bool"),
)

# The scale of a microscaling group, and four elements in one (mxfp-matmul.rst, Data Tensor).
_CODES = {
    "float8_e8m0fnu": "uint8",
    "float8_e4m3fn_x4": "uint32",
    "float8_e5m2_x4": "uint32",
    "float4_e2m1fn_x4": "uint16",
}
FORMATS = {format_.name: format_ for format_ in _ALL} | {
    name: Format(name, np.dtype(stored), "code", generation=4) for name, stored in _CODES.items()
}


def available(generation):
    """The names of the formats of a NeuronCore generation whose elements are numbers."""
    return [f.name for f in _ALL if f.generation <= generation]


FLOATS = tuple(name for name, format_ in FORMATS.items() if format_.is_float)
INTEGERS = tuple(name for name, format_ in FORMATS.items() if format_.kind == "int")
