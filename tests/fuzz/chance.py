"""What the instructions that draw random numbers write, told from AWS's pages in nki.isa.

Intervals say the range; what else is documented (equal states give equal numbers, each bit is one
half of the time, a drop probability) a `Claim` adds. Which numbers are drawn nobody documents.
"""

from __future__ import annotations

import numpy as np
from formats import FLOAT32
from value_intervals import Interval


def rng(m, dst, engine=None):
    """Any value of the format: its low bits of 32 random ones."""
    _draw(m, engine or "vector")
    format_ = m.format(dst)
    _put_range(m, dst, np.full((), format_.smallest), np.full((), format_.largest))


def rand2(m, dst, min, max):  # noqa: A002  AWS's names
    """From `min` to `max`, rounded to the format."""
    _draw(m, "vector")
    like = Interval(np.zeros((m.shape(dst)[0], 1)))
    low, high = m.column(min, like), m.column(max, like)
    m.need(low.high < high.low, "min < max is documented")
    m.need(np.isfinite(low.magnitude) & np.isfinite(high.magnitude), "an infinite range")
    m.need(high.high - low.low < FLOAT32.largest, "an infinite range")
    ends = Interval(low.low, high.high).rounded(m.format(dst))
    _put_range(m, dst, ends.low, ends.high)


def dropout(m, dst, data, prob):
    """Zero, or the element; one of the two where the probability is 0 or 1."""
    _draw(m, "vector")
    x = m.bits(data).map(lambda v: v.reshape(v.shape[0], -1))
    share = m.column(prob, x)
    m.need((share.low >= 0) & (share.high <= 1), "a probability")
    low = np.where(share.low == 1, 0.0, np.where(share.high == 0, x.low, np.minimum(x.low, 0)))
    high = np.where(share.low == 1, 0.0, np.where(share.high == 0, x.high, np.maximum(x.high, 0)))
    m.need(np.isfinite(low) & np.isfinite(high), "infinities and NaN")
    m.put(dst, Interval(low, high))


def set_rng_seed(m, src_seeds):
    m.need(m.bits(src_seeds).is_point, "the seed is not known")
    m.random.pop("vector", None)


def rand_set_state(m, src_seeds, engine=None):
    """Word for word what rand_get_state gives back until numbers are drawn."""
    m.random[_name(engine)] = m.bits(src_seeds)


def rand_get_state(m, dst, engine=None):
    known = m.random.get(_name(engine))
    if known is not None and known.shape == m.shape(dst):
        m.put(dst, known)
    else:
        _put_range(m, dst, np.zeros(()), np.full((), m.format(dst).largest))


def _name(engine):
    return "gpsimd" if engine is None else engine.last


def _draw(m, engine):
    m.random.pop(getattr(engine, "last", engine), None)


def _put_range(m, dst, low, high):
    shape = m.shape(dst)
    flat = shape[0], int(np.prod(shape[1:]))
    m.put(dst, Interval(np.broadcast_to(low, flat).copy(), np.broadcast_to(high, flat).copy()))
