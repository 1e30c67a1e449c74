"""Microscaling (MX): blocks of 32 elements with a shared power-of-two scale in float8_e8m0fnu.

``value = element * scale``.  Let a be the largest magnitude of a block, and Emax the largest
exponent of the element format (8 for float8_e4m3fn, 15 for float8_e5m2, 2 for float4_e2m1fn).
Two rules give the block's scale X, clamped to the scale format's range, 2**-127 to 2**127:

    "aws"   ``X = 2**(floor(log2 a) - (Emax - 1))``   nki.isa.quantize_mx, from NKI 0.5.0
    "ocp"   ``X = 2**(floor(log2 a) - Emax)``         OCP MX v1.0, sample conversion; NKI to 0.4

Elements are ``value / X``, rounded to nearest even, and saturate at the largest finite value.

Where AWS differs from the OCP spec:

- The scale is twice as large.  Under OCP's rule the largest values of a block may exceed the
  largest element, and saturate.  Under AWS's rule nothing saturates, and the range has one bit less
  at the small end.  AWS notes that this "remains OCP MX-compliant".
- An all-zero block has the scale 2**-127.  OCP's formula has no answer; "ocp" gives the same.
- The instruction has no FP4 output; here both rules apply to all three formats.

A block that holds an infinity or a NaN raises `Unspecified`: AWS documents nothing.  Here a block
is the last axis; the instruction chooses the 32 values of a tile that make a block (8 partitions
x 4).

Source: nki.isa.quantize_mx, Scale calculation; release notes of NKI 0.5.0, Improvements;
trainium3_arch.rst, Quad-MXFP8/MXFP4 Matmul Performance.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np

from trnsim.dtypes.conversion import Array, Float32Array
from trnsim.dtypes.formats import (
    FLOAT4_E2M1FN,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT8_E8M0FNU,
    Dtype,
    as_dtype,
    float_range,
)
from trnsim.dtypes.rounding import round_to, to_float32
from trnsim.errors import IllegalInstruction, Unspecified

ScaleRule = Literal["aws", "ocp"]

MX_BLOCK: Final = 32
_ELEMENT_MAX_EXPONENT: Final = {FLOAT8_E4M3FN: 8, FLOAT8_E5M2: 15, FLOAT4_E2M1FN: 2}
# float8_e8m0fnu: 2**(code - 127), and the last code is NaN.
_SCALE_BIAS: Final = 127
_RESERVED_EXPONENTS: Final[dict[ScaleRule, int]] = {"aws": 1, "ocp": 0}
"""Exponents at the top of the element format that a block's largest value leaves free."""
_SOURCE: Final = "nki.isa.quantize_mx, Scale calculation"


class MxBlocks(NamedTuple):
    """Blocks of an MX format.

    Attributes:
        elements: ``[..., 32]`` in the element format.
        scales: ``[...]`` in float8_e8m0fnu.
    """

    elements: Array
    scales: Array


def mx_quantize(values: Array, element: Dtype, rule: ScaleRule = "aws") -> MxBlocks:
    """Quantize ``values [..., 32]``: elements and scales, by the scale rule `rule`.

    Raises:
        IllegalInstruction: where the last axis is not 32, or `element` is no MX element format.
        Unspecified: where a value is infinite or NaN.
    """
    _check(values, element)
    floats = to_float32(values)
    with np.errstate(invalid="ignore"):
        largest = np.abs(floats).max(axis=-1)
    if not np.isfinite(largest).all():
        raise Unspecified(
            "MX quantization of an infinity or a NaN; AWS documents finite values only",
            fix="clamp the values first",
            source=_SOURCE,
        )
    floor_log2 = np.frexp(largest)[1] - 1
    exponent = floor_log2 - (_ELEMENT_MAX_EXPONENT[element] - _RESERVED_EXPONENTS[rule])
    exponent = np.where(largest > 0, exponent, -_SCALE_BIAS)
    exponent = np.clip(exponent, -_SCALE_BIAS, _SCALE_BIAS)
    inverse = np.ldexp(np.float32(1), -exponent)  # exact, as is the product with it
    limit = np.float32(float_range(element).largest)
    elements = np.clip(floats * inverse[..., np.newaxis], -limit, limit)
    scales = (exponent + _SCALE_BIAS).astype(np.uint8).view(FLOAT8_E8M0FNU.dtype)
    return MxBlocks(round_to(elements, element), scales)


def mx_dequantize(elements: Array, scales: Array) -> Float32Array:
    """``elements [..., 32] * scales [...]`` in float32; NaN where the scale is NaN (code 255).

    `scales` may be float8_e8m0fnu or, as NKI before 0.5.0 had them, the same codes in uint8.

    Raises:
        IllegalInstruction: where the last axis is not 32, the shapes do not agree, or `elements`
            is no MX element format.
    """
    _check(elements, as_dtype(elements.dtype))
    if scales.shape != elements.shape[:-1] or scales.dtype not in (np.uint8, FLOAT8_E8M0FNU.dtype):
        raise IllegalInstruction(
            f"MX elements of shape {elements.shape} with scales {scales.dtype} of shape "
            f"{scales.shape}; legal: float8_e8m0fnu or uint8 of shape {elements.shape[:-1]}",
            source="nki.isa.nc_matmul_mx, Data types",
        )
    factor = to_float32(scales.view(FLOAT8_E8M0FNU.dtype))
    with np.errstate(over="ignore"):
        return to_float32(elements) * factor[..., np.newaxis]


def _check(values: Array, element: Dtype) -> None:
    if element not in _ELEMENT_MAX_EXPONENT:
        raise IllegalInstruction(
            f"{element} is not an MX element; legal: {', '.join(map(str, _ELEMENT_MAX_EXPONENT))}",
            source="mxfp-matmul.rst, Data Tensor",
        )
    if values.ndim == 0 or values.shape[-1] != MX_BLOCK:
        raise IllegalInstruction(
            f"MX blocks of shape {values.shape}; legal: a last axis of {MX_BLOCK}, which share a "
            "scale",
            source="trainium3_arch.rst, Quad-MXFP8/MXFP4 Matmul Performance",
        )
