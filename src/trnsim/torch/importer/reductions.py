"""Sums, means, extremes, norms and moments over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from trnsim.graph import Value
from trnsim.torch.importer.build import Build, Importer, Unlowered

Dims = int | Sequence[int] | None


def _all(x: Value, dim: Dims) -> list[int]:
    """The dimensions meant: all where none is named."""
    rank = len(x.shape)
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return list(range(rank))
    return [one % rank if rank else 0 for one in ([dim] if isinstance(dim, int) else dim)]


def _reduction(op: str) -> Importer:
    def build(b: Build, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
        if len(b.results) > 1:
            raise Unlowered("an extreme with its index")
        return b.result(b.reduce(op, b.convert(x, _summed(x)), _all(x, dim), is_kept=keepdim))

    return build


def _summed(x: Value) -> str:
    """Truth values and small integers are summed as float32."""
    return x.dtype if "float" in x.dtype else "float32"


def mean(b: Build, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    """The sum divided by the number of elements."""
    dims = _all(x, dim)
    total = b.reduce("add", x, dims, is_kept=keepdim)
    return b.result(b.ew("multiply", total, 1 / max(prod(x.shape[d] for d in dims), 1)))


def variance(b: Build, x: Value, dims: list[int], correction: float) -> Value:
    """The mean of squared distances from the mean, dimensions kept."""
    count = prod(x.shape[d] for d in dims)
    centre = b.ew("multiply", b.reduce("add", x, dims, is_kept=True), 1 / count)
    apart = b.ew("square", b.ew("subtract", x, centre))
    total = b.reduce("add", apart, dims, is_kept=True)
    return b.ew("multiply", total, 1 / max(count - correction, 1))


def var(
    b: Build,
    x: Value,
    dim: Dims = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Value:
    """The variance; `correction` is subtracted from the count."""
    del keepdim
    found = variance(b, x, _all(x, dim), unbiased if correction is None else correction)
    return b.convert(b.graph.reshape(found, b.results[0].shape), b.results[0].dtype)


def std(b: Build, x: Value, *args: Any, **kwargs: Any) -> Value:
    """The square root of the variance."""
    return b.result(b.ew("sqrt", var(b, x, *args, **kwargs)))


def norm(
    b: Build, x: Value, p: float | None = 2, dim: Dims = None, keepdim: bool = False, **_: Any
) -> Value:
    """The 1-, 2- or maximum norm."""
    dims, order = _all(x, dim), 2.0 if p is None else float(p)
    if order == 2:  # noqa: PLR2004  the Euclidean norm
        total = b.reduce("add", b.ew("square", x), dims, is_kept=keepdim)
        return b.result(b.ew("sqrt", total))
    if order == 1:
        return b.result(b.reduce("add", b.ew("abs", x), dims, is_kept=keepdim))
    if order == float("inf"):
        return b.result(b.reduce("maximum", b.ew("abs", x), dims, is_kept=keepdim))
    raise Unlowered(f"the norm of order {order}")


def logsumexp(b: Build, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """The logarithm of the sum of exponentials, the maximum taken out first."""
    dims = _all(x, dim)
    largest = b.reduce("maximum", x, dims, is_kept=True)
    total = b.reduce("add", b.ew("exponential", b.ew("subtract", x, largest)), dims, is_kept=True)
    found = b.ew("add", b.ew("log", total), largest)
    del keepdim
    return b.convert(b.graph.reshape(found, b.results[0].shape), b.results[0].dtype)


def _place_of(op: str) -> Importer:
    """argmax, argmin: the first place at which the row holds its extreme."""

    def build(b: Build, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is None:
            x, dim = b.graph.reshape(x, (x.type.elements,)), 0
        rank = len(x.shape)
        order = [d for d in range(rank) if d != dim % rank] + [dim % rank]
        rows = b.graph.transpose(x, order)
        last = rank - 1
        best = b.reduce(op, rows, [last], is_kept=False)
        spread = b.graph.broadcast_in_dim(best, rows.shape, range(last))
        is_best = b.ew("compare", rows, spread, dtype="uint8", direction="EQ")
        place = b.convert(b.graph.iota(rows.shape, last), "float32")
        candidates = b.ew("select", is_best, place, float(rows.shape[last]), dtype="float32")
        found = b.graph.reduce("minimum", candidates, (last,))
        del keepdim
        return b.convert(b.graph.reshape(found, b.results[0].shape), b.results[0].dtype)

    return build


def cumsum(b: Build, x: Value, dim: int, **_: Any) -> Value:
    """Sums up to each place: a product with ones above the diagonal."""
    rank = len(x.shape)
    order = [d for d in range(rank) if d != dim % rank] + [dim % rank]
    moved = b.graph.transpose(b.convert(x, "float32"), order)
    length = moved.shape[-1]
    if length > _LONGEST_SUM:
        raise Unlowered(f"sums over {length} places")
    rows = b.graph.reshape(moved, (moved.type.elements // length, length))
    before, after = (b.graph.iota((length, length), d) for d in (0, 1))
    ones = b.ew("compare", before, after, dtype="float32", direction="LE")
    sums = b.graph.reshape(b.graph.dot_general(rows, ones, (1, 0)), moved.shape)
    return b.result(b.graph.transpose(sums, [order.index(d) for d in range(rank)]))


_LONGEST_SUM: Final = 8192


def any_(b: Build, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Whether one element is not zero."""
    held = b.ew("compare", x, 0.0, dtype="float32", direction="NE")
    return b.result(b.reduce("maximum", held, _all(x, dim), is_kept=keepdim))


def all_(b: Build, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """Whether no element is zero."""
    held = b.ew("compare", x, 0.0, dtype="float32", direction="NE")
    return b.result(b.reduce("minimum", held, _all(x, dim), is_kept=keepdim))


IMPORTERS: Final[dict[str, Importer]] = {
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
    "argmax": _place_of("maximum"),
    "argmin": _place_of("minimum"),
    "any": any_,
    "cumsum": cumsum,
    "all": all_,
}
