"""Reductions, windows and sorts, whose functions their bodies define."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import Value
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.ops.reductions import BODIES, ReduceWindow, SelectAndScatter, Sort, neutral
from trnsim.jax.stablehlo import folds, mlir
from trnsim.jax.stablehlo.bodies import extreme_of, function_of, order_of
from trnsim.jax.stablehlo.elementwise import apply_elementwise, in_total_order
from trnsim.jax.stablehlo.mlir import Block, Op, Ssa
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, is_splat, splat_value
from trnsim.jax.stablehlo.shapes import reversed_

_VARIADIC_LIMITS = "of several operands argmax, argmin, and bodies that keep them apart"


def _body_functions(scope: Scope, op: Op) -> list[str]:
    """The name of the function of each operand; [""] for one operand and a body without a name.

    Raises:
        NotModelled: the body mixes its operands.
    """
    try:
        return function_of(scope, op)
    except NotModelled:
        if len(op.operands) > 2:  # noqa: PLR2004  an operand, and where it begins
            raise
        return [""]


@rule("stablehlo.reduce", limits=_VARIADIC_LIMITS)
def reduce(scope: Scope, op: Op) -> Entry:
    """Each operand reduced by its function or body; values with their indices as argmax, argmin."""
    count = len(op.operands) // 2
    dims = mlir.ints(op, "dimensions")
    values, starts = op.operands[:count], op.operands[count:]
    extreme = extreme_of(scope, op) if count == 2 else None  # noqa: PLR2004  values and their numbers
    if extreme:
        _require_neutral_start(scope, op, extreme)
        rule_ = _extreme_and_index if _is_index_operand(op, dims) else _extreme_and_number
        return rule_(scope, op, extreme, dims)
    names = _body_functions(scope, op)
    if names == [""]:
        return folds.reduce_by_body(scope, op, scope.value(values[0]), starts[0])
    results = [
        _with_start(scope, name, scope.graph.reduce(name, scope.value(ssa), dims), start)
        for name, ssa, start in zip(names, values, starts, strict=True)
    ]
    return results[0] if count == 1 else tuple(results)


def _with_start(scope: Scope, name: str, result: Value, start: Ssa) -> Value:
    """A result combined with the start of the reduction, unless that is neutral."""
    if _is_neutral(scope, name, start, result.type.numpy_dtype()):
        return result
    start_value = scope.operand(start)
    if isinstance(start_value, Value):
        start_value = scope.graph.broadcast_in_dim(start_value, result.shape, ())
    combined_value: Value = apply_elementwise(scope, name, result, start_value, dtype=result.dtype)
    return combined_value


def _is_neutral(scope: Scope, name: str, start: Ssa, dtype: np.dtype[Any]) -> bool:
    """True if a start is a constant that leaves every result unchanged."""
    constant = scope.constant_of(start)
    if constant is None or not is_splat(constant):
        return False
    return splat_value(constant) == float(neutral(name, dtype)) or _is_lowest(name, constant)


def _require_neutral_start(scope: Scope, op: Op, name: str) -> None:
    """Refuse argmax or argmin with a start that may be its result.

    Raises:
        NotModelled: for a start other than the lowest number of argmax, the highest of argmin.
    """
    dtype = mlir.tensor_type(op.operands[0].type).numpy_dtype()
    if not _is_neutral(scope, name, op.operands[2], dtype):
        raise NotModelled(
            f"{op.name} of values with their indices whose start is no neutral element of {name}",
            fix=f"start from {neutral(name, dtype)}, and take the {name} with the start afterwards",
        )


def _is_lowest(name: str, numbers: Any) -> bool:
    """True if a maximum starts at -inf, or a minimum at inf."""
    dtype = numbers.dtype
    if dtype.kind in "iub" or name not in ("maximum", "minimum"):
        return False
    return bool(np.isinf(numbers.astype(np.float64)).all()) and (
        (splat_value(numbers) < 0) == (name == "maximum")
    )


def _is_index_operand(op: Op, dims: Sequence[int]) -> bool:
    """True if the second operand has the indices along the one dimension that is reduced."""
    producer = op.operands[1].owner
    name = getattr(producer, "name", "")
    if name == "stablehlo.broadcast_in_dim":
        return _is_repeated_iota(producer, dims)
    is_iota = name == "stablehlo.iota"
    return is_iota and tuple(dims) == (mlir.number(producer, "iota_dimension"),)


def _is_repeated_iota(op: Op, dims: Sequence[int]) -> bool:
    """True if a broadcast repeats an iota along the reduced dimension for the other dimensions."""
    producer = op.operands[0].owner
    if getattr(producer, "name", "") != "stablehlo.iota":
        return False
    broadcast_dims = mlir.ints(op, "broadcast_dimensions")
    return tuple(dims) == (broadcast_dims[mlir.number(producer, "iota_dimension")],)


def _extreme_and_index(scope: Scope, op: Op, name: str, dims: Sequence[int]) -> tuple[Value, Value]:
    """The largest or smallest element, and the lowest index at which it stands."""
    value, (dim,) = scope.value(op.operands[0]), dims
    keys = value
    if name == "minimum" and value.type.is_floating:
        keys = apply_elementwise(scope, "negate", value, dtype=value.dtype)
    elif name == "minimum":  # -x - 1: unlike -x, within the type for all
        keys = apply_elementwise(scope, "not", value, dtype=value.dtype)
    if keys.dtype == "bool":
        keys = scope.b.convert(keys, "int32")
    indices = scope.graph.top_k(move_dim(scope.b, keys, dim, -1), 1)
    shape = tuple(n for d, n in enumerate(value.shape) if d != dim)
    index = scope.b.convert(scope.graph.reshape(indices, shape), scope.result(op, 1).dtype)
    return scope.graph.reduce(name, value, dims), index


def _extreme_and_number(
    scope: Scope, op: Op, name: str, dims: Sequence[int]
) -> tuple[Value, Value]:
    """The largest or smallest element, and the smallest of the numbers that belong to it."""
    graph = scope.graph
    value, number = (scope.value(ssa) for ssa in op.operands[:2])
    extreme = graph.reduce(name, value, dims)
    kept_dims = [dim for dim in range(len(value.shape)) if dim not in dims]
    broadcast_extreme = graph.broadcast_in_dim(extreme, value.shape, kept_dims)
    is_extreme = graph.elementwise("compare", value, broadcast_extreme, direction="EQ")
    if value.type.is_floating:  # of several NaN, the first
        is_nan = graph.elementwise("compare", value, value, direction="NE")
        is_extreme = graph.elementwise("or", is_extreme, is_nan)
    largest_number = float(neutral("minimum", number.type.numpy_dtype()))
    numbers = graph.elementwise("select", is_extreme, number, largest_number, dtype=number.dtype)
    return extreme, graph.reduce("minimum", numbers, dims)


@rule(
    "stablehlo.reduce_window",
    limits="of several operands bodies that keep them apart; other functions in windows that grow",
)
def reduce_window(scope: Scope, op: Op) -> Entry:
    """Each window reduced by its function; windows that grow from one end are running results."""
    count = len(op.operands) // 2
    results = [
        _reduce_windows(scope, op, name, scope.value(ssa), start)
        for name, ssa, start in zip(
            _body_functions(scope, op), op.operands[:count], op.operands[count:], strict=True
        )
    ]
    return results[0] if count == 1 else tuple(results)


def _reduce_windows(scope: Scope, op: Op, name: str, value: Value, start: Ssa) -> Value:
    operation, gaps = _windows(op, name, len(value.shape))
    if not name:
        return _running_by_body(scope, op, value, start)
    if any(gaps):
        filler = float(neutral(name, value.type.numpy_dtype()))
        zeros = (0,) * len(gaps)
        value = scope.graph.pad(value, zeros, zeros, gaps, filler)
    dim = _grows_along(operation, value.shape)
    if dim is None:
        return _with_start(scope, name, scope.graph.apply(operation, value), start)
    running_results = _running_results(scope, name, value, dim, is_backward=operation.low[dim] == 0)
    return _with_start(scope, name, running_results, start)


def _windows(op: Op, name: str, rank: int) -> tuple[ReduceWindow, list[int]]:
    """The windows of an operation, and the padding between the elements of its operand."""
    ones = (1,) * rank
    sides = mlir.matrix(op, "padding") or [[0, 0]] * rank
    low, high = (tuple(side[at] for side in sides) for at in (0, 1))
    steps, dilations = (mlir.ints(op, f"window_{word}", ones) for word in ("strides", "dilations"))
    lengths = mlir.ints(op, "window_dimensions")
    gaps = [gap - 1 for gap in mlir.ints(op, "base_dilations", ones)]
    return ReduceWindow(lengths, steps, low, high, name or "add", dilations), gaps


def _running_by_body(scope: Scope, op: Op, value: Value, start: Ssa) -> Value:
    """Running results by a body that has no name.

    Raises:
        NotModelled: for other windows.
    """
    operation, gaps = _windows(op, "", len(value.shape))
    is_one_element = {*operation.lengths, *operation.strides} == {1}
    if is_one_element and not any((*gaps, *operation.low, *operation.high)):
        return folds.combine_with_start(scope, op, value, start)
    dim = None if any(gaps) else _grows_along(operation, value.shape)
    if dim is None:
        raise NotModelled(
            f"{op.name} with a body that is none of {', '.join(BODIES)}",
            fix="reduce windows by one of these",
        )
    is_backward = operation.low[dim] == 0
    return folds.scan_by_body(scope, op, value, start, dim, is_backward=is_backward)


def _grows_along(op: ReduceWindow, shape: Sequence[int]) -> int | None:
    """The dimension along which windows reach from each element to the same end, or None."""
    dims = [dim for dim, n in enumerate(op.lengths) if n > 1]
    if {*op.strides, *op.dilations} != {1} or len(dims) != 1:
        return None
    (dim,) = dims
    is_one_sided = {op.low[dim], op.high[dim]} == {0, shape[dim] - 1}
    other_paddings = [n for side in (op.low, op.high) for d, n in enumerate(side) if d != dim]
    return (
        dim if is_one_sided and op.lengths[dim] == shape[dim] and not any(other_paddings) else None
    )


def _running_results(
    scope: Scope, name: str, value: Value, dim: int, *, is_backward: bool
) -> Value:
    """Running results along a dimension, from its first or its last element."""
    row = move_dim(scope.b, value, dim, -1)
    last_dims = [len(row.shape) - 1]
    if is_backward:
        row = reversed_(scope, row, last_dims)
    results = scope.graph.scan(name, row)
    if is_backward:
        results = reversed_(scope, results, last_dims)
    rank = len(value.shape)
    order = [d if d < dim else rank - 1 if d == dim else d - 1 for d in range(rank)]
    return scope.graph.transpose(results, order)


@rule("stablehlo.select_and_scatter", limits="selected by GE or LE, scattered by addition, from 0")
def select_and_scatter(scope: Scope, op: Op) -> Entry:
    """Each source added at the first largest or smallest element of its window."""
    value, source = (scope.value(ssa) for ssa in op.operands[:2])
    select_block, scatter_block = (region.blocks[0] for region in op.regions)
    extreme = _selected_extreme(select_block)
    if extreme is None or not _is_addition(scatter_block):
        raise NotModelled(
            f"{op.name} with other bodies than GE or LE of both arguments in order, and their sum",
            fix="select the largest by GE, or the smallest by LE, and add sources",
        )
    ones = (1,) * len(value.shape)
    sides = mlir.matrix(op, "padding") or [[0, 0]] * len(value.shape)
    operation = SelectAndScatter(
        mlir.ints(op, "window_dimensions", ones),
        mlir.ints(op, "window_strides", ones),
        tuple(low for low, _ in sides),
        tuple(high for _, high in sides),
        extreme,
    )
    scattered_value = scope.graph.apply(operation, value, source)
    return _with_start(scope, "add", scattered_value, op.operands[2])


def _selected_extreme(block: Block) -> str | None:
    """The extreme that a body selects, the first of equal elements; None for another body."""
    comparison = _only_operation(block)
    if comparison is None or comparison.name != "stablehlo.compare":
        return None
    if list(comparison.operands) != list(block.arguments):
        return None
    extremes = {"GE": "maximum", "LE": "minimum"}
    return extremes.get(mlir.symbol(comparison, "comparison_direction"))


def _is_addition(block: Block) -> bool:
    """True for a body that returns the sum of its two arguments."""
    addition = _only_operation(block)
    if addition is None or addition.name != "stablehlo.add":
        return False
    return list(block.arguments) in (list(addition.operands), list(addition.operands)[::-1])


def _only_operation(block: Block) -> Op | None:
    """The operation whose result a body returns; None for a body of more operations."""
    operations = [view.operation for view in block.operations]
    if len(operations) != 2 or list(operations[0].results) != list(operations[1].operands):  # noqa: PLR2004  it, and the return
        return None
    return operations[0]


@rule("stablehlo.sort", limits="by LT, LE, GT or GE of the first operands in turn")
def sort(scope: Scope, op: Op) -> Entry:
    """All operands in the order of the keys: sorted stably by each, from the last to the first."""
    order = order_of(scope, op)
    shape = mlir.shape_of(op.operands[0].type)
    dim = mlir.number(op, "dimension", -1) % len(shape)
    values = [scope.value(ssa) for ssa in op.operands]
    if shape[dim] > 1:
        is_stable = mlir.flag(op, "is_stable") or order.keys > 1
        operation = Sort(dim, order.is_descending, is_stable)
        for key in reversed(range(order.keys)):
            first = in_total_order(scope, values[key]) if order.is_total else values[key]
            is_own_key = first is values[key]
            operands = [*values[:key], *values[key + 1 :]] if is_own_key else values
            keys, *values = scope.graph.apply_to_all(operation, [first, *operands])
            if is_own_key:
                values.insert(key, keys)
    return values[0] if len(values) == 1 else tuple(values)


def top_k(scope: Scope, value: Value, k: int) -> tuple[Value, Value]:
    """The k largest elements of each last dimension, and their indices."""
    indices = scope.graph.top_k(value, k)
    return scope.graph.gather_in_rows(value, indices), indices
