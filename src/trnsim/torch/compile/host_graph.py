"""Simplification of FX graphs for fast execution on the host: fewer operators, direct calls.

Tracing leaves transposes of transposes, detached tensors, views that change nothing, and copies for
a dropout that drops nothing. Each costs the host as much as a small product; so does PyTorch's work
around a call for autograd, which a traced graph does not need.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx
from torch._ops import OpOverload
from torch.fx.graph import CodeGen

from trnsim.torch import pytorch
from trnsim.torch.dispatch.contracts import read_contract

_aten: Final[Any] = torch.ops.aten
_VIEW_OPERATORS: Final = (_aten.view.default, _aten._unsafe_view.default)  # noqa: SLF001  an operator's name
_OPERATOR_CALL: Final = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)\(")


def callable_of(module: fx.GraphModule, writable_results: int | None = None) -> Callable[..., Any]:
    """`module` as a function of host tensors; its graph is simplified in place.

    Args:
        module: a traced graph on the host.
        writable_results: the program may write to this many of the first results; None: to all.
    """
    simplify(module.graph, writable_results)
    code_generator = _DirectCalls()
    module.graph.set_codegen(code_generator)
    module.graph.on_generate_code(lambda _: code_generator.substitute_calls)
    module.recompile()
    forward: Callable[..., Any] = module.forward

    def run(*args: Any) -> Any:
        with pytorch.without_dispatch_keys(pytorch.AUTOGRAD_KEYS):
            return forward(*args)

    return run


class _Functions:
    """The functions that generated code calls, as attributes."""


class _DirectCalls(CodeGen):
    """A code generator with direct calls of the function under an operator's Python object."""

    def __init__(self) -> None:
        super().__init__()
        self._functions = _Functions()

    def substitute_calls(self, body: list[str]) -> list[str]:
        """The code with `host.aten_add_Tensor(` instead of `torch.ops.aten.add.Tensor(`."""
        return [_OPERATOR_CALL.sub(self._direct_call, line) for line in body]

    def additional_globals(self) -> list[tuple[str, Any]]:
        """The global `host`."""
        return [("host", self._functions)]

    def _direct_call(self, call: re.Match[str]) -> str:
        namespace, packet, variant = call.groups()
        name = f"{namespace}_{packet}_{variant}"
        overload = getattr(getattr(getattr(torch.ops, namespace), packet), variant)
        setattr(self._functions, name, pytorch.function_under(overload))
        return f"host.{name}("


def simplify(graph: fx.Graph, writable_results: int | None = None) -> None:
    """Remove operators of `graph` whose result equals one of their operands, or its origin.

    Values and strides do not change. A result that the program may write to shares memory only
    where it did before: a copy stays if the copy or its origin is such a result.
    """
    output: Any = next(node for node in graph.nodes if node.op == "output").args[0]
    results = list(output) if isinstance(output, tuple | list) else [output]
    writable_nodes = {
        result for result in results[:writable_results] if isinstance(result, fx.Node)
    }
    is_written = any(_is_write(node) for node in graph.nodes)
    for node in list(graph.nodes):
        rule = _ORIGIN_RULES.get(node.target)
        origin = rule(node) if rule is not None else None
        if origin is None and not is_written and node.target is _aten.clone.default:
            origin = _copy_origin(node, writable_nodes)
        if origin is not None:
            if node in writable_nodes:
                writable_nodes.add(origin)
            node.replace_all_uses_with(origin)
            graph.erase_node(node)
        elif node.target is _aten.add.Tensor:
            _add_in_place(node)
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in _ORIGIN_RULES:
            graph.erase_node(node)


def _detach_origin(node: fx.Node) -> fx.Node:
    """The origin of a detached tensor: the graph computes no gradients."""
    (origin,) = node.all_input_nodes
    return origin


def _double_transpose_origin(node: fx.Node) -> fx.Node | None:
    """The origin of a transpose that undoes the same transpose."""
    inner_node: Any = node.args[0]
    if inner_node.target is node.target and set(inner_node.args[1:]) == set(node.args[1:]):
        origin: fx.Node = inner_node.args[0]
        return origin
    return None


def _view_origin(node: fx.Node) -> fx.Node | None:
    """The origin of a view with the same shape; a view of a view becomes a view of the origin."""
    origin: Any = node.args[0]
    inner_node: fx.Node = origin.args[0] if origin.target in _VIEW_OPERATORS else origin
    if inner_node is not origin:
        node.args = (inner_node, *node.args[1:])
    return inner_node if _geometry(node) == _geometry(inner_node) is not None else None


def _copy_origin(node: fx.Node, writable_nodes: set[fx.Node]) -> fx.Node | None:
    """The origin of a copy with the same strides, if no view of either is a result."""
    origin: Any = node.args[0]
    if node.kwargs or _geometry(node) is None or _geometry(node) != _geometry(origin):
        return None
    base = origin
    while _is_view(base):
        base = base.args[0]
    is_fresh = base.op == "call_function"
    return (
        None
        if not is_fresh or _escapes(node, writable_nodes) or _escapes(base, writable_nodes)
        else origin
    )


def _add_in_place(node: fx.Node) -> None:
    """Add the gradient of a slice to a sum in place, instead of as a tensor padded with zeros.

    The sum must itself be such a padded gradient, so that nothing else reads the overwritten
    tensor. Adding zeros would turn -0 into 0; here -0 stays.
    """
    operands: Any = node.args
    if node.kwargs or not all(isinstance(a, fx.Node) and len(a.users) == 1 for a in operands):
        return
    total, part = operands
    is_like = _geometry(node) is not None and _geometry(node) == _geometry(total) == _geometry(part)
    is_scattered = (
        part.target is _aten.select_backward.default and total.target in _PADDED_GRADIENTS
    )
    if is_like and is_scattered and node.meta["val"].dtype == total.meta["val"].dtype:
        gradient, _, axis, index = part.args
        node.target = add_selected
        node.args = (total, gradient, axis, index)
        node.graph.erase_node(part)


def add_selected(total: torch.Tensor, gradient: torch.Tensor, axis: int, index: int) -> Any:
    """``total + zeros with gradient at index``, written to total."""
    total.select(axis, index).add_(gradient)
    return total


def _escapes(node: fx.Node, writable_nodes: set[fx.Node]) -> bool:
    """True if a node or a view of it is in `writable_nodes`."""
    return node in writable_nodes or any(
        _is_view(user) and _escapes(user, writable_nodes) for user in node.users
    )


def _is_view(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return target is operator.getitem
    return target in _VIEW_OPERATORS or read_contract(target).is_view


def _is_write(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and any(read_contract(target).returned_arguments)


def _geometry(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides, if both are numbers."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return None
    sizes = (tuple(value.shape), tuple(value.stride()))
    return sizes if all(type(n) is int for part in sizes for n in part) else None


_PADDED_GRADIENTS: Final = (_aten.select_backward.default, add_selected)
_ORIGIN_RULES: Final[dict[Any, Callable[[fx.Node], fx.Node | None]]] = {
    _aten.detach.default: _detach_origin,
    _aten.t.default: _double_transpose_origin,
    _aten.transpose.int: _double_transpose_origin,
    **dict.fromkeys(_VIEW_OPERATORS, _view_origin),
}
