"""Unsigned 64-bit integers, in which JAX numbers the elements of random tensors, as two words.

A NeuronCore has no such integers. JAX splits the numbers into words of 32 bits; for a number that
is known to stay below 2**32 the low word is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import TensorType, Value
from trnsim.jax.stablehlo.scope import Scope

_WORD_BITS: Final = 32
_WORD_VALUES: Final = 2**_WORD_BITS
"""Number of values of a word, which is the first integer that it cannot hold."""
_SOURCE: Final = "nki.api.shared.rst, Supported Data Types"


@dataclass(frozen=True, slots=True)
class Wide:
    """Integers of 64 bits, as words of 32.

    Attributes:
        low: the low words, uint32.
        high: the high words, uint32; None if all high words are 0.
        bound: an upper bound: all integers are less than it.
    """

    low: Value
    high: Value | None = None
    bound: int = 2**64

    def words(self, scope: Scope) -> Value:
        """Both words of each integer in a new last dimension, the low word first."""
        graph, shape = scope.graph, self.low.shape
        zeros = TensorType(shape, "uint32")
        high = graph.constant(0.0, zeros) if self.high is None else self.high
        return graph.concatenate(
            [graph.reshape(word, (*shape, 1)) for word in (self.low, high)], len(shape)
        )


def from_words(scope: Scope, words: Value) -> Wide:
    """Integers of 64 bits from both words of each, uint32, in the last dimension."""
    graph, shape = scope.graph, words.shape[:-1]
    zeros = [0] * len(shape)
    low, high = (
        graph.reshape(graph.slice(words, (*zeros, at), (*shape, 1)), shape) for at in (0, 1)
    )
    return Wide(low, high)


def wide_iota(scope: Scope, shape: Sequence[int], dim: int) -> Wide:
    """Each element's index along a dimension."""
    indices = scope.graph.elementwise("convert", scope.graph.iota(shape, dim), dtype="uint32")
    return Wide(indices, None, max(shape[dim], 1))


def reshape_wide(wide: Wide, change: Callable[[Value], Value]) -> Wide:
    """The same integers in another shape."""
    high = None if wide.high is None else change(wide.high)
    return Wide(change(wide.low), high, wide.bound)


def wide_operation(scope: Scope, name: str, entries: Sequence[Any]) -> Any:
    """An operation on integers of 64 bits.

    Raises:
        NotModelled: for operations that JAX does not use to number random elements.
    """
    build = _OPERATIONS.get(name)
    if build is None:
        raise NotModelled(
            f"{name} of integers of 64 bits; a NeuronCore has 32 at most",
            fix="compute in uint32 or int32",
            source=_SOURCE,
        )
    return build(scope, *entries)


def _add(scope: Scope, lhs: Any, rhs: Any) -> Wide:
    (left, left_bound), (right, right_bound) = _low_words(lhs), _low_words(rhs)
    return _low_word_result(scope, "add", left, right, left_bound + right_bound - 1)


def _multiply(scope: Scope, lhs: Any, rhs: Any) -> Wide:
    (left, left_bound), (right, right_bound) = _low_words(lhs), _low_words(rhs)
    bound = (left_bound - 1) * (right_bound - 1) + 1
    return _low_word_result(scope, "multiply", left, right, bound)


def _low_word_result(scope: Scope, name: str, lhs: Any, rhs: Any, bound: int) -> Wide:
    if bound > _WORD_VALUES:
        raise NotModelled(f"{name} of integers of 64 bits that may reach 2**32", source=_SOURCE)
    return Wide(scope.graph.elementwise(name, lhs, rhs, dtype="uint32"), None, bound)


def _low_words(entry: Any) -> tuple[Any, int]:
    """The low words of integers below 2**32, as a tensor or a number, and their upper bound."""
    if isinstance(entry, Wide) and entry.high is None:
        return entry.low, entry.bound
    if isinstance(entry, np.ndarray) and not any(entry.strides):
        number = int(entry.flat[0])
        if number < _WORD_VALUES:
            return float(number), number + 1
    raise NotModelled("integers of 64 bits that may reach 2**32", source=_SOURCE)


def _shift_right_logical(scope: Scope, lhs: Any, rhs: Any) -> Wide:
    places = int(rhs.flat[0]) if isinstance(rhs, np.ndarray) and not any(rhs.strides) else -1
    if not isinstance(lhs, Wide) or places != _WORD_BITS:
        raise NotModelled("shift of integers of 64 bits but by 32 places", source=_SOURCE)
    if lhs.high is not None:
        return Wide(lhs.high, None, _WORD_VALUES)
    return Wide(scope.graph.constant(0.0, TensorType(lhs.low.shape, "uint32")), None, 1)


def _to_uint32(scope: Scope, entry: Any) -> Value:
    del scope
    low: Value = entry.low
    return low


def _to_uint64(scope: Scope, entry: Any) -> Wide:
    if isinstance(entry, Wide):
        return entry
    value = scope.tensor(entry)
    if value.dtype not in ("uint32", "uint8", "bool"):
        raise NotModelled(f"{value.type} as integers of 64 bits", source=_SOURCE)
    return Wide(scope.graph.elementwise("convert", value, dtype="uint32"), None, _WORD_VALUES)


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": _add,
    "multiply": _multiply,
    "shift_right_logical": _shift_right_logical,
    "to uint32": _to_uint32,
    "to uint64": _to_uint64,
}
