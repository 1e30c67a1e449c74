"""Products: of any dimensions, as batches of matrices; convolutions of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.errors import NotModelled
from trnsim.graph import TensorType, Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope
from trnsim.jax.stablehlo.shapes import reversed_

_ONCE: Final = "a letter for each dimension, once a term"


@rule("stablehlo.dot_general")
def dot_general(scope: Scope, op: Op) -> Entry:
    """A product over any dimensions: both sides as batches of matrices."""
    numbers = dialect.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    over = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    return product(scope, scope.result(op), (lhs, rhs), batch, over)


@rule("stablehlo.dot", composed="dot_general")
def dot(scope: Scope, op: Op) -> Entry:
    """A product over the last dimension of the left side and the first of the right one."""
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    return product(scope, scope.result(op), (lhs, rhs), ([], []), ([len(lhs.shape) - 1], [0]))


@rule("stablehlo.einsum", composed="reduce, dot_general, transpose", limits=_ONCE)
def einsum(scope: Scope, op: Op) -> Entry:
    """A product whose dimensions have letters: those of one side alone are summed first."""
    left, right, kept = _einsum_terms(op)
    (x, left), (y, right) = (
        _summed_side(scope, scope.value(ssa), letters, {*others, *kept})
        for ssa, letters, others in zip(op.operands, (left, right), (right, left), strict=True)
    )
    both = [letter for letter in left if letter in right]
    batch = [letter for letter in both if letter in kept]
    over = [letter for letter in both if letter not in kept]
    free = [letter for letter in (*left, *right) if letter not in both]
    lengths = {**dict(zip(left, x.shape, strict=True)), **dict(zip(right, y.shape, strict=True))}
    order = [*batch, *free]
    type_ = TensorType(tuple(lengths[letter] for letter in order), scope.result(op).dtype)
    sides = (left, right)
    batches, overs = (
        ([sides[0].index(letter) for letter in part], [sides[1].index(letter) for letter in part])
        for part in (batch, over)
    )
    summed = product(scope, type_, (x, y), batches, overs)
    return scope.graph.transpose(summed, [order.index(letter) for letter in kept])


@rule("stablehlo.unary_einsum", composed="reduce, transpose", limits=_ONCE)
def unary_einsum(scope: Scope, op: Op) -> Entry:
    """Sums over the letters that the result has not."""
    letters, kept = _einsum_terms(op)
    total, remaining = _summed_side(scope, scope.value(op.operands[0]), letters, set(kept))
    return scope.graph.transpose(total, [remaining.index(letter) for letter in kept])


def _einsum_terms(op: Op) -> list[str]:
    """The letters of each operand's dimensions, and of the result's.

    Raises:
        NotModelled: a letter stands twice in a term, or for several dimensions.
    """
    text = mlir.symbol(op, "einsum_config")
    inputs, _, kept = text.partition("->")
    terms = [*inputs.split(","), kept]
    if "." in text or any(len(set(term)) != len(term) for term in terms):
        raise NotModelled(
            f"{op.name} of {text}; legal: {_ONCE}",
            fix="write it with jax.numpy.einsum, which makes products of named dimensions",
            source="StableHLO Specification, dot_general",
        )
    return terms


def _summed_side(scope: Scope, value: Value, letters: str, read: set[str]) -> tuple[Value, str]:
    """A side without the dimensions that nothing else reads, and the letters of the others."""
    unread = [dim for dim, letter in enumerate(letters) if letter not in read]
    remaining = "".join(letter for letter in letters if letter in read)
    return scope.b.reduce("add", value, unread) if unread else value, remaining


def product(
    scope: Scope,
    type_: TensorType,
    sides: tuple[Value, Value],
    batch: tuple[list[int], list[int]],
    over: tuple[list[int], list[int]],
) -> Value:
    """``[*B, *M, *N]``: batching dimensions, then those that each side has alone."""
    graph = scope.graph
    free = [
        [dim for dim in range(len(side.shape)) if dim not in (*b, *c)]
        for side, b, c in zip(sides, batch, over, strict=True)
    ]
    if not prod(sides[0].shape[dim] for dim in over[0]):
        return graph.constant(0.0, type_)
    left, rows = _as_matrices(scope, sides[0], batch[0], free[0], over[0])
    right, columns = _as_matrices(scope, sides[1], batch[1], free[1], over[1])
    rank = len(left.shape)
    contracting = (rank - 1 if rows else rank - 2, rank - 1 if columns else rank - 2)
    matrices = scope.b.product(left, right, contracting, type_.dtype)
    return graph.reshape(matrices, type_.shape)


def _as_matrices(
    scope: Scope, value: Value, batch: Sequence[int], free: Sequence[int], over: Sequence[int]
) -> tuple[Value, bool]:
    """A side as matrices, and whether the contracted dimension is the last.

    Of the two orders it takes the one in which the dimensions lie already, if there is one.
    """
    last, first = [*batch, *free, *over], [*batch, *over, *free]
    in_order = list(range(len(value.shape)))
    is_last = last == in_order or (first != in_order and (not free or _is_innermost(value, over)))
    groups = (batch, free, over) if is_last else (batch, over, free)
    shape = [prod(value.shape[dim] for dim in dims) for dims in groups]
    kept = [value.shape[dim] for dim in batch]
    ordered = scope.graph.transpose(value, last if is_last else first)
    return scope.graph.reshape(ordered, (*kept, *shape[1:])), is_last


def _is_innermost(value: Value, over: Sequence[int]) -> bool:
    """True if the last dimension longer than 1 is a contracted one."""
    long = [dim for dim, n in enumerate(value.shape) if n > 1]
    return bool(long) and long[-1] in over


@rule("stablehlo.convolution")
def convolution(scope: Scope, op: Op) -> Entry:
    """A convolution, its dimensions in our order; batches in groups become channels in groups."""
    numbers = dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    spatial = list(numbers.input_spatial_dimensions)
    x = scope.graph.transpose(
        lhs, (numbers.input_batch_dimension, numbers.input_feature_dimension, *spatial)
    )
    taps = list(numbers.kernel_spatial_dimensions)
    kernels = scope.graph.transpose(
        rhs,
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension, *taps),
    )
    kernels, is_reversed = _ordered_kernels(scope, op, kernels, len(taps))
    groups = mlir.number(op, "feature_group_count", 1)
    split = mlir.number(op, "batch_group_count", 1)
    if split > 1:
        x, groups = _by_channels(scope, x, split), split
    type_ = scope.result(op)
    operation = _convolution(op, len(taps), groups, is_reversed=is_reversed)
    result = scope.graph.apply(operation, x, kernels, dtype=type_.dtype)
    places = (
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.output_spatial_dimensions,
    )
    return scope.graph.transpose(result, [places.index(dim) for dim in range(len(places))])


def _ordered_kernels(scope: Scope, op: Op, kernels: Value, rank: int) -> tuple[Value, bool]:
    """The kernels, and whether all window dimensions are reversed; some are reversed here."""
    name = "window_reversal"
    flags = [bool(bit) for bit in op.attributes[name]] if name in op.attributes else [False] * rank
    if all(flags) and flags:
        return kernels, True
    return reversed_(scope, kernels, [dim + _SIDES for dim, bit in enumerate(flags) if bit]), False


_SIDES: Final = 2


def _by_channels(scope: Scope, x: Value, split: int) -> Value:
    """``[N, G * C, *D]`` of ``[G * N, C, *D]``."""
    batch, channels, *places = x.shape
    split_batch = scope.graph.reshape(x, (split, batch // split, channels, *places))
    order = (1, 0, *range(2, len(split_batch.shape)))
    ordered = scope.graph.transpose(split_batch, order)
    return scope.graph.reshape(ordered, (batch // split, split * channels, *places))


def _convolution(op: Op, rank: int, groups: int, *, is_reversed: bool) -> Convolution:
    """The convolution by the attributes of an operation."""
    ones: Any = (1,) * rank
    sides = mlir.matrix(op, "padding") or [[0, 0]] * rank
    return Convolution(
        strides=mlir.ints(op, "window_strides", ones),
        low=tuple(low for low, _ in sides),
        high=tuple(high for _, high in sides),
        gaps=tuple(dilation - 1 for dilation in mlir.ints(op, "lhs_dilation", ones)),
        dilations=mlir.ints(op, "rhs_dilation", ones),
        groups=groups,
        is_reversed=is_reversed,
    )
