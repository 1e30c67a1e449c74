"""Matrix products, and triangular systems that are solved by them."""

from __future__ import annotations

from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.triangular import solve_triangular
from trnsim.graph.types import Shape
from trnsim.torch.aten.decomposition import Decomposition

_SHORT_SUM: Final = 16
"""Maximum number of terms of a sum that another engine adds up faster than the Tensor Engine."""
_MANY_SUMS: Final = 16
"""Minimum number of matrices whose products by vectors, one by one, take longer than additions."""


def mm(b: Build, x: Value, y: Value) -> Value:
    """``x @ y``, of matrices or batches of them."""
    return b.dot(x, y, b.result_types[0].dtype)


def bmm(b: Build, x: Value, y: Value) -> Value:
    """``x @ y`` of batches of matrices; by vectors of few elements, a sum of repeated elements."""
    batch, rows, terms = x.shape
    is_by_vectors = 1 in (rows, y.shape[2]) and batch >= _MANY_SUMS and terms <= _SHORT_SUM
    if not is_by_vectors or not terms or not x.type.is_floating:
        return mm(b, x, y)
    shape = b.result_types[0].shape
    products = [
        b.ew("multiply", *(_repeated(b, part, shape) for part in parts), dtype="float32")
        for parts in ((b.sliced(x, 2, term, 1), b.sliced(y, 1, term, 1)) for term in range(terms))
    ]
    return b.as_result(b.total(products))


def _repeated(b: Build, part: Value, shape: Shape) -> Value:
    """A batch of rows or columns repeated to matrices of a shape."""
    return b.graph.broadcast_in_dim(part, shape, (0, 1, 2))


def addmm(b: Build, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * bias + alpha * x @ y``."""
    return _scaled_sum(b, bias, b.dot(x, y, "float32"), beta, alpha)


def mv(b: Build, x: Value, y: Value) -> Value:
    """``x @ y`` for a vector y."""
    column = b.graph.reshape(y, (*y.shape, 1))
    return b.graph.reshape(b.dot(x, column, b.result_types[0].dtype), (x.shape[0],))


def addmv(b: Build, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * bias + alpha * x @ y`` for a vector y."""
    column, result_types = b.graph.reshape(y, (*y.shape, 1)), b.result_types
    b.result_types = [TensorType((x.shape[0], 1), result_types[0].dtype)]
    start = b.graph.reshape(b.broadcast(bias, (x.shape[0],)), (x.shape[0], 1))
    column_result = addmm(b, start, x, column, beta=beta, alpha=alpha)
    b.result_types = result_types
    return b.graph.reshape(column_result, (x.shape[0],))


def dot(b: Build, x: Value, y: Value) -> Value:
    """The inner product of two vectors."""
    return b.as_result(b.reduce("add", b.ew("multiply", x, y), [0]))


def addr(b: Build, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """``beta * bias + alpha * outer(x, y)``."""
    product = b.ew("multiply", b.graph.reshape(x, (*x.shape, 1)), y, dtype="float32")
    return _scaled_sum(b, bias, product, beta, alpha)


def addbmm(
    b: Build, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1
) -> Value:
    """``beta * bias + alpha * sum(x @ y)`` over the batch."""
    return _scaled_sum(b, bias, b.reduce("add", b.dot(x, y, "float32"), [0]), beta, alpha)


def _scaled_sum(b: Build, bias: Value, product: Value, beta: float, alpha: float) -> Value:
    if alpha != 1:
        product = b.ew("multiply", product, float(alpha))
    if beta == 0:
        return b.as_result(product)
    scaled_bias = bias if beta == 1 else b.ew("multiply", bias, float(beta))
    return b.as_result(b.ew("add", product, scaled_bias))


def linear(b: Build, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """``x @ weight.T + bias``."""
    rows = b.graph.reshape(x, (x.type.elements // x.shape[-1], x.shape[-1]))
    product = b.product(rows, weight, (1, 1), "float32")
    product = b.graph.reshape(product, b.result_types[0].shape)
    return b.as_result(product if bias is None else b.ew("add", product, bias))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "mm": mm,
    "bmm": bmm,
    "addmm": addmm,
    "baddbmm": addmm,
    "mv": mv,
    "addmv": addmv,
    "dot": dot,
    "vdot": dot,
    "addr": addr,
    "addbmm": addbmm,
    "linear": linear,
    "linalg_solve_triangular": solve_triangular,
}
