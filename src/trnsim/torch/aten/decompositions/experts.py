"""Products of groups of rows, each with a matrix of its own, as in layers of experts."""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.groups import multiply_column_groups, multiply_row_groups
from trnsim.torch.aten.decomposition import Decomposition, Unlowered


def grouped_mm(
    b: Build, x: Value, y: Value, ends: Value | None = None, bias: Value | None = None, *_: Any
) -> Value:
    """The product of each group's part of x with its part of y.

    Groups are slices of rows or columns, one after the other, and `ends` [groups] has the index
    after each; without `ends` they are the matrices of a batch.
    """
    if bias is not None:
        raise Unlowered("a bias of groups")
    ranks = len(x.shape), len(y.shape)
    if ends is None or ranks == (3, 3):
        return b.as_result(b.dot(x, y, "float32"))
    if ranks == (2, 3):
        return b.as_result(multiply_row_groups(b, x, y, ends))
    if ranks == (2, 2):
        return b.as_result(multiply_column_groups(b, x, y, ends))
    flipped = multiply_row_groups(
        b, b.graph.transpose(y, (1, 0)), b.graph.transpose(x, (0, 2, 1)), ends
    )
    return b.as_result(b.graph.transpose(flipped, (1, 0)))


def grouped_rows_backward(
    b: Build, x: Value, matrices: Value, ends: Value, grad: Value
) -> tuple[Value, Value]:
    """The gradients of groups of rows, and of their matrices."""
    rows = multiply_row_groups(b, grad, b.graph.transpose(matrices, (0, 2, 1)), ends)
    sums = multiply_column_groups(b, b.graph.transpose(x, (1, 0)), grad, ends)
    return b.convert(rows, x.dtype), b.convert(sums, matrices.dtype)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "_grouped_mm": grouped_mm,
    # Operators of transformers, for dtypes that PyTorch's own operators do not take.
    "grouped_mm_fallback": grouped_mm,
    "grouped_mm_fallback_backward": grouped_rows_backward,
}
