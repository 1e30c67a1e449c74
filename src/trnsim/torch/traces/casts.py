"""The roundings of --auto-cast in an FX graph that the host computes; dtypes stay.

It rounds what `compiler.patterns.casts` casts in the graph that is timed: operands of products and
attention (matmult), or every result in float32 (all) except results of integers alone.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, fx

from trnsim.compiler import Flags

_aten: Final[Any] = torch.ops.aten
_PRODUCTS: Final = frozenset(
    {
        *("mm", "bmm", "addmm", "baddbmm", "addbmm", "matmul", "linear"),
        *("mv", "addmv", "dot", "vdot"),
        *("convolution", "_scaled_dot_product_fused_attention_overrideable", "einsum"),
    }
)
_ADDENDS: Final = frozenset({"addmm", "baddbmm", "addbmm", "addmv"})
"""Products whose first operand is an addend, not a factor."""
_BIAS: Final = 2
"""The place of a convolution's bias among its operands."""
_ROUNDED: Final = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""PyTorch's types with the chip's range; others do not change values of fast numerics."""


def cast_module(module: fx.GraphModule, flags: Flags) -> fx.GraphModule:
    """`module` with the roundings of --auto-cast; the module itself if there are none."""
    dtype = _ROUNDED.get(flags.auto_cast_type)
    if flags.auto_cast == "none" or dtype is None:
        return module
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    rounding = _Rounding(graph, dtype)
    is_all = flags.auto_cast == "all"
    for node in module.graph.nodes:
        if node.op == "call_function" and _operator_name(node) in _PRODUCTS and not is_all:
            copies[node] = _rounded_product(node, copies, rounding)
            continue
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if is_all and node.op != "output" and rounding.applies(node):
            copies[node] = rounding.of(copies[node])
    return fx.GraphModule(module, graph)


def _operator_name(node: fx.Node) -> str:
    return str(getattr(node.target, "name", lambda: "")()).partition("::")[2].partition(".")[0]


def _rounded_product(node: fx.Node, copies: dict[fx.Node, fx.Node], rounding: _Rounding) -> fx.Node:
    """A copy of a product in the new graph, with rounded factors."""
    is_added = _operator_name(node) in _ADDENDS
    args: Any = fx.map_arg(node.args, copies.__getitem__)
    factors = [
        rounding.of(value)
        if isinstance(value, fx.Node) and not (is_added and index == 0) and _is_float32(value)
        else value
        for index, value in enumerate(args)
    ]
    if _operator_name(node) == "convolution":
        factors[_BIAS] = args[_BIAS]
    kwargs: Any = fx.map_arg(node.kwargs, copies.__getitem__)
    target: Any = node.target
    copy = rounding.graph.call_function(target, tuple(factors), kwargs)
    copy.meta = dict(node.meta)
    return copy


class _Rounding:
    """Roundings that are added to a graph, each once."""

    def __init__(self, graph: fx.Graph, dtype: torch.dtype) -> None:
        self.graph = graph
        self._dtype = dtype
        self._rounded_nodes: dict[fx.Node, fx.Node] = {}
        self._real_nodes: set[fx.Node] = set()

    def applies(self, node: fx.Node) -> bool:
        """True for a float32 tensor that is not computed of integers alone."""
        value = node.meta.get("val")
        is_float = isinstance(value, Tensor) and value.dtype.is_floating_point
        if node.op in ("placeholder", "get_attr"):
            is_real = is_float
        else:
            is_real = any(operand in self._real_nodes for operand in node.all_input_nodes)
        if is_real:
            self._real_nodes.add(node)
        return is_real and _is_float32(node)

    def of(self, node: fx.Node) -> fx.Node:
        """A node's tensor rounded to the short type, as float32."""
        if node not in self._rounded_nodes:
            copy: Any = _aten._to_copy.default  # noqa: SLF001  PyTorch's name
            short_node = self.graph.call_function(copy, (node,), {"dtype": self._dtype})
            float32_node = self.graph.call_function(copy, (short_node,), {"dtype": torch.float32})
            value = node.meta["val"]
            short_node.meta["val"], float32_node.meta["val"] = value.to(self._dtype), value
            self._rounded_nodes[node] = float32_node
        return self._rounded_nodes[node]


def _is_float32(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype is torch.float32
