"""Slices read and written at indices."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir.dialects import stablehlo as dialect

from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import BODIES
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.bodies import function_of
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, is_one, number_of


@rule("stablehlo.gather")
def gather(scope: Scope, op: Op) -> Entry:
    """Slices at indices, moved inside where they are beyond."""
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
    """Updates at indices, left out where they are beyond; each operand by its own function."""
    count = len(op.operands) // 2
    values, indices, updates = op.operands[:count], op.operands[count], op.operands[count + 1 :]
    names = function_of(scope, op, (*BODIES, "assign"))
    found = [
        _scattered(scope, op, name, value, indices, update)
        for name, value, update in zip(names, values, updates, strict=True)
    ]
    return found[0] if count == 1 else tuple(found)


def _scattered(scope: Scope, op: Op, name: str, value: Any, indices: Any, update: Any) -> Entry:
    known = scope.known(value)
    is_zero = known is not None and is_one(known) and known.size and number_of(known) == 0.0
    numbers = dialect.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    operation = Scatter(
        mlir.tensor_type(value.type) if is_zero else None,
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
    operands += [] if is_zero else [scope.value(value)]
    return scope.graph.apply(operation, *operands)
