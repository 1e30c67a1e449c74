"""Reductions and running results by a body for which the graph has no operation.

The body is applied to whole tensors: neighbours of n elements are combined, then neighbours of
these results, log2(n) times. Running results take as many steps, each of which combines every
element with the element 1, 2, 4, .. places before it.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import Value
from trnsim.graph.ops.reductions import BODIES
from trnsim.graph.types import round_to_dtype
from trnsim.jax.stablehlo import bodies, mlir
from trnsim.jax.stablehlo.mlir import Block, Op, Ssa
from trnsim.jax.stablehlo.rules import RULES
from trnsim.jax.stablehlo.scope import Scope

_ELEMENTWISE: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("clamp", "compare", "constant", "is_finite", "popcnt", "return", "select"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical"),
    )
)
"""Elementwise operations whose rules are not `is_by_parts`."""
_SAMPLE_NUMBERS: Final = (0.0, 0.5, 1.0, 3.0)
_ROUNDING: Final = 2.0**-2
"""The tolerance of the test for associativity: an error of a narrow dtype after two operations."""


def check_foldable(scope: Scope, op: Op) -> None:
    """Refuse a body that is not elementwise or not associative.

    Raises:
        NotModelled: with the reason.
    """
    block = op.regions[0].blocks[0]
    for view in block.operations:
        name = view.operation.name
        if name not in _ELEMENTWISE and not (name in RULES and RULES[name].is_by_parts):
            raise NotModelled(
                f"{op.name} with a body that has {name}", fix="reduce by functions of each element"
            )
    if not _is_associative(scope, block):
        raise NotModelled(
            f"{op.name} with a body that is none of {', '.join(BODIES)}, nor associative",
            fix="reduce by a function whose order does not matter",
            source="StableHLO Specification, reduce",
        )


def _is_associative(scope: Scope, block: Block) -> bool:
    """True if ``f(f(a, b), c) = f(a, f(b, c))`` for a few numbers."""
    dtype = mlir.tensor_type(block.arguments[0].type).dtype
    first, second, third = (
        round_to_dtype(np.array(side), dtype)
        for side in zip(*product(_SAMPLE_NUMBERS, repeat=3), strict=True)
    )
    (left,) = bodies.run_body(scope, block, [first, second])
    (right,) = bodies.run_body(scope, block, [second, third])
    (left_first,) = bodies.run_body(scope, block, [np.asarray(left), third])
    (right_first,) = bodies.run_body(scope, block, [first, np.asarray(right)])
    first, second = (np.asarray(array).astype(np.float64) for array in (left_first, right_first))
    return bool(np.allclose(first, second, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True))


def reduce_by_body(scope: Scope, op: Op, value: Value, start: Ssa) -> Value:
    """All elements along an operation's dimensions, combined in order."""
    check_foldable(scope, op)
    dims = mlir.ints(op, "dimensions")
    kept_dims = [dim for dim in range(len(value.shape)) if dim not in dims]
    row = scope.graph.transpose(value, [*kept_dims, *sorted(dims)])
    lengths = tuple(value.shape[dim] for dim in kept_dims)
    row = scope.graph.reshape(row, (*lengths, prod(value.shape[dim] for dim in dims)))
    while row.shape[-1] > 1:
        row = _combine_neighbours(scope, op, row)
    if not row.shape[-1]:
        return scope.graph.broadcast_in_dim(scope.value(start), lengths, ())
    return combine_with_start(scope, op, scope.graph.reshape(row, lengths), start)


def _combine_neighbours(scope: Scope, op: Op, row: Value) -> Value:
    """Each pair of neighbours combined; the last of an odd number stays."""
    *lengths, n = row.shape
    pairs = n // 2
    origin = [0] * len(lengths)
    steps = [1] * len(lengths)
    left, right = (
        scope.graph.slice(row, (*origin, offset), (*lengths, pairs), (*steps, 2))
        for offset in (0, 1)
    )
    combined_value = _apply_body(scope, op, left, right)
    if n % 2 == 0:
        return combined_value
    last = scope.graph.slice(row, (*origin, n - 1), (*lengths, 1))
    return scope.graph.concatenate([combined_value, last], len(lengths))


def scan_by_body(
    scope: Scope, op: Op, value: Value, start: Ssa, dim: int, *, is_backward: bool
) -> Value:
    """At each index of a dimension the combination of all elements up to it.

    With `is_backward` it is the combination of all elements from the index on.
    """
    check_foldable(scope, op)
    n, reach = value.shape[dim], 1
    while reach < n:
        earlier_part = scope.slice_along(value, dim, 0, n - reach)
        later_part = scope.slice_along(value, dim, reach, n - reach)
        combined_value = _apply_body(scope, op, earlier_part, later_part)
        end = scope.slice_along(value, dim, n - reach if is_backward else 0, reach)
        value = scope.graph.concatenate(
            [combined_value, end] if is_backward else [end, combined_value], dim
        )
        reach *= 2
    return combine_with_start(scope, op, value, start)


def combine_with_start(scope: Scope, op: Op, value: Value, start: Ssa) -> Value:
    """The start of a reduction combined with each element."""
    first = scope.graph.broadcast_in_dim(scope.value(start), value.shape, ())
    return _apply_body(scope, op, first, value)


def _apply_body(scope: Scope, op: Op, left: Value, right: Value) -> Value:
    """An operation's body, applied to whole tensors."""
    (result,) = scope.run(op.regions[0].blocks[0], [left, right])
    return scope.tensor(result)
