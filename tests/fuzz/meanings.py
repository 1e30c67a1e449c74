"""What nc_matmul, bn_stats and bn_aggr write, and the table of all meanings by opcode."""

from __future__ import annotations

import arithmetic
import movement
import numpy as np
from arithmetic import flat
from intervals import UNIT, Interval, corners, settled, summed
from operators import BINARY, square

# Beyond this a partial sum of products may overflow although the sum does not.
_LARGEST = 2.0**60


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


def nc_matmul(m, dst, stationary, moving, accumulate=None, **_):
    """With accumulate=None the first matmul on an element overwrites, later ones add."""
    x, y = m.load(stationary), m.load(moving)
    m.need((x.magnitude < _LARGEST).all() and (y.magnitude < _LARGEST).all(), "too large")
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


def bn_stats(m, dst, data):
    """Count, mean, variance * count of the even elements, then of the odd ones."""
    x = m.load(data)
    m.need(np.isfinite(x.magnitude) & (x.magnitude < _LARGEST), "too large")
    columns = []
    for start in range(2):
        part = x.map(lambda v, start=start: v[:, start::2])
        count = part.shape[1]
        if count == 0:
            columns += [Interval(np.zeros(len(x.low)))] * 3
            continue
        total = summed(part, -1).rounded()
        mean = corners(lambda v, count=count: v / count, total).rounded()
        columns += [Interval(np.full(len(x.low), float(count))), mean, _squares(part, mean)]
    low, high = (np.stack([getattr(c, end) for c in columns], 1) for end in ("low", "high"))
    m.store(dst, Interval(low, high))


def _squares(x, mean):
    """The sum of squared deviations from a float32 mean.

    The root of the sum is a norm of the deviations: it changes by no more than the norm of what
    they change by. Each deviation and square is rounded, and so is the sum.
    """
    middle, radius = (x.low + x.high) / 2, (x.high - x.low) / 2
    count = x.shape[1]
    center = middle.mean(axis=1)
    root = np.sqrt(np.square(middle - center[:, None]).sum(axis=1))
    off = np.maximum(np.abs(mean.low - center), np.abs(mean.high - center))
    change = np.sqrt(np.square(radius).sum(axis=1)) + np.sqrt(count) * off
    rounding = (count + 5) * UNIT
    low = np.square(np.maximum(root - change, 0)) * (1 - rounding)
    return Interval(low, np.square(root + change) * (1 + rounding) + 2.0**-126)


def bn_aggr(m, dst, data):
    """Mean and population variance of the elements behind several triples."""
    x = flat(m.load(data))
    count, mean, squares = (x.map(lambda v, i=i: v[:, i::3]) for i in range(3))
    m.need((count.low > 0) & np.isfinite(x.magnitude).all(), "no elements")
    multiply, subtract, add = (BINARY[name] for name in ("multiply", "subtract", "add"))

    def divided(a, b):
        return corners(np.divide, a, b).rounded()

    total = summed(count, -1).rounded().map(lambda v: v[:, None])
    overall = summed(multiply(count, mean), -1).rounded().map(lambda v: v[:, None])
    overall = divided(overall, total)
    between = multiply(count, square(subtract(mean, overall)))
    variance = summed(add(squares, between), -1).rounded().map(lambda v: v[:, None])
    variance = divided(variance, total)
    low, high = (
        np.concatenate([getattr(part, end) for part in (overall, variance)], axis=1)
        for end in ("low", "high")
    )
    m.store(dst, Interval(low, high))


def _by_opcode(*functions):
    return {function.__name__: function for function in functions}


MEANINGS = _by_opcode(
    movement.dma_copy,
    movement.tensor_copy,
    movement.memset,
    movement.nc_transpose,
    movement.dma_transpose,
    movement.nc_stream_shuffle,
    movement.iota,
    movement.affine_select,
    movement.tensor_copy_predicated,
    movement.select_reduce,
    movement.range_select,
    movement.max8,
    movement.nc_find_index8,
    movement.nc_n_gather,
    movement.local_gather,
    movement.register,
    movement.register_load,
    movement.register_store,
    movement.exchange,
    arithmetic.tensor_tensor,
    arithmetic.tensor_scalar,
    arithmetic.scalar_tensor_tensor,
    arithmetic.reciprocal,
    arithmetic.tensor_reduce,
    arithmetic.tensor_partition_reduce,
    arithmetic.tensor_scalar_reduce,
    arithmetic.tensor_scalar_cumulative,
    arithmetic.tensor_tensor_scan,
    arithmetic.activation,
    arithmetic.activation_reduce,
    arithmetic.exponential,
    nc_matmul,
    bn_stats,
    bn_aggr,
)
