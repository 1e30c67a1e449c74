"""Products: of any dimensions, as batches of matrices; convolutions of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.graph import Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope
from trnsim.jax.stablehlo.shapes import reversed_


@rule("stablehlo.dot_general")
def dot_general(scope: Scope, op: Op) -> Entry:
    """A product over any dimensions: both sides as batches of matrices."""
    numbers = dialect.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    over = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    lhs, rhs = (scope.value(one) for one in op.operands)
    return product(scope, op, (lhs, rhs), batch, over)


@rule("stablehlo.dot", composed="dot_general")
def dot(scope: Scope, op: Op) -> Entry:
    """A product over the last dimension of the left side and the first of the right one."""
    lhs, rhs = (scope.value(one) for one in op.operands)
    return product(scope, op, (lhs, rhs), ([], []), ([len(lhs.shape) - 1], [0]))


def product(
    scope: Scope,
    op: Op,
    sides: tuple[Value, Value],
    batch: tuple[list[int], list[int]],
    over: tuple[list[int], list[int]],
) -> Value:
    """``[*B, *M, *N]``: batching dimensions, then those that each side has alone."""
    wanted, graph = scope.result(op), scope.graph
    free = [
        [dim for dim in range(len(one.shape)) if dim not in (*b, *c)]
        for one, b, c in zip(sides, batch, over, strict=True)
    ]
    if not prod(sides[0].shape[dim] for dim in over[0]):
        return graph.constant(0.0, wanted)
    left, rows = _as_matrices(scope, sides[0], batch[0], free[0], over[0])
    right, columns = _as_matrices(scope, sides[1], batch[1], free[1], over[1])
    rank = len(left.shape)
    contracting = (rank - 1 if rows else rank - 2, rank - 1 if columns else rank - 2)
    found = scope.b.product(left, right, contracting, wanted.dtype)
    return graph.reshape(found, wanted.shape)


def _as_matrices(
    scope: Scope, value: Value, batch: Sequence[int], free: Sequence[int], over: Sequence[int]
) -> tuple[Value, bool]:
    """A side as matrices, and whether the contracted dimension is the last.

    Of the two orders the one in which the dimensions lie already.
    """
    last, first = [*batch, *free, *over], [*batch, *over, *free]
    in_order = list(range(len(value.shape)))
    is_last = last == in_order or (first != in_order and (not free or _ends(value, over)))
    groups = (batch, free, over) if is_last else (batch, over, free)
    shape = [prod(value.shape[dim] for dim in dims) for dims in groups]
    kept = [value.shape[dim] for dim in batch]
    turned = scope.graph.transpose(value, last if is_last else first)
    return scope.graph.reshape(turned, (*kept, *shape[1:])), is_last


def _ends(value: Value, over: Sequence[int]) -> bool:
    """Whether a dimension is the last one that is longer than 1."""
    long = [dim for dim, n in enumerate(value.shape) if n > 1]
    return bool(long) and long[-1] in over


@rule("stablehlo.convolution")
def convolution(scope: Scope, op: Op) -> Entry:
    """A convolution, its dimensions in our order; batches in groups become channels in groups."""
    numbers = dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs, rhs = (scope.value(one) for one in op.operands)
    spatial = list(numbers.input_spatial_dimensions)
    x = scope.graph.transpose(
        lhs, (numbers.input_batch_dimension, numbers.input_feature_dimension, *spatial)
    )
    taps = list(numbers.kernel_spatial_dimensions)
    kernels = scope.graph.transpose(
        rhs,
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *taps),
    )
    kernels, is_reversed = _turned(scope, op, kernels, len(taps))
    groups = mlir.number(op, "feature_group_count", 1)
    split = mlir.number(op, "batch_group_count", 1)
    if split > 1:
        x, groups = _by_channels(scope, x, split), split
    wanted = scope.result(op)
    operation = _windows(op, len(taps), groups, is_reversed=is_reversed)
    found = scope.graph.apply(operation, x, kernels, dtype=wanted.dtype)
    places = (
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.output_spatial_dimensions,
    )
    return scope.graph.transpose(found, [places.index(dim) for dim in range(len(places))])


def _turned(scope: Scope, op: Op, kernels: Value, rank: int) -> tuple[Value, bool]:
    """The kernels, and whether all dimensions of windows are reversed; some are turned here."""
    name = "window_reversal"
    found = [bool(one) for one in op.attributes[name]] if name in op.attributes else [False] * rank
    if all(found) and found:
        return kernels, True
    return reversed_(scope, kernels, [dim + _SIDES for dim, is_ in enumerate(found) if is_]), False


_SIDES: Final = 2


def _by_channels(scope: Scope, x: Value, split: int) -> Value:
    """``[N, G * C, *D]`` of ``[G * N, C, *D]``."""
    batch, channels, *places = x.shape
    apart = scope.graph.reshape(x, (split, batch // split, channels, *places))
    order = (1, 0, *range(2, len(apart.shape)))
    turned = scope.graph.transpose(apart, order)
    return scope.graph.reshape(turned, (batch // split, split * channels, *places))


def _windows(op: Op, rank: int, groups: int, *, is_reversed: bool) -> Convolution:
    """The convolution by the attributes of an operation."""
    ones: Any = (1,) * rank
    sides = mlir.table(op, "padding") or [[0, 0]] * rank
    return Convolution(
        strides=mlir.ints(op, "window_strides", ones),
        low=tuple(low for low, _ in sides),
        high=tuple(high for _, high in sides),
        gaps=tuple(one - 1 for one in mlir.ints(op, "lhs_dilation", ones)),
        dilations=mlir.ints(op, "rhs_dilation", ones),
        groups=groups,
        is_reversed=is_reversed,
    )
