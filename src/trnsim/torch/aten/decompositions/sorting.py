"""Sorting, top-k, positions in sorted rows, membership and random permutations.

The Vector Engine finds eight elements at a time, in float32: integers beyond 2**24 may be taken for
one another.
"""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build, Operand
from trnsim.graph.building.indexing import gather_along_rows, move_dim
from trnsim.graph.ops.reductions import neutral
from trnsim.torch.aten.decomposition import Decomposition, Unlowered
from trnsim.torch.aten.decompositions.comparisons import compare


def _ordered(b: Build, x: Value, k: int, dim: int, *, is_descending: bool) -> tuple[Value, Value]:
    """The first k elements in sorted order along `dim`, and their indices."""
    rows = move_dim(b, b.graph.reshape(x, x.shape or (1,)), dim, -1)
    keys = rows if is_descending else b.ew("negate", b.convert(rows, "float32"))
    indices = b.graph.top_k(keys, k)
    values = gather_along_rows(b, rows, indices)
    return move_dim(b, values, -1, dim), move_dim(b, indices, -1, dim)


def _as_results(b: Build, values: Value, indices: Value) -> tuple[Value, Value]:
    """Values and indices in the shapes and dtypes that PyTorch returns."""
    return b.as_reshaped_result(values), b.as_reshaped_result(indices, 1)


def sort(
    b: Build, x: Value, dim: int = -1, descending: bool = False, **keywords: Any
) -> tuple[Value, Value]:
    """All elements sorted stably, and the index that each came from."""
    dim, descending = keywords.get("dim", dim), keywords.get("descending", descending)
    length = x.shape[dim] if x.shape else 1
    return _as_results(b, *_ordered(b, x, length, dim, is_descending=descending))


def topk(
    b: Build, x: Value, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True
) -> tuple[Value, Value]:
    """The k largest or smallest elements, in order, and their indices."""
    del is_sorted
    return _as_results(b, *_ordered(b, x, k, dim, is_descending=largest))


def kthvalue(b: Build, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """The k-th smallest element and its index."""
    del keepdim
    parts = _ordered(b, x, k, dim, is_descending=False)
    return _as_results(b, *(_last_element(b, part, dim) for part in parts))


def median(b: Build, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the two middle elements, with its index if a dimension is named."""
    del keepdim
    if dim is None:
        if not x.type.elements:
            lowest = float(neutral("maximum", x.type.numpy_dtype()))
            return b.filled(math.nan if x.type.is_floating else lowest, b.result_types[0])
        row = b.graph.reshape(x, (x.type.elements,))
        values, _ = _ordered(b, row, (x.type.elements + 1) // 2, 0, is_descending=False)
        return b.graph.reshape(_last_element(b, values, 0), ())
    length = x.shape[dim] if x.shape else 1
    return kthvalue(b, x, (length + 1) // 2, dim)


def _last_element(b: Build, x: Value, dim: int) -> Value:
    """The last element along `dim`."""
    return b.sliced(x, dim, x.shape[dim] - 1, 1)


def randperm(b: Build, count: int, **_: Any) -> Value:
    """A random permutation of 0 to ``count - 1``: the order that sorts random numbers."""
    draws = b.graph.rng((1, count))
    return b.as_result(b.graph.reshape(b.graph.top_k(draws, count), (count,)))


def bucketize(b: Build, x: Operand, boundaries: Value, *, right: bool = False, **_: Any) -> Value:
    """The number of boundaries below each element; with `right`, below or equal to it."""
    return searchsorted(b, boundaries, x, right=right)


def searchsorted(
    b: Build, rows: Value, x: Operand, *, right: bool = False, **keywords: Any
) -> Value:
    """The number of elements of its row before each element of x.

    Rows [*, n] and x [*, m], or a single row [n] and x of any shape, or a number.
    """
    if keywords.get("sorter") is not None:
        raise Unlowered("rows that another tensor puts in order")
    is_right = right or keywords.get("side") == "right"
    if not isinstance(x, Value):
        if not (rows.type.is_floating or isinstance(x, int)):
            rows = b.convert(rows, "float32")
        x = b.filled(x, TensorType((), rows.dtype))
    length, rank = rows.shape[-1], len(x.shape)
    shape = (*x.shape, length)
    leading = range(rank - 1) if len(rows.shape) > 1 else ()
    spread_rows = b.graph.broadcast_in_dim(rows, shape, (*leading, rank))
    spread_x = b.graph.broadcast_in_dim(x, shape, range(rank))
    direction = "LE" if is_right else "LT"
    is_before = b.ew("compare", spread_rows, spread_x, dtype="float32", direction=direction)
    count = b.reduce("add", is_before, [rank])
    if x.type.is_floating:  # NaN sorts as the largest
        is_number = b.ew("compare", x, x, dtype="bool", direction="EQ")
        count = b.ew("select", is_number, count, float(length), dtype="float32")
    return b.as_result(count)


def isin(
    b: Build, x: Operand, among: Operand, assume_unique: bool = False, *, invert: bool = False
) -> Value:
    """True at each element, or for a number, that is among a few test elements."""
    del assume_unique
    if not isinstance(among, Value):
        return compare(b, x, among, "NE" if invert else "EQ")
    shape, count = x.shape if isinstance(x, Value) else (), among.type.elements
    rank = len(shape)
    members = b.graph.reshape(among, (count,))
    if isinstance(x, Value):
        x = b.graph.broadcast_in_dim(x, (*shape, count), range(rank))
        members = b.graph.broadcast_in_dim(members, x.shape, (rank,))
    equal = b.convert(compare(b, x, members, "EQ"), "float32")
    is_member = b.reduce("maximum", equal, [rank])
    return b.ew("compare", is_member, 0.0, dtype="bool", direction="EQ" if invert else "NE")


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "bucketize": bucketize,
    "isin": isin,
    "searchsorted": searchsorted,
    "sort": sort,
    "topk": topk,
    "kthvalue": kthvalue,
    "median": median,
    "randperm": randperm,
}
