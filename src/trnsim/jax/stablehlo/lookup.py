"""Slices read and written at indices."""

from __future__ import annotations

from math import prod
from typing import Any

from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.graph import TensorType, Value
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import BODIES
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.bodies import function_of
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, is_splat, splat_value


@rule("stablehlo.gather")
def gather(scope: Scope, op: Op) -> Entry:
    """Slices at indices, which are clamped so that slices lie inside."""
    numbers = dialect.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    operation = Gather(
        offset_dims=tuple(numbers.offset_dims),
        collapsed_slice_dims=tuple(numbers.collapsed_slice_dims),
        operand_batching_dims=tuple(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(numbers.start_indices_batching_dims),
        start_index_map=tuple(numbers.start_index_map),
        index_vector_dim=numbers.index_vector_dim,
        slice_sizes=mlir.ints(op, "slice_sizes"),
        is_in_bounds=False,
    )
    return scope.graph.apply(operation, *map(scope.value, op.operands))


@rule("stablehlo.scatter", limits="bodies of add, multiply, maximum, minimum, and assignment")
def scatter(scope: Scope, op: Op) -> Entry:
    """Updates at indices, left out where out of range; each operand by its own function."""
    count = len(op.operands) // 2
    values, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    names = function_of(scope, op, (*BODIES, "assign"))
    results = [
        _scatter_operand(scope, op, name, value, indices, update)
        for name, value, update in zip(names, values, updates, strict=True)
    ]
    return results[0] if count == 1 else tuple(results)


def _scatter_operand(
    scope: Scope, op: Op, name: str, value: Any, indices: Any, update: Any
) -> Entry:
    start = scope.constant_of(value)
    is_zero = start is not None and is_splat(start) and start.size and splat_value(start) == 0.0
    type_ = mlir.tensor_type(value.type)
    numbers = dialect.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    operation = Scatter(
        type_ if is_zero else None,
        name,
        update_window_dims=tuple(numbers.update_window_dims),
        inserted_window_dims=tuple(numbers.inserted_window_dims),
        operand_batching_dims=tuple(numbers.input_batching_dims),
        start_indices_batching_dims=tuple(numbers.scatter_indices_batching_dims),
        start_index_map=tuple(numbers.scattered_dims_to_operand_dims),
        index_vector_dim=numbers.index_vector_dim,
        is_in_bounds=False,
    )
    operands = [scope.value(update), scope.value(indices)]
    if is_zero and _is_one_per_row(operation, type_, *operands):
        return _scatter_in_rows(scope, type_, *operands)
    operands += [] if is_zero else [scope.value(value)]
    return scope.graph.apply(operation, *operands)


def _is_one_per_row(operation: Scatter, type_: TensorType, updates: Value, indices: Value) -> bool:
    """True if each row of the last dimension gets one number, as in the gradient of a gather."""
    *rows, _ = type_.shape or (1,)
    batching = zip(
        operation.operand_batching_dims, operation.start_indices_batching_dims, strict=True
    )
    pairs = [(row_dim, index_dim) for row_dim, index_dim in batching if type_.shape[row_dim] > 1]
    return (
        operation.op in ("add", "assign")
        and operation.start_index_map == (len(rows),)
        and [row_dim for row_dim, _ in pairs] == [dim for dim, side in enumerate(rows) if side > 1]
        and pairs == sorted(pairs, key=lambda pair: pair[1])
        and indices.type.elements == updates.type.elements == prod(rows)
    )


def _scatter_in_rows(scope: Scope, type_: TensorType, updates: Value, indices: Value) -> Value:
    """Zeros with one number in each row, by comparing columns with indices: no scatter.

    An index beyond the row equals no column, so nothing is written there.
    """
    b = scope.b
    row_count, columns = updates.type.elements, type_.shape[-1]
    index_column = b.graph.reshape(b.convert(indices, "int32"), (row_count, 1))
    update_column = b.graph.reshape(updates, (row_count, 1))
    column_numbers = b.graph.iota((row_count, columns), 1)
    is_indexed = b.ew("compare", column_numbers, index_column, dtype="bool", direction="EQ")
    rows = b.ew("select", is_indexed, update_column, 0.0, dtype=type_.dtype)
    return b.graph.reshape(rows, type_.shape)
