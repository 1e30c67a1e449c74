"""The fused cells of LSTM and GRU with their gradients, elementwise on gates [N, H].

Gate order is PyTorch's: input, forget, cell, output for LSTM; reset, update, new for GRU.
"""

from __future__ import annotations

from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.activations import through_tanh


def _parts(b: Build, x: Value, count: int) -> list[Value]:
    """`x` [N, count * H] in parts of [N, H], float32."""
    width = x.shape[1] // count
    parts = [b.sliced(x, 1, index * width, width) for index in range(count)]
    return [b.convert(part, "float32") for part in parts]


def _with_bias(b: Build, gates: Value, bias: Value | None) -> Value:
    gates = b.convert(gates, "float32")
    return gates if bias is None else b.ew("add", gates, b.convert(bias, "float32"))


def _sigmoid_gradient(b: Build, *factors: Value) -> Value:
    """``factors[0] * factors[1] * ... * y * (1 - y)``, where y is the last factor.

    That is the gradient through a sigmoid with result y, if the product of the other factors is the
    gradient of y.
    """
    slope = b.ew("multiply", factors[-1], b.ew("subtract", 1.0, factors[-1]))
    for factor in factors[:-1]:
        slope = b.ew("multiply", slope, factor)
    return slope


def lstm_cell(
    b: Build,
    input_gates: Value,
    hidden_gates: Value,
    cx: Value,
    input_bias: Value | None = None,
    hidden_bias: Value | None = None,
) -> tuple[Value, ...]:
    """The hidden state, the cell state, and the four gates [N, 4H]."""
    input_part, hidden_part = (
        _with_bias(b, input_gates, input_bias),
        _with_bias(b, hidden_gates, hidden_bias),
    )
    gates = _parts(b, b.ew("add", input_part, hidden_part), 4)
    names = ("logistic", "logistic", "tanh", "logistic")
    i, f, g, o = (b.ew(name, gate) for name, gate in zip(names, gates, strict=True))
    kept_state = b.ew("multiply", f, b.convert(cx, "float32"))
    cy = b.ew("add", kept_state, b.ew("multiply", i, g))
    hy = b.ew("multiply", o, b.ew("tanh", cy))
    outputs = (hy, cy, b.graph.concatenate((i, f, g, o), 1))
    return tuple(b.as_result(part, index) for index, part in enumerate(outputs))


def lstm_cell_backward(
    b: Build,
    grad_hy: Value | None,
    grad_cy: Value | None,
    cx: Value,
    cy: Value,
    workspace: Value,
    has_bias: bool,
) -> tuple[Value, ...]:
    """The gradients of the gates, of the cell state, and of the bias."""
    i, f, g, o = _parts(b, workspace, 4)
    cell_output = b.ew("tanh", b.convert(cy, "float32"))
    zero = b.filled(0.0, TensorType(cx.shape, "float32"))
    grad_hidden = zero if grad_hy is None else b.convert(grad_hy, "float32")
    grad_cell = through_tanh(b, b.ew("multiply", grad_hidden, o), cell_output)
    if grad_cy is not None:
        grad_cell = b.ew("add", grad_cell, b.convert(grad_cy, "float32"))
    gate_gradients = (
        _sigmoid_gradient(b, grad_cell, g, i),
        _sigmoid_gradient(b, grad_cell, b.convert(cx, "float32"), f),
        through_tanh(b, b.ew("multiply", grad_cell, i), g),
        _sigmoid_gradient(b, grad_hidden, cell_output, o),
    )
    grads = b.graph.concatenate(gate_gradients, 1)
    gradients = [grads, b.ew("multiply", grad_cell, f)]
    if has_bias:
        gradients.append(b.reduce("add", grads, [0]))
    return tuple(b.as_result(part, index) for index, part in enumerate(gradients))


def gru_cell(
    b: Build,
    input_gates: Value,
    hidden_gates: Value,
    hx: Value,
    input_bias: Value | None = None,
    hidden_bias: Value | None = None,
) -> tuple[Value, ...]:
    """The hidden state, and the workspace of the backward pass [N, 5H]."""
    input_parts = _parts(b, _with_bias(b, input_gates, input_bias), 3)
    hidden_parts = _parts(b, _with_bias(b, hidden_gates, hidden_bias), 3)
    r, z = (b.ew("logistic", b.ew("add", input_parts[gate], hidden_parts[gate])) for gate in (0, 1))
    n = b.ew("tanh", b.ew("add", input_parts[2], b.ew("multiply", r, hidden_parts[2])))
    previous_state = b.convert(hx, "float32")
    hy = b.ew("add", n, b.ew("multiply", z, b.ew("subtract", previous_state, n)))
    workspace = b.graph.concatenate((r, z, n, previous_state, hidden_parts[2]), 1)
    return b.as_result(hy, 0), b.as_result(workspace, 1)


def gru_cell_backward(
    b: Build, grad_hy: Value, workspace: Value, has_bias: bool
) -> tuple[Value, ...]:
    """Gradients of the input's and the hidden gates, of the previous state, and of both biases."""
    r, z, n, previous_state, hidden_n = _parts(b, workspace, 5)
    grad = b.convert(grad_hy, "float32")
    grad_z = _sigmoid_gradient(b, grad, b.ew("subtract", previous_state, n), z)
    grad_n = through_tanh(b, b.ew("multiply", grad, b.ew("subtract", 1.0, z)), n)
    grad_r = _sigmoid_gradient(b, grad_n, hidden_n, r)
    grad_input = b.graph.concatenate((grad_r, grad_z, grad_n), 1)
    grad_hidden = b.graph.concatenate((grad_r, grad_z, b.ew("multiply", grad_n, r)), 1)
    gradients = [grad_input, grad_hidden, b.ew("multiply", grad, z)]
    if has_bias:
        gradients += [b.reduce("add", gates, [0]) for gates in (grad_input, grad_hidden)]
    return tuple(b.as_result(part, index) for index, part in enumerate(gradients))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
