"""The operator, the module and the user's source line of an FX node."""

from __future__ import annotations

import re
from typing import Any, Final

from torch import Tensor, fx

from trnsim.compiler.ncc.calls import CallTensor, FrameworkCall
from trnsim.device.program_line import is_program
from trnsim.errors import SourceLine
from trnsim.graph import Origin
from trnsim.torch.aten.operator_call import plain_name

_FRAME_LINE: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_STACKS: Final = ("nn_module_stack", "fwd_nn_module_stack")
"""Metadata keys of a node's module stack, outermost first; the second is of backward nodes."""
_ROOT_PREFIX: Final = re.compile(r"^[LG]\['[^']*'\]")
_MODULE_KEY: Final = re.compile(r"(?:\._modules)?\['?(?P<key>[^'\]]+)'?\]")


def call_of(node: fx.Node, name: str) -> FrameworkCall:
    """The call of the operator `name` that a node represents."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    argument_names = [*names, *map(str, range(len(names), len(node.args)))]
    arguments = dict(zip(argument_names, node.args, strict=False)) | dict(node.kwargs)
    return FrameworkCall(
        name.partition(".")[0],
        plain_name(name),
        {key: _without_nodes(value) for key, value in arguments.items()},
        tuple(_call_tensors(node.meta.get("val"))),
        line_of(node),
    )


def origin_of(node: fx.Node, name: str) -> Origin:
    """The module, framework operator and source line of a node that calls the operator `name`."""
    return Origin(module_of(node), name.partition(".")[0], line_of(node))


def module_of(node: fx.Node) -> str:
    """The path of the innermost module that a node was called in, or ""."""
    stack = next((node.meta[name] for name in _STACKS if node.meta.get(name)), None)
    if not stack:
        return ""
    path = _ROOT_PREFIX.sub("", str(list(stack.values())[-1][0]))
    return _MODULE_KEY.sub(lambda match: f".{match['key']}", path).removeprefix(".")


def line_of(node: fx.Node) -> SourceLine | None:
    """The innermost line of the user's program that a node came from."""
    frames = _FRAME_LINE.findall(node.meta.get("stack_trace") or "")
    program_lines = [SourceLine(file, int(line)) for file, line in frames if is_program(file)]
    return program_lines[-1] if program_lines else None


def dynamic_inputs(module: fx.GraphModule) -> list[CallTensor]:
    """The inputs of a graph whose size is symbolic."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    tensors = [tensor for node in inputs for tensor in _call_tensors(node.meta.get("val"))]
    return [tensor for tensor in tensors if None in tensor.shape]


def dynamic_calls(module: fx.GraphModule) -> list[FrameworkCall]:
    """The calls of a graph with results whose size depends on values."""
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    calls = [call_of(node, operator_name(node)) for node in nodes]
    return [call for call in calls if any(None in result.shape for result in call.results)]


def operator_name(node: fx.Node) -> str:
    """The full name of the operator or function that a node calls ("aten::add.Tensor")."""
    return str(getattr(node.target, "name", lambda: str(node.target))())


def _call_tensor(tensor: Tensor) -> CallTensor:
    lengths: tuple[Any, ...] = tuple(tensor.shape)
    shape = tuple(length if isinstance(length, int) else None for length in lengths)
    return CallTensor(shape, str(tensor.dtype).removeprefix("torch."))


def _call_tensors(value: Any) -> list[CallTensor]:
    parts = value if isinstance(value, list | tuple) else [value]
    return [_call_tensor(part) for part in parts if isinstance(part, Tensor)]


def _without_nodes(value: Any) -> Any:
    """An argument without PyTorch's classes: tensors as `CallTensor`, sequences as lists."""
    if isinstance(value, fx.Node):
        metadata = value.meta.get("val")
        return _call_tensor(metadata) if isinstance(metadata, Tensor) else metadata
    if isinstance(value, list | tuple):
        return [_without_nodes(part) for part in value]
    return value
