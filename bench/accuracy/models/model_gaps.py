"""What a program takes that its bound leaves out, each as an account of seconds.

A bound is the longest of three sides, at peaks. These are what a program of the same operations
has beside it, by shapes and published rates alone:

- exchanges: the latency of each, and its bytes by the fastest algorithm (`model_estimate`);
- array: what products take longer on an array whose rows and columns they do not fill;
- elements: one pass over the elements of each elementwise operation and each reduction, by an
  engine of 128 lanes;
- scores: attention's scores, all of them in float32, once to HBM and once back, as a program
  without flash attention moves them.
"""

from __future__ import annotations

from math import prod

from trnsim import arch
from trnsim.lower.bound import hbm_rate

LANES = 128
SHORTEST = 64
"""Cycles that a row or column of a product takes at least (trainium_inferentia2_arch.rst, MM)."""
SCORE_BYTES = 4


def gaps(graph, target, lnc, is_cast):
    """Seconds on a rank of `lnc` cores, by account, without exchanges."""
    core = arch.target(target).core
    filled, elements, scores = 0.0, 0, 0
    for node in graph.nodes:
        slow = {value.dtype for value in node.values} == {"float32"} and not is_cast
        count = CYCLES.get(node.name)
        if count is not None:
            shapes = [value.shape for value in node.values]
            cycles = count(node.operation, shapes, node.results[0].shape)
            filled += cycles * (core.fp32_passes if slow else 1)
        elif node.kind.name in ("ELEMENTWISE", "REDUCTION"):
            elements += max(prod(value.shape) for value in (*node.values, node.result))
        if node.name == "attention":
            scores += prod(node.values[0].shape[:-1]) * node.values[1].shape[-2]
    return {
        "array": filled / core.tensor_clock_hz / lnc,
        "elements": elements / LANES / core.vector_clock_hz / lnc,
        "scores": 2 * SCORE_BYTES * scores / hbm_rate(target, lnc),
    }


def tiles(length):
    """Rows or columns of the array, by the whole array."""
    return -(-length // LANES)


def product(batch, rows, inner, columns):
    """Cycles of products, with either side stationary."""
    ways = tiles(rows) * max(columns, SHORTEST), tiles(columns) * max(rows, SHORTEST)
    return batch * tiles(inner) * min(ways)


def dot_general(operation, shapes, made):
    """Of a batch of products."""
    *batch, rows, columns = made
    return product(prod(batch), rows, shapes[0][operation.contracting[0]], columns)


def convolution(operation, shapes, made):
    """A product for each tap and group: channels by channels, and all windows."""
    taps, groups = prod(shapes[1][2:]), operation.groups
    return product(taps * groups, shapes[1][0] // groups, shapes[1][1], made[0] * prod(made[2:]))


def attention(operation, shapes, _):
    """Both products of each head; under a causal mask half of them."""
    (*heads, queries, wide), keys, deep = shapes[0], shapes[1][-2], shapes[2][-1]
    both = product(prod(heads), queries, wide, keys) + product(prod(heads), queries, keys, deep)
    return both / 2 if operation.is_causal and queries > LANES else both


CYCLES = {"dot_general": dot_general, "convolution": convolution, "attention": attention}
"""Tensor Engine's cycles by the operation's name."""
