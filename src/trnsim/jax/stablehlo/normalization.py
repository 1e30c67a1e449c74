"""Batch normalization and its gradient, and systems of equations with a triangular matrix."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, prod
from typing import Any

from trnsim.graph import Value
from trnsim.graph.building.triangular import solve_triangular
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope

_F32 = "float32"
_COMPOSED_OF = "reduce, subtract, multiply, rsqrt, add"


class _Normalization:
    """The operand of a batch normalization, and how features lie in it.

    Attributes:
        scope: the scope of the import.
        value: the operand.
        feature: the dimension of the features.
        epsilon: the number that is added to variances.
        other_dims: the dimensions over which a feature is averaged.
        weight: the weight of an element in an average; NaN where there is no element.
    """

    def __init__(self, scope: Scope, op: Op) -> None:
        self.scope, self.value = scope, scope.value(op.operands[0])
        self.feature = mlir.number(op, "feature_index")
        self.epsilon = float(op.attributes["epsilon"].value)
        rank = len(self.value.shape)
        self.other_dims = [dim for dim in range(rank) if dim != self.feature]
        counts = [self.value.shape[dim] for dim in self.other_dims]
        self.weight = 1.0 / prod(counts) if all(counts) else nan

    def ew(self, name: str, *operands: Any) -> Value:
        """An elementwise operation in float32."""
        return self.scope.b.ew(name, *operands, dtype=_F32)

    def broadcast_features(self, value: Value) -> Value:
        """A number for each feature, repeated for all elements."""
        return self.scope.graph.broadcast_in_dim(value, self.value.shape, (self.feature,))

    def mean(self, value: Value) -> Value:
        """The mean of each feature."""
        return self.ew("multiply", self.total(value), self.weight)

    def total(self, value: Value) -> Value:
        """The sum of each feature."""
        return self.scope.graph.reduce("add", self.scope.b.convert(value, _F32), self.other_dims)

    def inverse(self, variance: Value) -> Value:
        """1 / sqrt(variance + epsilon) of each feature, repeated for all elements."""
        return self.broadcast_features(self.ew("rsqrt", self.ew("add", variance, self.epsilon)))


def _normalize(norm: _Normalization, parameters: Sequence[Value]) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``."""
    scale, offset, mean, variance = parameters
    deviations = norm.ew("subtract", norm.value, norm.broadcast_features(mean))
    unit = norm.ew("multiply", deviations, norm.inverse(variance))
    scaled_value = norm.ew("multiply", unit, norm.broadcast_features(scale))
    return norm.ew("add", scaled_value, norm.broadcast_features(offset))


@rule("stablehlo.batch_norm_inference", composed=_COMPOSED_OF)
def batch_norm_inference(scope: Scope, op: Op) -> Entry:
    """Normalization by a mean and a variance that are operands."""
    normalized_value = _normalize(
        _Normalization(scope, op), [scope.value(ssa) for ssa in op.operands[1:]]
    )
    return scope.b.convert(normalized_value, scope.result(op).dtype)


@rule("stablehlo.batch_norm_training", composed=_COMPOSED_OF)
def batch_norm_training(scope: Scope, op: Op) -> tuple[Entry, ...]:
    """Normalization by the batch's own mean and variance, which are results too."""
    norm = _Normalization(scope, op)
    mean = norm.mean(norm.value)
    deviations = norm.ew("subtract", norm.value, norm.broadcast_features(mean))
    variance = norm.mean(norm.ew("multiply", deviations, deviations))
    scale, offset = (scope.value(ssa) for ssa in op.operands[1:])
    normalized_value = _normalize(norm, [scale, offset, mean, variance])
    return _results(scope, op, normalized_value, mean, variance)


def _results(scope: Scope, op: Op, *values: Value) -> tuple[Entry, ...]:
    """Values in the dtypes of an operation's results."""
    return tuple(
        scope.b.convert(value, scope.result(op, index).dtype) for index, value in enumerate(values)
    )


@rule("stablehlo.batch_norm_grad", composed=_COMPOSED_OF)
def batch_norm_grad(scope: Scope, op: Op) -> tuple[Entry, ...]:
    """Gradients of the operand, the scale and the offset.

    Source: StableHLO Specification, batch_norm_grad.
    """
    norm = _Normalization(scope, op)
    scale, mean, variance, grad = (scope.value(ssa) for ssa in op.operands[1:])
    inverse = norm.inverse(variance)
    unit = norm.ew(
        "multiply", norm.ew("subtract", norm.value, norm.broadcast_features(mean)), inverse
    )
    grad_scale, grad_offset = norm.total(norm.ew("multiply", grad, unit)), norm.total(grad)
    correction = norm.ew(
        "add",
        norm.ew("multiply", unit, norm.broadcast_features(grad_scale)),
        norm.broadcast_features(grad_offset),
    )
    corrected_grad = norm.ew("subtract", grad, norm.ew("multiply", correction, norm.weight))
    grad_operand = norm.ew(
        "multiply", norm.ew("multiply", corrected_grad, inverse), norm.broadcast_features(scale)
    )
    return _results(scope, op, grad_operand, grad_scale, grad_offset)


@rule("stablehlo.triangular_solve", composed="dot_general, select, add")
def triangular_solve(scope: Scope, op: Op) -> Entry:
    """The x of ``a @ x = b`` or ``x @ a = b``, a or its transpose, by products."""
    matrix, y = (scope.value(ssa) for ssa in op.operands)
    upper = not mlir.flag(op, "lower")
    if mlir.symbol(op, "transpose_a") in ("TRANSPOSE", "ADJOINT"):
        rank = len(matrix.shape)
        matrix = scope.graph.transpose(matrix, (*range(rank - 2), rank - 1, rank - 2))
        upper = not upper
    scope.b.result_types = [scope.result(op)]
    return solve_triangular(
        scope.b,
        matrix,
        y,
        upper=upper,
        left=mlir.flag(op, "left_side"),
        unitriangular=mlir.flag(op, "unit_diagonal"),
    )
