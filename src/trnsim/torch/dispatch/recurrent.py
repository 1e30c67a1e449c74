"""The fused cells of LSTM and GRU, which PyTorch calls on devices but lacks for the CPU.

Each is the textbook cell; its workspace keeps values for the gradient. The order of gates is
PyTorch's: input, forget, cell, output for LSTM; reset, update, new for GRU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from trnsim.torch.api.memory import place
from trnsim.torch.call_recording import recorded_kernel
from trnsim.torch.dispatch.alias import host_alias
from trnsim.torch.pytorch import Kernel, Library

if TYPE_CHECKING:
    from torch import Tensor

CellResults = tuple["Tensor | None", ...]
"""Results of a cell or of its gradient, on the device."""


def register(library: Library) -> None:
    """Register the kernels of this file."""
    for name, kernel in _KERNELS.items():
        library.impl(name, recorded_kernel(f"aten::{name}", kernel), "PrivateUse1")


def _with_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return host_alias(gates) if bias is None else host_alias(gates) + host_alias(bias)


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> CellResults:
    """aten::_thnn_fused_lstm_cell: hidden state, cell state, and the four gates [N, 4H]."""
    core = cx.get_device()
    gates = _with_bias(input_gates, input_bias) + _with_bias(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, dim=1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * host_alias(cx) + i * g
    return tuple(place(part, core) for part in (o * cy.tanh(), cy, torch.cat((i, f, g, o), dim=1)))


def lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> CellResults:
    """aten::_thnn_fused_lstm_cell_backward_impl: gradients of gates, cell state and bias."""
    core = cx.get_device()
    i, f, g, o = host_alias(workspace).chunk(4, dim=1)
    tanh_cy = host_alias(cy).tanh()
    grad_hidden = torch.zeros_like(tanh_cy) if grad_hy is None else host_alias(grad_hy)
    grad_cell = grad_hidden * o * (1 - tanh_cy * tanh_cy)
    if grad_cy is not None:
        grad_cell = grad_cell + host_alias(grad_cy)
    grad_gates = torch.cat(
        (
            grad_cell * g * i * (1 - i),
            grad_cell * host_alias(cx) * f * (1 - f),
            grad_cell * i * (1 - g * g),
            grad_hidden * tanh_cy * o * (1 - o),
        ),
        dim=1,
    )
    grad_bias = place(grad_gates.sum(dim=0), core) if has_bias else None
    return place(grad_gates, core), place(grad_cell * f, core), grad_bias


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> CellResults:
    """aten::_thnn_fused_gru_cell: hidden state, and reset, update, new, hx, hidden new [N, 5H]."""
    core = hx.get_device()
    input_r, input_z, input_n = _with_bias(input_gates, input_bias).chunk(3, dim=1)
    hidden_r, hidden_z, hidden_n = _with_bias(hidden_gates, hidden_bias).chunk(3, dim=1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    host_hx = host_alias(hx)
    hy = n + z * (host_hx - n)
    return place(hy, core), place(torch.cat((r, z, n, host_hx, hidden_n), dim=1), core)


def gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> CellResults:
    """aten::_thnn_fused_gru_cell_backward: gradients of both gates, hidden state, both biases."""
    core = grad_hy.get_device()
    r, z, n, hx, hidden_n = host_alias(workspace).chunk(5, dim=1)
    grad = host_alias(grad_hy)
    grad_z = grad * (hx - n) * z * (1 - z)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_r = grad_n * hidden_n * r * (1 - r)
    grad_input = torch.cat((grad_r, grad_z, grad_n), dim=1)
    grad_hidden = torch.cat((grad_r, grad_z, grad_n * r), dim=1)
    gradients = [grad_input, grad_hidden, grad * z]
    if has_bias:
        gradients += [grad_input.sum(dim=0), grad_hidden.sum(dim=0)]
    device_gradients: list[Tensor | None] = [place(gradient, core) for gradient in gradients]
    return tuple(device_gradients if has_bias else [*device_gradients, None, None])


_KERNELS: Final[dict[str, Kernel]] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
