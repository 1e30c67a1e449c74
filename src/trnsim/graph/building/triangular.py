"""Systems of equations with a triangular matrix, by products alone.

A strictly triangular matrix N [n, n] is nilpotent: N ** n = 0. So ``(1 + N) ** -1`` is the product
of ``1 + M ** (2 ** k)`` with ``M = -N``, and takes 2 log2(n) products where substitution takes n
steps, one after the other.
"""

from __future__ import annotations

from trnsim.graph import Value
from trnsim.graph.building.build import Build


def solve_triangular(
    b: Build,
    matrix: Value,
    y: Value,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Value:
    """The x of ``matrix @ x = y``, or of ``x @ matrix = y``; [*B, n, n] and [*B, n, k]."""
    if not left:
        matrix, y, upper = _transpose_last_dims(b, matrix), _transpose_last_dims(b, y), not upper
    batch = b.result_types[0].shape[:-2]
    matrix = b.broadcast(b.convert(matrix, "float32"), (*batch, *matrix.shape[-2:]))
    x = b.broadcast(b.convert(y, "float32"), (*batch, *y.shape[-2:]))
    row, column = (b.graph.iota(matrix.shape, len(batch) + dim) for dim in (0, 1))
    direction = "GT" if upper else "LT"
    is_off_diagonal = b.ew("compare", column, row, dtype="bool", direction=direction)
    power = b.ew("select", is_off_diagonal, b.ew("negate", matrix), 0.0, dtype="float32")
    if not unitriangular:
        is_on_diagonal = b.ew("compare", column, row, dtype="bool", direction="EQ")
        diagonal = b.ew("select", is_on_diagonal, matrix, 0.0, dtype="float32")
        diagonal = b.reduce("add", diagonal, [len(batch) + 1], keeps_dims=True)
        power, x = b.ew("divide", power, diagonal), b.ew("divide", x, diagonal)
    power_count = 1  # powers of N that x includes, N ** 0 among them
    while power_count < matrix.shape[-1]:
        x = b.ew("add", x, b.dot(power, x, "float32"))
        power_count *= 2
        if power_count < matrix.shape[-1]:
            power = b.dot(power, power, "float32")
    return b.as_result(x if left else _transpose_last_dims(b, x))


def _transpose_last_dims(b: Build, x: Value) -> Value:
    rank = len(x.shape)
    return b.graph.transpose(x, (*range(rank - 2), rank - 1, rank - 2))
