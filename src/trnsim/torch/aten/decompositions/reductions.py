"""Sums, means, extremes, norms and moments over any dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.types import BOOL
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

Dims = int | Sequence[int] | None


def _dims(x: Value, dim: Dims) -> list[int]:
    """The dimensions to reduce, as non-negative indices: all if none is named."""
    rank = len(x.shape)
    if dim is None or not rank or (not isinstance(dim, int) and not len(dim)):
        return list(range(rank))
    return [axis % rank for axis in ([dim] if isinstance(dim, int) else dim)]


def _reduction(op: str) -> Decomposition:
    def build(b: Build, x: Value, dim: Dims | Value = None, keepdim: bool = False, **_: Any) -> Any:
        if isinstance(dim, Value):  # torch.max(x, y)
            return b.as_result(b.ew(op, x, dim))
        if len(b.result_types) > 1:
            position = _extreme_index(b, op, x, dim if isinstance(dim, int) else 0)
            extremes = b.reduce(op, x, _dims(x, dim))
            return b.as_reshaped_result(extremes), b.as_reshaped_result(position, 1)
        x = _elements_to_reduce(b, x)
        return b.as_result(
            b.reduce(op, b.convert(x, _sum_dtype(x)), _dims(x, dim), keeps_dims=keepdim)
        )

    return build


def _elements_to_reduce(b: Build, x: Value) -> Value:
    """The elements to reduce: truncated for an integer result, 0 or 1 for a boolean result."""
    result = b.result_types[0]
    if result.dtype == BOOL and x.dtype != BOOL:
        return _nonzero(b, x)
    is_cut = x.type.is_floating and not result.is_floating
    return b.ew("trunc", x) if is_cut else x


def _sum_dtype(x: Value) -> str:
    """The dtype in which elements are summed: float32 for booleans and integers."""
    return x.dtype if "float" in x.dtype else "float32"


def mean(b: Build, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    """The sum divided by the number of elements."""
    dims = _dims(x, dim)
    sums = b.reduce("add", x, dims, keeps_dims=keepdim)
    return b.as_result(b.ew("multiply", sums, 1 / max(prod(x.shape[d] for d in dims), 1)))


def variance(b: Build, x: Value, dims: list[int], correction: float) -> Value:
    """The mean squared distance from the mean, dimensions kept; NaN without degrees of freedom."""
    x, count = _with_wide_range(b, x), prod(x.shape[d] for d in dims)
    means = b.ew("multiply", b.reduce("add", x, dims, keeps_dims=True), 1 / count)
    squares = b.ew("square", b.ew("subtract", x, means))
    sums = b.reduce("add", squares, dims, keeps_dims=True)
    freedom = count - correction
    return b.ew("multiply", sums, 1 / freedom if freedom > 0 else math.inf)


def var(b: Build, x: Value, *args: Any, **kwargs: Any) -> Value:
    """The variance."""
    return b.as_reshaped_result(variance(b, x, *_variance_options(x, *args, **kwargs)))


def _variance_options(
    x: Value,
    dim: Dims = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[list[int], float]:
    """The dimensions of a variance, and the correction: subtracted from the number of elements."""
    del keepdim
    return _dims(x, dim), unbiased if correction is None else correction


def std(b: Build, x: Value, *args: Any, **kwargs: Any) -> Value:
    """The square root of the variance; the variance itself (infinite or NaN) without freedom."""
    dims, correction = _variance_options(x, *args, **kwargs)
    square = variance(b, x, dims, correction)
    has_freedom = prod(x.shape[d] for d in dims) > correction
    return b.as_reshaped_result(b.ew("sqrt", square) if has_freedom else square)


def norm(
    b: Build, x: Value, p: float | None = 2, dim: Dims = None, keepdim: bool = False, **_: Any
) -> Value:
    """The norm of any order; of order 0, the number of non-zero elements."""
    return b.as_result(
        p_norm(b, x, 2.0 if p is None else float(p), _dims(x, dim), keeps_dims=keepdim)
    )


def p_norm(
    b: Build, x: Value, order: float, dims: Sequence[int], *, keeps_dims: bool = False
) -> Value:
    """The norm of an order over dimensions."""
    x = _with_wide_range(b, x)
    if order == 2:  # noqa: PLR2004  the Euclidean norm
        return b.ew("sqrt", b.reduce("add", b.ew("square", x), dims, keeps_dims=keeps_dims))
    if order == 0:
        return b.reduce("add", _nonzero(b, x), dims, keeps_dims=keeps_dims)
    magnitudes = b.ew("abs", x)
    if order == 1:
        return b.reduce("add", magnitudes, dims, keeps_dims=keeps_dims)
    if math.isinf(order):
        return b.reduce(
            "maximum" if order > 0 else "minimum", magnitudes, dims, keeps_dims=keeps_dims
        )
    sums = b.reduce("add", b.ew("power", magnitudes, order), dims, keeps_dims=keeps_dims)
    return b.ew("power", sums, 1 / order)


def _with_wide_range(b: Build, x: Value) -> Value:
    """`x`, but float16 in float32, as its squares overflow."""
    return b.convert(x, "float32") if x.dtype == "float16" else x


def _nonzero(b: Build, x: Value) -> Value:
    """1 where an element is not zero, else 0."""
    return b.ew("compare", x, 0.0, dtype="float32", direction="NE")


def _nonzero_reduction(op: str) -> Decomposition:
    """any, all, count_nonzero: a reduction over 1 for each non-zero element and 0 for each zero.

    With an empty list of dimensions, any and all reduce no dimension.
    """

    def build(b: Build, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        if op != "add" and isinstance(dim, Sequence) and not dim:
            return b.as_result(_nonzero(b, x))
        return b.as_result(b.reduce(op, _nonzero(b, x), _dims(x, dim), keeps_dims=keepdim))

    return build


def logsumexp(b: Build, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """``max + log(sum of exp(x - max))``."""
    dims = _dims(x, dim)
    maxima = b.reduce("maximum", x, dims, keeps_dims=True)
    sums = b.reduce("add", b.ew("exponential", b.ew("subtract", x, maxima)), dims, keeps_dims=True)
    del keepdim
    return b.as_reshaped_result(b.ew("add", b.ew("log", sums), maxima))


def _extreme_index(b: Build, op: str, x: Value, dim: int) -> Value:
    """The first index of each row's extreme along `dim`, without this dimension.

    A long row is searched; other rows are compared with their extreme. NaN counts as the extreme.
    """
    rows = move_dim(b, b.graph.reshape(x, x.shape or (1,)), dim, -1)
    last_dim = len(rows.shape) - 1
    if _should_search(b, op, x, dim):
        keys = rows if op == "maximum" else b.ew("negate", rows)
        return b.graph.reshape(b.graph.top_k(keys, 1), rows.shape[:last_dim])
    extremes = b.reduce(op, rows, [last_dim], keeps_dims=False)
    broadcast_extremes = b.graph.broadcast_in_dim(extremes, rows.shape, range(last_dim))
    is_extreme = b.ew("compare", rows, broadcast_extremes, direction="EQ")
    if x.type.is_floating:
        is_extreme = b.ew("or", is_extreme, b.ew("compare", rows, rows, direction="NE"))
    position = b.convert(b.graph.iota(rows.shape, last_dim), "float32")
    candidates = b.ew("select", is_extreme, position, float(rows.shape[last_dim]), dtype="float32")
    return b.graph.reduce("minimum", candidates, (last_dim,))


def _should_search(b: Build, op: str, x: Value, dim: int) -> bool:
    """True if the rows lie in memory and are so long that a search for the extreme is faster."""
    if not x.shape or not x.type.is_floating or prod(x.shape[dim % len(x.shape) + 1 :]) > 1:
        return False
    is_stored = op == "maximum" and any(x is value for value in b.graph.inputs)
    return x.shape[dim] >= (_LONG_ROW if is_stored else _LONG_COMPUTED_ROW)


_LONG_ROW: Final = 512
"""Minimum length of a row for which one search is faster than comparisons."""
_LONG_COMPUTED_ROW: Final = 4096
"""`_LONG_ROW` for a row that is computed: a search waits until the row is stored."""


def _extreme_index_of(op: str) -> Decomposition:
    """argmax, argmin: the first index of the row's extreme."""

    def build(b: Build, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        del keepdim
        row = b.graph.reshape(x, (x.type.elements,)) if dim is None else x
        return b.as_reshaped_result(_extreme_index(b, op, row, dim or 0))

    return build


def _cumulative(op: str) -> Decomposition:
    """cumsum, cumprod: the reduction of all elements up to each, along a dimension."""

    def build(b: Build, x: Value, dim: int, **_: Any) -> Value:
        x = _elements_to_reduce(b, x)
        rows = move_dim(b, b.convert(b.graph.reshape(x, x.shape or (1,)), "float32"), dim, -1)
        partial_results = move_dim(b, b.graph.scan(op, rows), -1, dim)
        return b.as_result(b.graph.reshape(partial_results, x.shape))

    return build


def var_mean(b: Build, x: Value, *args: Any, **kwargs: Any) -> tuple[Value, Value]:
    """The variance, and the mean."""
    return var(b, x, *args, **kwargs), _second_mean(b, x, *args, **kwargs)


def _second_mean(b: Build, x: Value, *args: Any, **kwargs: Any) -> Value:
    """The mean, as the second result of an operator with the arguments of a variance."""
    dims, _ = _variance_options(x, *args, **kwargs)
    sums = b.reduce("add", b.convert(x, "float32"), dims)
    count = max(prod(x.shape[dim] for dim in dims), 1)
    return b.as_reshaped_result(b.ew("multiply", sums, 1 / count), 1)


def std_mean(b: Build, x: Value, *args: Any, **kwargs: Any) -> tuple[Value, Value]:
    """The standard deviation, and the mean."""
    return std(b, x, *args, **kwargs), _second_mean(b, x, *args, **kwargs)


def trace(b: Build, x: Value) -> Value:
    """The sum of the diagonal."""
    row, column = (b.graph.iota(x.shape, dim) for dim in (0, 1))
    is_diagonal = b.ew("compare", row, column, dtype="bool", direction="EQ")
    diagonal = b.ew("select", is_diagonal, x, 0.0, dtype="float32")
    return b.as_result(b.reduce("add", diagonal, (0, 1)))


def nansum(b: Build, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    """The sum of all elements that are not NaN."""
    x = _elements_to_reduce(b, x)
    is_nan = b.ew("compare", x, x, dtype="bool", direction="NE")
    numbers = b.ew("select", is_nan, 0.0, x, dtype=_sum_dtype(x))
    return b.as_result(b.reduce("add", numbers, _dims(x, dim), keeps_dims=keepdim))


def aminmax(b: Build, x: Value, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element."""
    return tuple(
        b.as_result(b.reduce(op, x, _dims(x, dim), keeps_dims=keepdim), index)
        for index, op in enumerate(("minimum", "maximum"))
    )


def histc(b: Build, x: Value, bins: int = 100, lowest: float = 0, highest: float = 0) -> Value:
    """The number of elements in each of `bins` equal intervals; the last includes its upper end."""
    if lowest >= highest:
        raise Unlowered("bounds that depend on values")
    column = b.convert(b.graph.reshape(x, (x.type.elements, 1)), "float32")
    fraction = b.ew("multiply", b.ew("subtract", column, float(lowest)), bins / (highest - lowest))
    position = b.ew("minimum", b.ew("floor", fraction), bins - 1.0)
    is_inside = b.ew("compare", column, float(highest), dtype="bool", direction="LE")
    position = b.ew("select", is_inside, position, float(bins), dtype="float32")
    number = b.graph.iota((x.type.elements, bins), 1)
    hits = b.ew("compare", position, number, dtype="float32", direction="EQ")
    return b.as_result(b.reduce("add", hits, [0]))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "sum": _reduction("add"),
    "prod": _reduction("multiply"),
    "amax": _reduction("maximum"),
    "amin": _reduction("minimum"),
    "max": _reduction("maximum"),
    "min": _reduction("minimum"),
    "mean": mean,
    "var": var,
    "std": std,
    "linalg_vector_norm": norm,
    "norm": norm,
    "logsumexp": logsumexp,
    "argmax": _extreme_index_of("maximum"),
    "argmin": _extreme_index_of("minimum"),
    "any": _nonzero_reduction("maximum"),
    "cumsum": _cumulative("add"),
    "cumprod": _cumulative("multiply"),
    "var_mean": var_mean,
    "std_mean": std_mean,
    "trace": trace,
    "nansum": nansum,
    "all": _nonzero_reduction("minimum"),
    "aminmax": aminmax,
    "count_nonzero": _nonzero_reduction("add"),
    "histc": histc,
}
