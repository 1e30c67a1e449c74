"""What bn_stats and bn_aggr write, and the table of all meanings by opcode."""

from __future__ import annotations

import arithmetic
import chance
import movement
import numpy as np
import ordering
import products
from arithmetic import flat
from operators import BINARY, square
from products import LARGEST
from value_intervals import UNIT, Interval, corners, summed


def bn_stats(m, dst, data):
    """Count, mean, variance * count of the even elements, then of the odd ones."""
    x = m.load(data)
    m.need(np.isfinite(x.magnitude) & (x.magnitude < LARGEST), "too large")
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
    movement.dma_compute,
    movement.memset,
    movement.nc_transpose,
    movement.dma_transpose,
    movement.nc_stream_shuffle,
    movement.iota,
    movement.affine_select,
    movement.tensor_copy_predicated,
    movement.select_reduce,
    movement.range_select,
    movement.nc_n_gather,
    movement.local_gather,
    movement.register,
    movement.register_move,
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
    arithmetic.activate2,
    arithmetic.exponential,
    ordering.max8,
    ordering.nc_find_index8,
    ordering.nc_match_replace8,
    ordering.topk,
    ordering.nonzero_with_count,
    ordering.sequence_bounds,
    products.nc_matmul,
    products.quantize_mx,
    products.nc_matmul_mx,
    products.nc_matmul_sparse,
    chance.rng,
    chance.rand2,
    chance.dropout,
    chance.set_rng_seed,
    chance.rand_set_state,
    chance.rand_get_state,
    bn_stats,
    bn_aggr,
)
