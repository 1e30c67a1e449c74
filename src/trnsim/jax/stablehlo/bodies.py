"""What the body of a reduction, a scatter or a sort does: found by running it on a few numbers.

A body is a program of scalars. It is imported as a graph and run by the graph's references, on all
pairs of numbers that tell the functions apart which the graph knows.
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
from trnsim.graph.types import Array, TensorType, exact, stored
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Block, Op
from trnsim.jax.stablehlo.scope import Scope, is_one

_FLOATS: Final = (-np.inf, -2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.inf, np.nan)
_WHOLE: Final = (0, 1, 2, 3, 5, 100)
_NEGATIVE: Final = (-1, -2, -100)


@cache
def samples(dtype: str) -> Array:
    """Numbers of a type that tell functions apart."""
    wanted = TensorType((), dtype)
    if wanted.is_floating:
        found = stored(np.array(_FLOATS), dtype)
        held = found.astype(np.float64)
        is_exact = np.isnan(held) | np.isin(held, _FLOATS)
        return np.asarray(found[is_exact])
    if dtype == "bool":
        return np.array([False, True])
    signed = () if dtype.startswith("u") else _NEGATIVE
    return np.array((*signed, *_WHOLE)).astype(dtype)


def run(scope: Scope, block: Block, given: Sequence[Array]) -> list[Array]:
    """What a body gives of numbers, all pairs at once."""
    apart = Scope(scope.into.another(), scope)
    inputs = [apart.graph.input(one.shape, one.dtype.name) for one in given]
    found = apart.run(block, inputs)
    apart.graph.outputs = [apart.tensor(one) for one in found]
    with np.errstate(all="ignore"):
        made = apart.graph.reference([*given, *apart.into.constants.values()])
    shape = given[0].shape
    return [np.broadcast_to(one, shape) for one in made]


def pairs(dtypes: Sequence[str]) -> tuple[list[Array], list[Array]]:
    """All pairs of numbers of each type, for the left and the right arguments."""
    each = [range(len(samples(dtype))) for dtype in dtypes]
    places = list(product(product(*each), repeat=2))
    sides = [
        [samples(dtype)[[place[side][at] for place in places]] for at, dtype in enumerate(dtypes)]
        for side in (0, 1)
    ]
    return sides[0], sides[1]


def function_of(scope: Scope, op: Op, allowed: Sequence[str] = tuple(BODIES)) -> list[str]:
    """The function of two numbers that a body is, for each of its results apart.

    Raises:
        NotModelled: it is none of those allowed, or it mixes its operands.
    """
    block = op.regions[0].blocks[0]
    dtypes = _types(block)
    count = len(dtypes) // 2
    found = list[str]()
    for place, dtype in enumerate(dtypes[:count]):
        left, right = pairs([dtype])
        given = [_filler(other, len(left[0])) for other in dtypes]
        given[place], given[place + count] = left[0], right[0]
        (numbers,) = run(scope, block, given)[place : place + 1]
        found.append(_named(numbers, left[0], right[0], allowed, op.name))
    if count > 1:
        _check_apart(scope, block, dtypes, op.name)
    return found


def _types(block: Block) -> list[str]:
    return [mlir.tensor_type(one.type).dtype for one in block.arguments]


def _filler(dtype: str, count: int, side: int = 0) -> Array:
    found = samples(dtype)
    return np.broadcast_to(found[-2 if side == 0 else len(found) // 2], (count,)).copy()


def _named(numbers: Array, left: Array, right: Array, allowed: Sequence[str], name: str) -> str:
    extremes_first = sorted(allowed, key=lambda one: one not in _EXTREMES)
    for one in extremes_first if left.dtype == np.bool_ else allowed:
        with np.errstate(all="ignore"):
            wanted = _FUNCTIONS[one](exact(left), exact(right))
        if same(numbers, stored(np.asarray(wanted), numbers.dtype.name)):
            return one
    raise NotModelled(
        f"{name} with a body that is none of {', '.join(allowed)}",
        fix="reduce by one of these",
    )


def _check_apart(scope: Scope, block: Block, dtypes: Sequence[str], name: str) -> None:
    """No result depends on the operands of another."""
    count = len(dtypes) // 2
    for place in range(count):
        left, right = pairs([dtypes[place]])
        # What comes from the left differs from what comes from the right, so that a choice shows.
        given = [_filler(one, len(left[0]), at // count) for at, one in enumerate(dtypes)]
        given[place], given[place + count] = left[0], right[0]
        others = [one for at, one in enumerate(run(scope, block, given)) if at != place]
        if not all(is_one(one) or same(one, np.broadcast_to(one[:1], one.shape)) for one in others):
            raise NotModelled(
                f"{name} whose body mixes its {count} operands",
                fix="reduce each by itself; the largest element's place is argmax",
                source="aws-neuron-sdk jax-neuronx-known-issues.rst, variadic reductions",
            )


def same(found: Array, wanted: Array) -> bool:
    """Whether numbers are equal, NaN to NaN."""
    ours, theirs = exact(np.asarray(found)), exact(np.asarray(wanted))
    return bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"))


def _second(left: Array, right: Array) -> Array:
    del left
    return right


_EXTREMES: Final = ("maximum", "minimum")
"""Of truth values `or` and `and`, which engines have as these."""
_FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {**BODIES, "assign": _second}


def extreme_of(scope: Scope, op: Op) -> str:
    """Whether a body of values and places finds the largest or the smallest: maximum or minimum.

    Of equal ones the first place, and NaN before all numbers.

    Raises:
        NotModelled: it does something else.
    """
    block = op.regions[0].blocks[0]
    dtypes = _types(block)
    left, right = pairs([dtypes[0], dtypes[1]])
    found = run(scope, block, [*left, *right])
    for name in ("maximum", "minimum"):
        wanted = _extremes(name, *left, *right)
        if all(same(one, other) for one, other in zip(found, wanted, strict=True)):
            return name
    raise NotModelled(
        f"{op.name} of two operands whose body is neither argmax nor argmin",
        fix="reduce each by itself",
        source="aws-neuron-sdk jax-neuronx-known-issues.rst, variadic reductions",
    )


def _extremes(
    name: str, left: Array, place: Array, right: Array, other: Array
) -> tuple[Array, Array]:
    """The value and the place that argmax or argmin keeps of two."""
    one, two = exact(left), exact(right)
    is_nan = np.isnan(one) if one.dtype.kind == "f" else np.zeros(one.shape, np.bool_)
    better = one > two if name == "maximum" else one < two
    is_left = better | is_nan
    equal = (one == two) & ~is_nan
    is_first = is_left | (equal & (place < other))
    return np.where(is_left, left, right), np.where(is_first, place, other)


@dataclass(frozen=True, slots=True)
class Order:
    """How a body sorts.

    Attributes:
        keys: by how many operands, the first ones.
        is_descending: whether the largest comes first.
        is_total: whether floating point is ordered by its bits, so that -0 comes before 0.
    """

    keys: int
    is_descending: bool
    is_total: bool


def order_of(scope: Scope, op: Op) -> Order:
    """How a body sorts.

    Raises:
        NotModelled: by something else than its first operands.
    """
    block = op.regions[0].blocks[0]
    dtypes = _types(block)[::2]
    shown = dtypes[:_KEYS]
    left, right = pairs(shown)
    given = list[Array]()
    for place, dtype in enumerate(dtypes):
        is_key = place < len(shown)
        given += [left[place], right[place]] if is_key else [_filler(dtype, len(left[0]))] * 2
    (found,) = run(scope, block, given)
    is_number = ~np.any([_is_nan(one) for one in (*left, *right)], axis=0)
    for keys, rank in product(range(1, len(shown) + 1), (_ranked, _by_bits, _as_compared)):
        first, second = ([rank(one) for one in side[:keys]] for side in (left, right))
        up, down = (_before(first, second, is_descending=way) for way in (False, True))
        # Of equal ones LE says what LT does not; to compare NaN with a number is no order.
        judged = is_number if rank is _as_compared else np.ones_like(is_number)
        differ, alike = judged & (up | down), judged & ~(up | down)
        for is_descending, wanted in ((False, up), (True, down)):
            if same(found[differ], wanted[differ]) and len({*found[alike].tolist()}) <= 1:
                return Order(keys, is_descending, rank is _by_bits)
    raise NotModelled(
        f"{op.name} whose body is no order by its first operands",
        fix="sort by LT, LE, GT or GE of the operands in turn",
        source="aws-neuron-sdk jax-neuronx-known-issues.rst, sort",
    )


_KEYS: Final = 2
"""Operands of whose numbers all pairs are tried."""


def _before(left: Sequence[Array], right: Sequence[Array], *, is_descending: bool) -> Array:
    """Whether the left numbers come before the right ones, by the first that differs."""
    is_before = np.zeros(left[0].shape, np.bool_)
    for one, other in reversed(list(zip(left, right, strict=True))):
        sooner = one > other if is_descending else one < other
        is_before = sooner | ((one == other) & is_before)
    return is_before


def _ranked(numbers: Array) -> Array:
    """Numbers in their order, NaN behind infinity, as `Sort` has them."""
    wide = numbers.astype(np.float64)
    order = np.unique(wide[~np.isnan(wide)])
    return np.where(np.isnan(wide), len(order), np.searchsorted(order, wide))


def _by_bits(numbers: Array) -> Array:
    """Numbers in the order of their bits, -0 before 0."""
    wide = numbers.astype(np.float64)
    is_minus = np.signbit(wide) & (wide == 0)
    return np.asarray(_ranked(numbers) * 2 - is_minus)


def _is_nan(numbers: Array) -> Array:
    """Which numbers are none."""
    return np.asarray(np.isnan(numbers.astype(np.float64)))


def _as_compared(numbers: Array) -> Array:
    """Numbers as a comparison takes them: NaN is neither more nor less."""
    return np.asarray(exact(numbers))
