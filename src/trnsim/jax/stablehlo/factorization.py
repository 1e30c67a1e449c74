"""Cholesky's factorization row by row: a loop of StableHLO's own operations."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

import numpy as np
from jaxlib.mlir import ir

from trnsim.graph import Value
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope

_ROWS: Final = """
func.func public @main(%a: {whole}) -> {whole} {{
  %none = stablehlo.constant dense<0.0> : {whole}
  %left = stablehlo.constant dense<0.0> : {row}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<{n}> : tensor<i32>
  %places = stablehlo.iota dim = 2 : tensor<{b}x1x{n}xi32>
  %loop:3 = stablehlo.while(%i = %zero, %rest = %a, %rows = %none)
      : tensor<i32>, {whole}, {whole}
    cond {{
      %goes_on = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %goes_on : tensor<i1>
    }} do {{
      %row = stablehlo.dynamic_slice %rest, %zero, %i, %zero, sizes = [{b}, 1, {n}]
        : ({whole}, tensor<i32>, tensor<i32>, tensor<i32>) -> {row}
      %pivot = stablehlo.dynamic_slice %row, %zero, %zero, %i, sizes = [{b}, 1, 1]
        : ({row}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<{b}x1x1xf32>
      %root = stablehlo.sqrt %pivot : tensor<{b}x1x1xf32>
      %roots = stablehlo.broadcast_in_dim %root, dims = [0, 1, 2]
        : (tensor<{b}x1x1xf32>) -> {row}
      %scaled = stablehlo.divide %row, %roots : {row}
      %place = stablehlo.broadcast_in_dim %i, dims = []
        : (tensor<i32>) -> tensor<{b}x1x{n}xi32>
      %is_right = stablehlo.compare GE, %places, %place
        : (tensor<{b}x1x{n}xi32>, tensor<{b}x1x{n}xi32>) -> tensor<{b}x1x{n}xi1>
      %next = stablehlo.select %is_right, %scaled, %left : tensor<{b}x1x{n}xi1>, {row}
      %square = stablehlo.dot_general %next, %next, batching_dims = [0] x [0],
        contracting_dims = [1] x [1] : ({row}, {row}) -> {whole}
      %less = stablehlo.subtract %rest, %square : {whole}
      %more = stablehlo.dynamic_update_slice %rows, %next, %zero, %i, %zero
        : ({whole}, {row}, tensor<i32>, tensor<i32>, tensor<i32>) -> {whole}
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %less, %more : tensor<i32>, {whole}, {whole}
    }}
  return %loop#2 : {whole}
}}
"""
"""The upper triangle U with ``U.T @ U = a``, in float32: row i of a, less the products of the rows
of U above it, divided by the root of its pivot. It reads the upper triangle of a."""


@rule("stablehlo.cholesky", composed="while, sqrt, divide, dot_general, subtract", is_folded=False)
def cholesky(scope: Scope, op: Op) -> Entry:
    """The triangle L with ``L @ L.T = a``, or U with ``U.T @ U = a``, row by row.

    For a matrix that is not positive definite it is NaN from the first negative pivot on.
    """
    type_ = scope.result(op)
    *batch, n = type_.shape[:-1]
    if not type_.elements:
        return np.zeros(type_.shape, type_.numpy_dtype())
    is_lower, b = mlir.flag(op, "lower"), prod(batch)
    matrix = scope.b.convert(scope.value(op.operands[0]), "float32")
    matrix = scope.graph.reshape(matrix, (b, n, n))
    upper = _upper_triangles(scope, op, _transpose(scope, matrix) if is_lower else matrix)
    triangle = scope.graph.reshape(_transpose(scope, upper) if is_lower else upper, type_.shape)
    return scope.b.convert(triangle, type_.dtype)


def _transpose(scope: Scope, matrices: Value) -> Value:
    return scope.graph.transpose(matrices, (0, 2, 1))


def _upper_triangles(scope: Scope, op: Op, matrices: Value) -> Value:
    """The upper triangles of ``[b, n, n]``, zeros below."""
    b, n, _ = matrices.shape
    matrix_type, row = f"tensor<{b}x{n}x{n}xf32>", f"tensor<{b}x1x{n}xf32>"
    module = ir.Module.parse(_ROWS.format(b=b, n=n, whole=matrix_type, row=row), op.context)
    target = replace(scope.target, functions=mlir.functions(module))
    (triangle,) = Scope(target).call("main", [matrices], scope.path.in_call(op))
    return scope.tensor(triangle)
