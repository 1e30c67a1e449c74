"""What the matmuls and quantize_mx write, told from AWS's pages in nki.isa."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from formats import FORMATS
from operators import BINARY
from value_intervals import UNIT, Interval, settled

LARGEST = 2.0**60
"""Beyond this a partial sum of products may overflow although the sum does not."""

_PACKED = 4
_QUADRANT = 32
_GROUP = 8
_BIAS = 127


def _multiplied(x, y):
    """x.T @ y in float32: the midpoints' product, and what their radii and the roundings add.

    The error of K products and their sum in any order is at most K + 1 unit roundoffs of the sum of
    magnitudes; whole numbers below 2**24 are exact.
    """
    sizes, others = x.magnitude, y.magnitude
    scale = sizes.T @ others
    middle, center = (x.low + x.high) / 2, (y.low + y.high) / 2
    spread = ((x.high - x.low) / 2).T @ others + sizes.T @ ((y.high - y.low) / 2)
    is_whole = all(np.array_equal(np.rint(v.low), v.low) for v in (x, y))
    is_exact = is_whole & (spread == 0) & (scale < 1 / UNIT)
    error = np.where(is_exact, 0.0, spread + (len(sizes) + 1) * UNIT * (1 + 2.0**-10) * scale)
    exact = middle.T @ center
    return settled(exact - error, exact + error, np.isnan(exact))


def _accumulated(m, dst, x, y, accumulate):
    """With accumulate=None the first matmul on an element overwrites, later ones add."""
    m.need((x.magnitude < LARGEST).all() and (y.magnitude < LARGEST).all(), "too large")
    product = _multiplied(x, y).rounded()
    places = m.places(dst)
    started = m.tensor(dst).started[places].reshape(product.shape)
    if accumulate is True:
        m.need(started, "nothing to accumulate onto")
    if accumulate is False or not started.any():
        old = Interval(np.zeros(product.shape))
    else:
        held = m.tensor(dst).values.map(lambda v: v[places].reshape(product.shape))
        old = held.map(lambda v: np.where(started, v, 0.0))
    m.store(dst, BINARY["add"](product, old))
    m.mark_started(dst)


def nc_matmul(m, dst, stationary, moving, accumulate=None, perf_mode=None, **_):
    """In double_row [K, 2, M] and [K, 2, N] are contracted over both K and 2."""
    x, y = m.load(stationary), m.load(moving)
    if perf_mode is not None and perf_mode.last == "double_row":
        x, y = (v.map(lambda z: z.reshape(2 * len(z), -1)) for v in (x, y))
    _accumulated(m, dst, x, y, accumulate)


# Microscaling: groups of 8 partitions x 4 elements, one packed element of each

# Largest exponents (quantize_mx, Scale calculation).
_EXPONENTS = {"float8_e4m3fn": 8, "float8_e5m2": 15}


def _scale_rows(partitions):
    """The row of each group's scale: the first four of its quadrant (mxfp-matmul.rst)."""
    group = np.arange(partitions // _GROUP)
    per_quadrant = _QUADRANT // _GROUP
    return group // per_quadrant * _QUADRANT + group % per_quadrant


def quantize_mx(m, dst, src, dst_scale):
    """Each group divided by 2**(floor(log2(largest)) - (Emax - 1)), 2**-127 for zeros."""
    x = m.load(src)
    m.need(x.is_point and np.isfinite(x.low).all(), "AWS documents finite values")
    element = FORMATS[m.format(dst).name.removesuffix("_x4")]
    P, F = x.shape
    groups = x.low.reshape(P // _GROUP, _GROUP, F // _PACKED, _PACKED)
    largest = np.abs(groups).max(axis=(1, 3))
    exponent = np.frexp(largest)[1] - 1 - (_EXPONENTS[element.name] - 1)
    exponent = np.where(largest > 0, np.maximum(exponent, -_BIAS), -_BIAS)
    scaled = element.rounded(np.ldexp(groups, -exponent[:, None, :, None]))
    stored = scaled.reshape(P, F).astype(element.stored)
    m.put(dst, Interval(stored.view(m.format(dst).stored).astype(np.float64)))
    codes, where = np.zeros(m.shape(dst_scale)), np.zeros(m.shape(dst_scale), bool)
    rows = _scale_rows(P)
    codes[rows], where[rows] = exponent + _BIAS, True
    m.put(dst_scale, Interval(codes), where=where)


def _unpacked(codes, format_):
    """The four numbers in each packed element, the first in the lowest bits: [P, F, 4]."""
    element = format_.name.removesuffix("_x4")
    stored = np.ascontiguousarray(codes.astype(format_.stored))
    if element == "float4_e2m1fn":
        shifts = np.arange(_PACKED, dtype=np.uint16) * 4
        parts = (stored[..., None] >> shifts & 0xF).astype(np.uint8)
        return parts.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    parts = stored.view(np.uint8).reshape(*stored.shape, _PACKED)
    return parts.view(FORMATS[element].stored).astype(np.float64)


def _dequantized(m, data, scale):
    """Packed data [K, F] as numbers [4 K, F]: elements times 2**(code - 127)."""
    codes, scales = m.bits(data), m.tensor(scale)
    K, F = codes.shape
    places = m.places(scale).reshape(m.shape(scale)[0], -1)[_scale_rows(K)]
    m.need(scales.written[places], "a scale is not written")
    m.need(codes.is_point and scales.values.is_point, "the codes are not known")
    factor = np.ldexp(1.0, scales.values.low[places].astype(int) - _BIAS)
    values = _unpacked(codes.low, m.format(data)) * np.repeat(factor, _GROUP, axis=0)[..., None]
    m.need(np.isfinite(values), "infinities and NaN")
    return Interval(values.transpose(0, 2, 1).reshape(_PACKED * K, F))


def nc_matmul_mx(m, dst, stationary, moving, stationary_scale, moving_scale, accumulate=None):
    x, y = _dequantized(m, stationary, stationary_scale), _dequantized(m, moving, moving_scale)
    _accumulated(m, dst, x, y, accumulate)


# Structured sparsity

_TAG_BITS = 4


def nc_matmul_sparse(m, dst, moving, stationary, tag, compress_ratio, kept=4, accumulate=None):
    """A stationary value of block b with tag t multiplies row ``b * kept * ratio + t``.

    How tags are packed is the page's choice: docs/generated/isa/nc_matmul_sparse.md.
    """
    x, tags = m.load(stationary), m.bits(tag)
    K, M = x.shape
    m.need(tags.is_point, "the tags are not known")
    shifts = np.arange(_TAG_BITS) * _TAG_BITS
    places = (tags.low.astype(int)[..., None] >> shifts & 0xF).reshape(K, M)
    rows = np.arange(K)[:, None] // kept * kept * compress_ratio + places

    def dense(values):
        wide = np.zeros((K * compress_ratio, M))
        wide[rows, np.arange(M)] = values
        return wide

    y = m.load(moving).map(lambda v: v.reshape(K * compress_ratio, -1))
    _accumulated(m, dst, x.map(dense), y, accumulate)
