"""Products: of any dimensions, as batches of matrices; convolutions of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.errors import NotModelled
from trnsim.graph import TensorType, Value
from trnsim.graph.building.convolution import batch_groups_in_channels
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.types import INTEGERS, ITEM_BYTES
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope
from trnsim.jax.stablehlo.shapes import reversed_

_EINSUM_LIMIT: Final = "a letter for each dimension, once a term"


@rule("stablehlo.dot_general")
def dot_general(scope: Scope, op: Op) -> Entry:
    """A product over any dimensions, computed as a product of batches of matrices."""
    numbers = dialect.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    contracted_dims = (
        list(numbers.lhs_contracting_dimensions),
        list(numbers.rhs_contracting_dimensions),
    )
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    return product(scope, scope.result(op), (lhs, rhs), batch, contracted_dims)


@rule("stablehlo.dot", composed="dot_general")
def dot(scope: Scope, op: Op) -> Entry:
    """A product over the last dimension of the left side and the first of the right side."""
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    return product(scope, scope.result(op), (lhs, rhs), ([], []), ([len(lhs.shape) - 1], [0]))


@rule("stablehlo.einsum", composed="reduce, dot_general, transpose", limits=_EINSUM_LIMIT)
def einsum(scope: Scope, op: Op) -> Entry:
    """A product whose dimensions have letters; a dimension that only one side has is summed."""
    left, right, output = _einsum_terms(op)
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    x, left = _summed_side(scope, lhs, left, {*right, *output})
    y, right = _summed_side(scope, rhs, right, {*left, *output})
    common_letters = [letter for letter in left if letter in right]
    batch = [letter for letter in common_letters if letter in output]
    contracted_letters = [letter for letter in common_letters if letter not in output]
    free_letters = [letter for letter in (*left, *right) if letter not in common_letters]
    lengths = {**dict(zip(left, x.shape, strict=True)), **dict(zip(right, y.shape, strict=True))}
    order = [*batch, *free_letters]
    type_ = TensorType(tuple(lengths[letter] for letter in order), scope.result(op).dtype)
    batch_dims, contracted_dims = (
        ([left.index(letter) for letter in letters], [right.index(letter) for letter in letters])
        for letters in (batch, contracted_letters)
    )
    summed_product = product(scope, type_, (x, y), batch_dims, contracted_dims)
    return scope.graph.transpose(summed_product, [order.index(letter) for letter in output])


@rule("stablehlo.unary_einsum", composed="reduce, transpose", limits=_EINSUM_LIMIT)
def unary_einsum(scope: Scope, op: Op) -> Entry:
    """Sums over the dimensions whose letters the result does not have."""
    letters, output = _einsum_terms(op)
    summed_value, remaining_letters = _summed_side(
        scope, scope.value(op.operands[0]), letters, set(output)
    )
    return scope.graph.transpose(
        summed_value, [remaining_letters.index(letter) for letter in output]
    )


def _einsum_terms(op: Op) -> list[str]:
    """The letters of each operand's dimensions, then of the result's.

    Raises:
        NotModelled: a letter stands twice in a term, or for several dimensions; a term has another
            number of letters than the tensor has dimensions.
    """
    text = mlir.symbol(op, "einsum_config")
    inputs, _, output = text.partition("->")
    terms = [*inputs.split(","), output]
    ranks = [len(mlir.shape_of(ssa.type)) for ssa in (*op.operands, *op.results)]
    is_legal = [len(set(term)) for term in terms] == [len(term) for term in terms] == ranks
    if "." in text or not is_legal:
        raise NotModelled(
            f"{op.name} of {text}; legal: {_EINSUM_LIMIT}",
            fix="write it with jax.numpy.einsum, which makes products of named dimensions",
            source="StableHLO Specification, dot_general",
        )
    return terms


def _summed_side(
    scope: Scope, value: Value, letters: str, result_letters: set[str]
) -> tuple[Value, str]:
    """A side summed over the dimensions that `result_letters` lacks, and its remaining letters."""
    summed_dims = [dim for dim, letter in enumerate(letters) if letter not in result_letters]
    remaining_letters = "".join(letter for letter in letters if letter in result_letters)
    return scope.b.reduce("add", value, summed_dims) if summed_dims else value, remaining_letters


def product(
    scope: Scope,
    type_: TensorType,
    sides: tuple[Value, Value],
    batch: tuple[list[int], list[int]],
    contracting: tuple[list[int], list[int]],
) -> Value:
    """``[*B, *M, *N]``: the batching dimensions, then the free ones of the left and right side.

    `batch` and `contracting` have the dimensions of the left side, then of the right side.
    """
    graph = scope.graph
    free_dims = [
        [dim for dim in range(len(side.shape)) if dim not in (*b, *c)]
        for side, b, c in zip(sides, batch, contracting, strict=True)
    ]
    if not prod(sides[0].shape[dim] for dim in contracting[0]):
        return graph.constant(0.0, type_)
    left, rows = _as_matrices(scope, sides[0], batch[0], free_dims[0], contracting[0])
    right, columns = _as_matrices(scope, sides[1], batch[1], free_dims[1], contracting[1])
    rank = len(left.shape)
    matrix_dims = (rank - 1 if rows else rank - 2, rank - 1 if columns else rank - 2)
    # A sum in float32 would saturate in a narrow integer type, where StableHLO wraps around.
    is_narrow = type_.dtype in INTEGERS and ITEM_BYTES[type_.dtype] < ITEM_BYTES["int32"]
    matrices = scope.b.product(left, right, matrix_dims, "int32" if is_narrow else type_.dtype)
    return scope.b.convert(graph.reshape(matrices, type_.shape), type_.dtype)


def _as_matrices(
    scope: Scope,
    value: Value,
    batch: Sequence[int],
    free: Sequence[int],
    contracting: Sequence[int],
) -> tuple[Value, bool]:
    """(A side as matrices, True if the contracting dimension is the last).

    An order in which the dimensions lie already is preferred.
    """
    contracted_last, contracted_first = [*batch, *free, *contracting], [*batch, *contracting, *free]
    natural_order = list(range(len(value.shape)))
    is_last = contracted_last == natural_order or (
        contracted_first != natural_order and (not free or _is_innermost(value, contracting))
    )
    groups = (batch, free, contracting) if is_last else (batch, contracting, free)
    shape = [prod(value.shape[dim] for dim in dims) for dims in groups]
    batch_shape = [value.shape[dim] for dim in batch]
    ordered_value = scope.graph.transpose(value, contracted_last if is_last else contracted_first)
    return scope.graph.reshape(ordered_value, (*batch_shape, *shape[1:])), is_last


def _is_innermost(value: Value, contracting: Sequence[int]) -> bool:
    """True if the last dimension longer than 1 is a contracting dimension."""
    long_dims = [dim for dim, n in enumerate(value.shape) if n > 1]
    return bool(long_dims) and long_dims[-1] in contracting


@rule("stablehlo.convolution")
def convolution(scope: Scope, op: Op) -> Entry:
    """A convolution with the dimensions in our order: batch groups become groups of channels."""
    numbers = dialect.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    lhs, rhs = (scope.value(ssa) for ssa in op.operands)
    spatial = list(numbers.input_spatial_dimensions)
    x = scope.graph.transpose(
        lhs, (numbers.input_batch_dimension, numbers.input_feature_dimension, *spatial)
    )
    window_dims = list(numbers.kernel_spatial_dimensions)
    kernels = scope.graph.transpose(
        rhs,
        (
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *window_dims,
        ),
    )
    kernels, is_reversed = _ordered_kernels(scope, op, kernels, len(window_dims))
    groups = mlir.number(op, "feature_group_count", 1)
    batch_groups = mlir.number(op, "batch_group_count", 1)
    if batch_groups > 1:
        x, groups = batch_groups_in_channels(scope.graph, x, batch_groups), batch_groups
    type_ = scope.result(op)
    operation = _convolution(op, len(window_dims), groups, is_reversed=is_reversed)
    result = scope.graph.apply(operation, x, kernels, dtype=type_.dtype)
    output_dims = (
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.output_spatial_dimensions,
    )
    return scope.graph.transpose(
        result, [output_dims.index(dim) for dim in range(len(output_dims))]
    )


def _ordered_kernels(scope: Scope, op: Op, kernels: Value, rank: int) -> tuple[Value, bool]:
    """The kernels, and whether the convolution has to reverse all window dimensions.

    Where only some dimensions are reversed, the kernels come back with these reversed.
    """
    name = "window_reversal"
    flags = [bool(bit) for bit in op.attributes[name]] if name in op.attributes else [False] * rank
    if all(flags) and flags:
        return kernels, True
    dims = [dim + _FEATURE_DIMS for dim, is_reversed in enumerate(flags) if is_reversed]
    return reversed_(scope, kernels, dims), False


_FEATURE_DIMS: Final = 2
"""Number of dimensions of kernels before the spatial dimensions: output and input features."""


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
