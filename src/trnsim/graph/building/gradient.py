"""The gradients of a scalar of a graph by other values, operation by operation.

Each rule computes the gradients of an operation's operands from the gradient of its result. Indices
and masks have none. The gradient of an all-reduce is passed on unchanged. The gradient of a value
that all ranks hold and each uses for its part of the work (`exchanges`) is summed over ranks.

Source: of exchanges, Megatron-LM (arXiv:1909.08053), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trnsim.errors import NotModelled
from trnsim.graph.graph import Graph, Node, Operand, Value
from trnsim.graph.operation import Kind, Operation
from trnsim.graph.ops.arithmetic import (
    Add,
    Divide,
    Multiply,
    Negate,
    Relu,
    Square,
    Subtract,
)
from trnsim.graph.ops.collectives import AllGather, AllReduce
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.contraction import Attention, AttentionBackward, DotGeneral
from trnsim.graph.ops.functions import (
    Exponential,
    Gelu,
    GeluTanh,
    Log,
    Logistic,
    Rsqrt,
    Silu,
    Tanh,
)
from trnsim.graph.ops.layout import (
    BroadcastInDim,
    Concatenate,
    Reshape,
    Slice,
    Transpose,
    strided,
)
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.ops.rounding import Convert

_GELU_ROOT: Final = math.sqrt(2 / math.pi)
"""The factor of the argument in the approximation of GELU."""
_GELU_CUBE: Final = 0.044715
"""The factor of x ** 3 in the approximation of GELU (arXiv:1606.08415, section 2)."""
Gradients = Sequence[Value | None]
GradientRule = Callable[[Graph, Node, Value], Gradients]
"""A function from the graph, a node and the gradient of its result to those of its operands."""


def gradients(
    graph: Graph, loss: Value, variables: Sequence[Value], exchanges: Mapping[int, Any]
) -> list[Value]:
    """Add to the graph the gradients of `loss` by those `variables` that it depends on.

    `exchanges` has the exchange that adds up a value's gradients over ranks, by the value's number.

    Raises:
        NotModelled: for an operation on the way from these values to `loss` that has no rule, or of
            which a result other than the first is read.
    """
    grads: dict[int, Value] = {loss.number: graph.constant(1.0, loss.type)}
    recomputed = _RecomputedFactors(graph)
    dependents = _dependent_values(graph, {value.number for value in variables})
    for node in reversed(list(graph.nodes)):
        if any(value.number in grads for value in node.results[1:]):
            raise NotModelled(
                f"the gradient of {node.name} by a result other than its first has no rule yet"
            )
        if node.result.number in grads and node.result.number in dependents:
            graph.current_origin = node.origin
            grad = _exchange_gradient(graph, node.result, grads, exchanges)
            _add_operand_gradients(recomputed, node, grad, grads, dependents)
    graph.current_origin = None
    return [grads[value.number] for value in variables if value.number in grads]


def _dependent_values(graph: Graph, variables: Collection[int]) -> set[int]:
    """The numbers of values that depend on any of the values with the numbers `variables`."""
    numbers = set(variables)
    for node in graph.nodes:
        if node.result.type.is_floating and any(value.number in numbers for value in node.values):
            numbers.update(value.number for value in node.results)
    return numbers


def _exchange_gradient(
    graph: Graph, value: Value, grads: dict[int, Value], exchanges: Mapping[int, Any]
) -> Value:
    """The gradient of a value, summed over ranks if `exchanges` has an exchange for it."""
    exchange = exchanges.get(value.number)
    return grads[value.number] if exchange is None else graph.apply(exchange, grads[value.number])


class _RecomputedFactors:
    """Factors of products that the backward pass computes again, so that they are not kept.

    They cost little: they are broadcasts, leaves, elementwise operations on these alone (masks),
    and products of one of them with another value, such as a norm's ``(x - mean) / std``, whose
    ``x - mean`` is kept anyway.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._producers = {value.number: node for node in graph.nodes for value in node.results}
        self._free: set[int] = set()
        for node in graph.nodes:  # operands come before what reads them
            if self._costs_nothing(node):
                self._free.update(value.number for value in node.results)
        self._recomputed: dict[int, Value] = {}

    def with_factors(self, node: Node) -> Node:
        """A product with recomputed factors as operands; other nodes unchanged."""
        if not isinstance(node.operation, Multiply):
            return node
        for operand in node.operands:
            self._recompute(operand)
        return self._with_recomputed_operands(node)

    def _recompute(self, operand: Operand) -> None:
        """Recompute an operand, after those of its own operands that are to be recomputed.

        A chain of products may exceed Python's recursion limit, so the stack is a list.
        """
        stack = [operand]
        while stack:
            value = stack[-1]
            if not isinstance(value, Value) or not self._is_pending(value):
                stack.pop()
                continue
            node = self._producers[value.number]
            earlier = next(filter(self._is_pending, node.operands), None)
            if earlier is not None:
                stack.append(earlier)
                continue
            result = self._recomputed[value.number] = self.graph.fresh(value.type)
            self.graph.add(node.operation, self._with_recomputed_operands(node).operands, [result])

    def _with_recomputed_operands(self, node: Node) -> Node:
        """The node with recomputed operands in place of kept operands."""
        return replace(node, operands=tuple(map(self._replaced_operand, node.operands)))

    def _replaced_operand(self, operand: Operand) -> Operand:
        return (
            self._recomputed.get(operand.number, operand) if isinstance(operand, Value) else operand
        )

    def _is_pending(self, operand: Operand) -> bool:
        """True for a value that is to be recomputed and was not recomputed yet."""
        if not isinstance(operand, Value) or operand.number in self._recomputed:
            return False
        node = self._producers.get(operand.number)
        if node is None or node.kind is Kind.LEAF:
            return False
        if operand.number in self._free:
            return True
        return isinstance(node.operation, Multiply) and any(map(self._is_free, node.operands))

    def _costs_nothing(self, node: Node) -> bool:
        """True for leaves, broadcasts, and elementwise operations on free operands alone."""
        if node.kind is Kind.ELEMENTWISE:
            return all(map(self._is_free, node.operands))
        return node.kind is Kind.LEAF or isinstance(node.operation, BroadcastInDim)

    def _is_free(self, operand: Operand) -> bool:
        return not isinstance(operand, Value) or operand.number in self._free


def _add_operand_gradients(
    recomputed: _RecomputedFactors,
    node: Node,
    grad: Value,
    grads: dict[int, Value],
    dependents: set[int],
) -> None:
    """Add the gradients of a node's operands to `grads`."""
    graph, rule = recomputed.graph, RULES.get(type(node.operation))
    if rule is None:
        raise NotModelled(
            f"the gradient of {node.name} has no rule yet; there are rules for "
            f"{', '.join(sorted(NAMES))}"
        )
    parts = rule(graph, recomputed.with_factors(node), grad)
    for operand, part in zip(node.operands, parts, strict=False):
        if not isinstance(operand, Value) or part is None or operand.number not in dependents:
            continue
        share, before = _cast(graph, part, operand.dtype), grads.get(operand.number)
        grads[operand.number] = share if before is None else graph.elementwise("add", before, share)


def _add(graph: Graph, node: Node, grad: Value) -> Gradients:
    del graph, node
    return grad, grad


def _subtract(graph: Graph, node: Node, grad: Value) -> Gradients:
    is_read = isinstance(node.operands[1], Value)
    return grad, graph.elementwise("negate", grad) if is_read else None


def _multiply(graph: Graph, node: Node, grad: Value) -> Gradients:
    lhs, rhs = node.operands
    return tuple(
        graph.elementwise("multiply", grad, factor, dtype=grad.dtype)
        if isinstance(operand, Value)
        else None
        for operand, factor in ((lhs, rhs), (rhs, lhs))
    )


def _divide(graph: Graph, node: Node, grad: Value) -> Gradients:
    _, divisor = node.operands
    first = graph.elementwise("divide", grad, divisor)
    if not isinstance(divisor, Value):
        return (first,)
    product = graph.elementwise("multiply", first, node.result)
    return first, graph.elementwise("negate", product)


def _negate(graph: Graph, node: Node, grad: Value) -> Gradients:
    del node
    return (graph.elementwise("negate", grad),)


def _square(graph: Graph, node: Node, grad: Value) -> Gradients:
    double = graph.elementwise("multiply", node.values[0], 2.0)
    return (graph.elementwise("multiply", grad, double),)


def _relu(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The gradient where the result is not 0, NaN included, as in PyTorch."""
    is_passed = graph.apply(Compare("NE"), node.result, 0.0, dtype=node.result.dtype)
    return (graph.elementwise("multiply", grad, is_passed),)


def _rsqrt(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The derivative is ``-y^3 / 2`` for the result y."""
    cube = graph.elementwise("power", node.result, 3.0)
    return (graph.elementwise("multiply", grad, graph.elementwise("multiply", cube, -0.5)),)


def _exponential(graph: Graph, node: Node, grad: Value) -> Gradients:
    return (graph.elementwise("multiply", grad, node.result),)


def _log(graph: Graph, node: Node, grad: Value) -> Gradients:
    return (graph.elementwise("divide", grad, node.values[0]),)


def _rule_of_result(form: Callable[[Graph, Value], Value]) -> GradientRule:
    """A rule whose derivative is a function of the operation's result."""

    def rule(graph: Graph, node: Node, grad: Value) -> Gradients:
        return (graph.elementwise("multiply", grad, form(graph, node.result)),)

    return rule


def _one_minus_square(graph: Graph, y: Value) -> Value:
    """``1 - y^2``."""
    return graph.elementwise("subtract", 1.0, graph.elementwise("square", y))


def _logistic_slope(graph: Graph, y: Value) -> Value:
    """``y (1 - y)``."""
    return graph.elementwise("multiply", y, graph.elementwise("subtract", 1.0, y))


def _rule_of_derivative(name: str) -> GradientRule:
    """A rule whose derivative is an elementwise operation of that name."""

    def rule(graph: Graph, node: Node, grad: Value) -> Gradients:
        return (graph.elementwise("multiply", grad, graph.elementwise(name, node.values[0])),)

    return rule


def _gelu_tanh(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The derivative ``(1 + t) / 2 + x (1 - t^2) u' / 2``, for t = tanh(u), u = c (x + a x^3)."""
    (x,) = node.values
    square = graph.elementwise("square", x)
    cubed = graph.elementwise("add", graph.elementwise("multiply", square, _GELU_CUBE), 1.0)
    inner = graph.elementwise("multiply", graph.elementwise("multiply", x, cubed), _GELU_ROOT)
    tanh = graph.elementwise("tanh", inner)
    slope = graph.elementwise("add", graph.elementwise("multiply", square, 3 * _GELU_CUBE), 1.0)
    slope = graph.elementwise("multiply", graph.elementwise("multiply", x, slope), _GELU_ROOT)
    second = graph.elementwise("multiply", _one_minus_square(graph, tanh), slope)
    first = graph.elementwise("add", tanh, 1.0)
    derivative = graph.elementwise("multiply", graph.elementwise("add", first, second), 0.5)
    return (graph.elementwise("multiply", grad, derivative),)


def _convert(graph: Graph, node: Node, grad: Value) -> Gradients:
    del graph, node
    return (grad,)


def _reshape(graph: Graph, node: Node, grad: Value) -> Gradients:
    return (graph.reshape(grad, node.values[0].shape),)


def _transpose(graph: Graph, node: Node, grad: Value) -> Gradients:
    operation: Any = node.operation
    order = operation.permutation
    return (graph.transpose(grad, [order.index(dim) for dim in range(len(order))]),)


def _broadcast(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The sum over repeated dimensions."""
    operation: Any = node.operation
    (x,) = node.values
    kept_dims = {
        dim for place, dim in enumerate(operation.dims) if x.shape[place] == grad.shape[dim]
    }
    summed_dims = [dim for dim in range(len(grad.shape)) if dim not in kept_dims]
    total = _sum_over(graph, grad, summed_dims)
    return (graph.reshape(total, x.shape),)


def _sum_over(graph: Graph, value: Value, dims: Sequence[int]) -> Value:
    """The sum over some dimensions in float32."""
    if not dims:
        return value
    wide = _cast(graph, value, "float32")
    return graph.reduce("add", wide, dims)


def _cast(graph: Graph, value: Value, dtype: str) -> Value:
    return value if value.dtype == dtype else graph.elementwise("convert", value, dtype=dtype)


def _slice(graph: Graph, node: Node, grad: Value) -> Gradients:
    operation: Any = node.operation
    (x,) = node.values
    reads = map(strided, operation.starts, operation.shape, operation.strides)
    high = [side - read.stop for side, read in zip(x.shape, reads, strict=True)]
    return (graph.pad(grad, operation.starts, high, [step - 1 for step in operation.strides]),)


def _concatenate(graph: Graph, node: Node, grad: Value) -> Gradients:
    operation: Any = node.operation
    slices: list[Value] = []
    start = [0] * len(grad.shape)
    for part in node.values:
        slices.append(graph.slice(grad, start, part.shape))
        start[operation.dim] += part.shape[operation.dim]
    return slices


def _reduce(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The gradient of a sum, repeated; None for a maximum, which softmax only subtracts."""
    operation: Any = node.operation
    (x,) = node.values
    if operation.op == "maximum":
        return (None,)
    if operation.op != "add":
        raise NotModelled(f"the gradient of a reduction by {operation.op} has no rule yet")
    kept_dims = [dim for dim in range(len(x.shape)) if dim not in operation.dims]
    return (graph.broadcast_in_dim(grad, x.shape, kept_dims),)


def _gather(graph: Graph, node: Node, grad: Value) -> Gradients:
    """The gradient scattered into the table, added up where indices are equal."""
    operation: Any = node.operation
    table, numbers = node.values
    if operation.operand_batching_dims:
        raise NotModelled("the gradient of a gather within rows has no rule yet")
    return (graph.scatter(table.type, numbers, _cast(graph, grad, table.dtype)),)


def _dot(graph: Graph, node: Node, grad: Value) -> Gradients:
    """Products of the gradient with the other operand."""
    operation: Any = node.operation
    lhs, rhs = node.values
    last = len(lhs.shape) - 1
    left, right = operation.contracting
    typed_grad = _cast(graph, grad, lhs.dtype)
    if left == last:
        by_left = graph.dot_general(typed_grad, rhs, (last, 2 * last - 1 - right), lhs.dtype)
    else:
        by_left = graph.dot_general(rhs, typed_grad, (2 * last - 1 - right, last), lhs.dtype)
    if right == last:
        by_right = graph.dot_general(typed_grad, lhs, (last - 1, 2 * last - 1 - left), rhs.dtype)
    else:
        by_right = graph.dot_general(lhs, typed_grad, (2 * last - 1 - left, last - 1), rhs.dtype)
    return by_left, by_right


def _attention(graph: Graph, node: Node, grad: Value) -> Gradients:
    operation: Any = node.operation
    if operation.cap:
        raise NotModelled("the gradient of attention with capped scores has no rule yet")
    options = {name: value for name, value in vars(operation).items() if name != "cap"}
    query, key, value, *bias = node.values
    result, logs = node.results
    operands = (query, key, value, grad, result, logs, *bias)
    return graph.apply_to_all(AttentionBackward(**options), operands)


def _all_reduce(graph: Graph, node: Node, grad: Value) -> Gradients:
    operation: Any = node.operation
    del graph
    return (grad if operation.op == "add" else None,)


def _all_gather(graph: Graph, node: Node, grad: Value) -> Gradients:
    """A rank's own part of the gradient."""
    (x,) = node.values
    return (graph.slice(grad, (0,) * len(x.shape), x.shape),)


RULES: Final[dict[type[Operation], GradientRule]] = {
    Add: _add,
    Subtract: _subtract,
    Multiply: _multiply,
    Divide: _divide,
    Negate: _negate,
    Square: _square,
    Relu: _relu,
    Rsqrt: _rsqrt,
    Exponential: _exponential,
    Log: _log,
    Tanh: _rule_of_result(_one_minus_square),
    Logistic: _rule_of_result(_logistic_slope),
    Silu: _rule_of_derivative("silu_dx"),
    Gelu: _rule_of_derivative("gelu_dx"),
    GeluTanh: _gelu_tanh,
    Convert: _convert,
    Reshape: _reshape,
    Transpose: _transpose,
    BroadcastInDim: _broadcast,
    Slice: _slice,
    Concatenate: _concatenate,
    Reduce: _reduce,
    Gather: _gather,
    DotGeneral: _dot,
    Attention: _attention,
    AllReduce: _all_reduce,
    AllGather: _all_gather,
}
"""Rules by the class of an operation."""
NAMES: Final = [operation.name for operation in RULES]
