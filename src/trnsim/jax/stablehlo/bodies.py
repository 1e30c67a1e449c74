"""Functions of the bodies of reductions, scatters and sorts, recognised by running them.

A body is a program of scalars. It is imported as a graph and run by the graph's references on all
pairs of a few numbers, on which the functions that the graph has differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph.ops.reductions import BODIES
from trnsim.graph.types import Array, TensorType, round_to_dtype, widen
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Block, Op
from trnsim.jax.stablehlo.scope import Scope, is_splat

_SAMPLE_FLOATS: Final = (-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan)
_SAMPLE_INTEGERS: Final = (0, 1, 2, 3, 5, 100)
_NEGATIVE_SAMPLE_INTEGERS: Final = (-1, -2, -100)


@cache
def samples(dtype: str) -> Array:
    """Numbers of a dtype on whose pairs the functions of `BODIES` differ."""
    type_ = TensorType((), dtype)
    if type_.is_floating:
        numbers = round_to_dtype(np.array(_SAMPLE_FLOATS), dtype)
        doubles = numbers.astype(np.float64)
        is_exact = np.isnan(doubles) | np.isin(doubles, _SAMPLE_FLOATS)
        return np.asarray(numbers[is_exact])
    if dtype == "bool":
        return np.array([False, True])
    negative_samples = () if dtype.startswith("u") else _NEGATIVE_SAMPLE_INTEGERS
    return np.array((*negative_samples, *_SAMPLE_INTEGERS)).astype(dtype)


def run_body(scope: Scope, block: Block, arguments: Sequence[Array]) -> list[Array]:
    """The results of a body on arrays of numbers, element by element."""
    scratch = Scope(scope.target.empty_target(), scope)
    inputs = [scratch.graph.input(array.shape, array.dtype.name) for array in arguments]
    results = scratch.run(block, inputs)
    scratch.graph.outputs = [scratch.tensor(result) for result in results]
    with np.errstate(all="ignore"):
        arrays = scratch.graph.reference([*arguments, *scratch.target.constants.values()])
    shape = arguments[0].shape
    return [np.broadcast_to(array, shape) for array in arrays]


def sample_pairs(dtypes: Sequence[str]) -> tuple[list[Array], list[Array]]:
    """The left and the right arguments of a body: all pairs of combinations of sample numbers."""
    indices = [range(len(samples(dtype))) for dtype in dtypes]
    combinations = list(product(product(*indices), repeat=2))
    sides = [
        [
            samples(dtype)[[combination[side][operand] for combination in combinations]]
            for operand, dtype in enumerate(dtypes)
        ]
        for side in (0, 1)
    ]
    return sides[0], sides[1]


def function_of(scope: Scope, op: Op, legal_names: Sequence[str] = tuple(BODIES)) -> list[str]:
    """The name of the function of two numbers that a body computes, for each of its results.

    Raises:
        NotModelled: the body is no allowed function, or it mixes its operands.
    """
    block = op.regions[0].blocks[0]
    dtypes = _argument_dtypes(block)
    count = len(dtypes) // 2
    functions = list[str]()
    for index, dtype in enumerate(dtypes[:count]):
        left, right = sample_pairs([dtype])
        arguments = [_filler(filler_dtype, len(left[0])) for filler_dtype in dtypes]
        arguments[index], arguments[index + count] = left[0], right[0]
        numbers = run_body(scope, block, arguments)[index]
        functions.append(_function_name(numbers, left[0], right[0], legal_names, op.name))
    if count > 1:
        _check_independent(scope, block, dtypes, op.name)
    return functions


def _argument_dtypes(block: Block) -> list[str]:
    return [mlir.tensor_type(argument.type).dtype for argument in block.arguments]


def _filler(dtype: str, count: int, side: int = 0) -> Array:
    """A sample number, repeated `count` times; the numbers of the two sides differ."""
    numbers = samples(dtype)
    return np.broadcast_to(numbers[-2 if side == 0 else len(numbers) // 2], (count,)).copy()


def _function_name(
    numbers: Array, left: Array, right: Array, legal_names: Sequence[str], name: str
) -> str:
    """The allowed function that gives `numbers` for the left and the right arguments.

    Raises:
        NotModelled: there is none; `name` is the operation.
    """
    extremes_first = sorted(legal_names, key=lambda function: function not in _EXTREMES)
    for function in extremes_first if left.dtype == np.bool_ else legal_names:
        with np.errstate(all="ignore"):
            expected = _FUNCTIONS[function](widen(left), widen(right))
        if is_equal(numbers, round_to_dtype(np.asarray(expected), numbers.dtype.name)):
            return function
    raise NotModelled(
        f"{name} with a body that is none of {', '.join(legal_names)}", fix="reduce by one of these"
    )


def _check_independent(scope: Scope, block: Block, dtypes: Sequence[str], name: str) -> None:
    """Refuse a body of which a result depends on the operands of another result."""
    count = len(dtypes) // 2
    for index in range(count):
        left, right = sample_pairs([dtypes[index]])
        # Fillers on the left differ from those on the right, so that a choice between them shows.
        arguments = [
            _filler(dtype, len(left[0]), position // count) for position, dtype in enumerate(dtypes)
        ]
        arguments[index], arguments[index + count] = left[0], right[0]
        results = [
            result
            for position, result in enumerate(run_body(scope, block, arguments))
            if position != index
        ]
        if not all(
            is_splat(result) or is_equal(result, np.broadcast_to(result[:1], result.shape))
            for result in results
        ):
            raise NotModelled(
                f"{name} whose body mixes its {count} operands",
                fix="reduce each by itself; the largest element's place is argmax",
                source="aws-neuron-sdk jax-neuronx-known-issues.rst, variadic reductions",
            )


def is_equal(numbers: Array, expected: Array) -> bool:
    """True if numbers are equal, NaN to NaN."""
    left, right = widen(np.asarray(numbers)), widen(np.asarray(expected))
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))


_EXTREMES: Final = ("maximum", "minimum")
"""Functions that are `or` and `and` of booleans; engines have them under these names."""
_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **BODIES,
    "assign": lambda _, right: right,
}


def extreme_of(scope: Scope, op: Op) -> str | None:
    """The extreme, "maximum" or "minimum", whose value and index a body keeps; else None.

    A body of argmax or argmin keeps the lower index of equal values, and NaN before all numbers.
    """
    block = op.regions[0].blocks[0]
    dtypes = _argument_dtypes(block)
    left, right = sample_pairs([dtypes[0], dtypes[1]])
    results = run_body(scope, block, [*left, *right])
    for name in ("maximum", "minimum"):
        expected = _extreme_and_index(name, *left, *right)
        if all(map(is_equal, results, expected)):
            return name
    return None


def _extreme_and_index(
    name: str, left: Array, left_index: Array, right: Array, right_index: Array
) -> tuple[Array, Array]:
    """The value and the index that argmax or argmin keeps of two pairs."""
    first, second = widen(left), widen(right)
    is_nan = np.isnan(first) if first.dtype.kind == "f" else np.zeros(first.shape, np.bool_)
    is_better = first > second if name == "maximum" else first < second
    is_left = is_better | is_nan
    is_equal_number = (first == second) & ~is_nan
    is_first = is_left | (is_equal_number & (left_index < right_index))
    return np.where(is_left, left, right), np.where(is_first, left_index, right_index)


@dataclass(frozen=True, slots=True)
class Order:
    """The order by which a body sorts.

    Attributes:
        keys: the number of leading operands that it compares.
        is_descending: True if the largest comes first.
        is_total: True if floating point is ordered by its bits, so that -0 comes before 0.
    """

    keys: int
    is_descending: bool
    is_total: bool


def order_of(scope: Scope, op: Op) -> Order:
    """The order by which a body sorts.

    Raises:
        NotModelled: the body compares other values than its first operands.
    """
    block = op.regions[0].blocks[0]
    dtypes = _argument_dtypes(block)[::2]
    key_dtypes = dtypes[:_MOST_KEYS]
    left, right = sample_pairs(key_dtypes)
    arguments = list[Array]()
    for index, dtype in enumerate(dtypes):
        is_key = index < len(key_dtypes)
        arguments += [left[index], right[index]] if is_key else [_filler(dtype, len(left[0]))] * 2
    (is_before,) = run_body(scope, block, arguments)
    is_number = ~np.any([_is_nan(numbers) for numbers in (*left, *right)], axis=0)
    for key_count, ranks in product(
        range(1, len(key_dtypes) + 1), (_ranks, _ranks_by_bits, _compared_numbers)
    ):
        first, second = ([ranks(numbers) for numbers in side[:key_count]] for side in (left, right))
        is_ascending, is_descending_order = (
            _is_before(first, second, is_descending=is_down) for is_down in (False, True)
        )
        # LE and LT differ on equal keys, and both are an order; a comparison with NaN is none.
        is_judged = is_number if ranks is _compared_numbers else np.ones_like(is_number)
        is_ordered, is_tied = (
            is_judged & (is_ascending | is_descending_order),
            is_judged & ~(is_ascending | is_descending_order),
        )
        for is_descending, expected in ((False, is_ascending), (True, is_descending_order)):
            if (
                is_equal(is_before[is_ordered], expected[is_ordered])
                and len({*is_before[is_tied].tolist()}) <= 1
            ):
                return Order(key_count, is_descending, ranks is _ranks_by_bits)
    raise NotModelled(
        f"{op.name} whose body is no order by its first operands",
        fix="sort by LT, LE, GT or GE of the operands in turn",
        source="aws-neuron-sdk jax-neuronx-known-issues.rst, sort",
    )


_MOST_KEYS: Final = 2
"""Keys that are recognised at most: all pairs of their numbers are tried."""


def _is_before(left: Sequence[Array], right: Sequence[Array], *, is_descending: bool) -> Array:
    """True where the left numbers come before the right numbers, by the first unequal key."""
    is_before = np.zeros(left[0].shape, np.bool_)
    for first, second in reversed(list(zip(left, right, strict=True))):
        is_sooner = first > second if is_descending else first < second
        is_before = is_sooner | ((first == second) & is_before)
    return is_before


def _ranks(numbers: Array) -> Array:
    """The rank of each number, NaN behind infinity, as `Sort` orders them."""
    values = numbers.astype(np.float64)
    order = np.unique(values[~np.isnan(values)])
    return np.where(np.isnan(values), len(order), np.searchsorted(order, values))


def _ranks_by_bits(numbers: Array) -> Array:
    """The rank of each number by its bits, -0 before 0."""
    values = numbers.astype(np.float64)
    is_minus = np.signbit(values) & (values == 0)
    return np.asarray(_ranks(numbers) * 2 - is_minus)


def _is_nan(numbers: Array) -> Array:
    """True where a number is NaN."""
    return np.asarray(np.isnan(numbers.astype(np.float64)))


def _compared_numbers(numbers: Array) -> Array:
    """Numbers as a comparison takes them: NaN is neither greater nor less than any."""
    return np.asarray(widen(numbers))
