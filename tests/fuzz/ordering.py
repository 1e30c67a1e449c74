"""What the instructions that sort and search write, told from AWS's pages in nki.isa."""

from __future__ import annotations

import numpy as np
from arithmetic import flat
from value_intervals import Interval

_CORE = 16
"""Partitions of a GpSimd core (nki.isa.nonzero_with_count)."""


def max8(m, dst, src):
    """The eight largest, descending; the order statistics of both ends bound them."""
    x = m.load(src)
    m.need(~np.isnan(x.low) & ~x.unknown(), "AWS does not say where NaN is sorted")
    m.store(dst, x.map(lambda v: -np.sort(-v, axis=1)[:, :8]))


def _points(m, *views):
    found = [m.load(view) for view in views]
    m.need(all(x.is_point for x in found), "equality is not known")
    return [x.low for x in found]


def _matches(data, wanted, slots):
    """The place that each of `wanted` finds in a row, in the order of `slots`; -1 for none."""
    found, taken = np.full(len(wanted), -1), np.zeros(len(data), bool)
    for slot in slots:
        places = np.flatnonzero((data == wanted[slot]) & ~taken)
        if len(places):
            found[slot] = places[0]
            taken[places[0]] = True
    return found


def nc_find_index8(m, dst, data, vals):
    """The k-th of equal values finds the k-th occurrence; all ones where there is none."""
    rows = zip(*_points(m, data, vals), strict=True)
    found = np.array([_matches(*row, range(8)) for row in rows], float)
    m.put(dst, Interval(np.where(found < 0, m.format(dst).largest, found)))


def nc_match_replace8(m, dst, data, vals, imm, dst_idx=None):
    """The last of equal values finds the first occurrence; each finds a place of its own."""
    x, wanted = _points(m, data, vals)
    found = np.array([_matches(*row, range(7, -1, -1)) for row in zip(x, wanted, strict=True)])
    m.need(dst_idx is None or (found >= 0).all(), "an index that is not found is undefined")
    hit = np.zeros(x.shape, bool)
    rows, slots = np.nonzero(found >= 0)
    hit[rows, found[rows, slots]] = True
    same = m.format(dst) is m.format(data)
    kept = flat(m.bits(data)) if same else Interval(x)
    mark = float(np.float32(imm))
    values = kept.map(lambda v: np.where(hit, mark, v)).rounded(m.format(dst))
    m.put(dst, values)
    if dst_idx is not None:
        m.store(dst_idx, Interval(found.astype(float)))


def topk(m, val_dst, idx_dst, src, n):
    """Value i of a core lies in its partition i % 16 and column i // 16; ascending.

    Which of equal values comes first AWS does not say, so each may have the place of any.
    """
    (x,) = _points(m, src)
    K = m.shape(val_dst)[1]
    largest, low, high = (np.zeros((len(x), K)) for _ in range(3))
    for first in range(0, len(x), _CORE):
        snake = x[first : first + _CORE].T.reshape(-1)[:n]
        m.need(~np.isnan(snake), "AWS does not say where NaN is sorted")
        rows = slice(first, first + _CORE)
        largest[rows] = chosen = np.sort(snake)[-K:]
        places = [np.flatnonzero(snake == value) for value in chosen]
        low[rows] = [place[0] for place in places]
        high[rows] = [place[-1] for place in places]
    m.put(val_dst, Interval(largest))
    m.put(idx_dst, Interval(low, high))


def nonzero_with_count(m, dst, src, index_offset=0, padding_val=-1):
    """Of the first partition of each core: places, padding, how many; the others stay."""
    x = flat(m.bits(src))
    m.need(x.is_point, "what is zero is not known")
    result, where = np.zeros(m.shape(dst)), np.zeros(m.shape(dst), bool)
    for row in range(0, len(x.low), _CORE):
        found = np.flatnonzero(x.low[row] != 0)
        padding = [padding_val] * (x.shape[1] - len(found))
        result[row] = [*(found + index_offset), *padding, len(found)]
        where[row] = True
    m.put(dst, Interval(result), where=where)


def sequence_bounds(m, dst, segment_ids):
    """Start and end of the run that each element is in; F and -1 of padding, whose id is 0."""
    (ids,) = _points(m, segment_ids)
    ids = ids[0]
    F = len(ids)
    starts, ends = np.zeros(F), np.zeros(F)
    for i, segment in enumerate(ids):
        run = np.flatnonzero(ids == segment)
        m.need(run[-1] - run[0] + 1 == len(run) or segment == 0, "a segment in two parts")
        starts[i], ends[i] = (F, -1) if segment == 0 else (run[0], run[-1] + 1)
    m.store(dst, Interval(np.stack((starts, ends))))
