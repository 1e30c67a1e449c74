"""A stored program as an fx graph of PyTorch, and a traced fx graph as a stored program's calls."""

from __future__ import annotations

import keyword
import operator
import re
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode

from trnsim.errors import BadInput, NotModelled
from trnsim.torch.compile.origins import line_of
from trnsim.torch.models.archive import only_computes
from trnsim.torch.traces.encoding import (
    DTYPES,
    MalformedProgram,
    checked_index,
    decode_argument,
    encode_argument,
)
from trnsim.torch.traces.exchanges import rank_count
from trnsim.torch.traces.kernels.embedding import kernel_operator
from trnsim.torch.traces.stored import StoredCall, StoredPlace, StoredProgram, StoredTensor

GET_ITEM: Final = "getitem"
_NAME: Final = re.compile(r"(?P<library>[A-Za-z_]\w*)\.(?P<name>[A-Za-z_]\w*)\.(?P<form>\w+)")
_GROUPED_PRODUCT: Final = ("transformers", "grouped_mm_fallback")
"""transformers' operator in place of PyTorch's `_grouped_mm` while a model of experts is compiled.

It has the same arguments. PyTorch's operator is stored in its place, so that a program loads
without transformers.

Source: transformers 5.23, integrations/moe.py.
"""
_ALIGNMENT_BYTES: Final = 16
"""Alignment of every row and matrix of `_grouped_mm`, by PyTorch's check."""
_FIX: Final = "trace a part of the model that is made of PyTorch's operators"


class Calls:
    """The calls of a traced graph, in the form of a stored program.

    Attributes:
        calls: calls of operators, in order.
        places: places in the model's code.
        outputs: the number of each returned value. Values are numbered from 0: weights, then
            inputs, then the result of each call.
    """

    def __init__(self, module: fx.GraphModule, values: list[fx.Node]) -> None:
        """The calls of `module`, whose weights and then inputs are `values`.

        Raises:
            NotModelled: for a call that cannot be stored.
        """
        self.calls: list[StoredCall] = []
        self.places: list[StoredPlace] = [StoredPlace()]
        self._numbers = {node: number for number, node in enumerate(values)}
        self._places: dict[tuple[Any, ...], int] = {}
        self.outputs: list[int] = []
        for node in module.graph.nodes:
            if node.op == "output":
                results: Any = node.args[0]
                self.outputs = [self._numbers[value] for value in results]
            elif node.op == "call_function":
                self._add(node)

    def _add(self, node: fx.Node) -> None:
        self._numbers[node] = len(self._numbers)
        try:
            call = StoredCall(
                _operator_name(node),
                encode_argument(node.args, self._numbers.__getitem__),
                {
                    name: encode_argument(value, self._numbers.__getitem__)
                    for name, value in node.kwargs.items()
                },
                _stored_result(node.meta.get("val")),
                self._place_of(node),
            )
        except MalformedProgram as error:
            raise NotModelled(
                f"{node.target} of a traced program with {error}", fix=_FIX, line=line_of(node)
            ) from error
        self.calls.append(call)

    def _place_of(self, node: fx.Node) -> int:
        """The index of a node's place."""
        stack = node.meta.get("nn_module_stack") or {}
        modules = tuple((str(path), str(name)) for path, name in stack.values())
        line = str(node.meta.get("stack_trace") or "").strip()
        if not modules and not line:
            return 0
        key = (modules, line)
        if key not in self._places:
            self._places[key] = len(self.places)
            self.places.append(StoredPlace([list(pair) for pair in modules], line))
        return self._places[key]


def _operator_name(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return GET_ITEM
    if not isinstance(node.target, OpOverload):
        raise MalformedProgram("a call that is no operator of PyTorch's registry")
    target: Any = node.target
    namespace, _, name = str(target.name()).partition("::")
    packet = name.partition(".")[0]
    if (namespace, packet) == _GROUPED_PRODUCT and _is_aligned(node):
        return "aten._grouped_mm.default"
    return f"{namespace}.{packet}.{target._overloadname}"  # noqa: SLF001  PyTorch's name


def _is_aligned(node: fx.Node) -> bool:
    """True for groups of rows and matrices that PyTorch's `_grouped_mm` accepts."""
    values: list[Any] = [operand.meta.get("val") for operand in node.all_input_nodes]
    if len(values) != 3 or not all(isinstance(value, Tensor) for value in values):  # noqa: PLR2004
        return False
    *factors, group_ends = values
    return group_ends.dtype is torch.int32 and all(
        step == 1 or step * factor.itemsize % _ALIGNMENT_BYTES == 0
        for factor in factors
        for step in factor.stride()
    )


def _stored_result(value: Any) -> StoredTensor | list[StoredTensor | None] | None:
    if isinstance(value, Tensor):
        return StoredTensor.of(value)
    if isinstance(value, list | tuple):
        return [StoredTensor.of(part) if isinstance(part, Tensor) else None for part in value]
    if value is None or isinstance(value, bool | int | float):
        return None
    raise MalformedProgram(f"a result of type {type(value).__name__}")


def graph_module(program: StoredProgram, device: str) -> fx.GraphModule:
    """The graph of a stored program on a device: weights and inputs are its arguments.

    Raises:
        BadInput: for a program with content that could do more than compute.
    """
    try:
        return _GraphBuilder(program, torch.device(device)).module()
    except _UnregisteredOperator as error:
        raise BadInput(
            f"{program.origin}: a program with a call of {error.name!r}, an operator of a library "
            "that is not imported here",
            fix=f"import the library that registers torch.ops.{error.name.partition('.')[0]}, "
            "then load the module again",
        ) from error
    except (MalformedProgram, RuntimeError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{program.origin}: a program with {reason}, which trnsim never writes",
            fix="do not trust the file; or trace the model again",
        ) from error


class _UnregisteredOperator(Exception):
    """The name of an operator that no imported library registers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _GraphBuilder:
    """Builder of the fx graph of a stored program."""

    def __init__(self, program: StoredProgram, device: torch.device) -> None:
        self._program = program
        self._device = device
        self._graph = fx.Graph()
        self._fakes = FakeTensorMode()
        self._values: list[fx.Node] = []

    def module(self) -> fx.GraphModule:
        """The graph; the metadata of each node has its result as a fake tensor."""
        tensors: Mapping[str, StoredTensor]
        for kind, tensors in (("weight", self._program.weights), ("input", self._program.inputs)):
            for number, tensor in enumerate(tensors.values()):
                node = self._graph.placeholder(f"{kind}_{number}")
                node.meta["val"] = self._fake(tensor)
                self._values.append(node)
        for call in self._program.calls:
            self._values.append(self._call(call))
        self._graph.output([self._values[number] for number in self._program.outputs])
        module = fx.GraphModule(nn.Module(), self._graph)
        rank_count(module)  # refuses exchanges that no trace writes
        return module

    def _call(self, call: StoredCall) -> fx.Node:
        args = tuple(decode_argument(value, self._values, self._device) for value in call.args)
        kwargs = {
            name: decode_argument(value, self._values, self._device)
            for name, value in call.kwargs.items()
        }
        target: Any = kernel_operator(self._program, call, args)
        if target is None:
            target = operator.getitem if call.operator == GET_ITEM else _operator(call.operator)
        if call.operator == GET_ITEM:
            _check_item(args, kwargs)
        else:
            _check_keywords(target, kwargs)
        node = self._graph.call_function(target, args, kwargs)
        result = call.result
        if isinstance(result, list):
            node.meta["val"] = [None if part is None else self._fake(part) for part in result]
        else:
            node.meta["val"] = None if result is None else self._fake(result)
        place = self._program.places[call.place]
        node.meta["nn_module_stack"] = {path: (path, name) for path, name in place.modules}
        node.meta["stack_trace"] = place.line
        return node

    def _fake(self, tensor: StoredTensor) -> Tensor:
        """A fake tensor on the device: shape, strides and type, but no values."""
        dtype = DTYPES[tensor.dtype]
        with self._fakes:
            buffer = torch.empty_strided(
                tensor.shape, tensor.stride, dtype=dtype, device=self._device
            )
            if not tensor.offset:
                return buffer
            reach = tensor.offset + sum(
                max(length - 1, 0) * step
                for length, step in zip(tensor.shape, tensor.stride, strict=True)
            )
            storage = torch.empty(reach + 1, dtype=dtype, device=self._device)
            return storage.as_strided(tensor.shape, tensor.stride, tensor.offset)


def _check_item(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the arguments of `getitem`: a call with several results, and the index of one.

    Raises:
        MalformedProgram: for other arguments.
    """
    if kwargs or len(args) != 2 or not isinstance(args[0], fx.Node):  # noqa: PLR2004  a list, an index
        raise MalformedProgram("a getitem of other arguments than a call and an index")
    results = args[0].meta.get("val")
    if not isinstance(results, list):
        raise MalformedProgram("a getitem of a call with a single result")
    checked_index(args[1], len(results), "the index of a getitem")


def _check_keywords(operator: OpOverload[..., Any], kwargs: Mapping[str, Any]) -> None:
    """Check the names of arguments, which fx writes into the code that it executes.

    Raises:
        MalformedProgram: for a name that the operator's schema lacks.
    """
    names = {argument.name for argument in operator._schema.arguments}  # noqa: SLF001  PyTorch's
    for name in kwargs:
        if name not in names or keyword.iskeyword(name):
            raise MalformedProgram(f"an argument {name[:40]!r} of {operator}")


def _operator(name: str) -> OpOverload[..., Any]:
    """The operator of a name.

    Raises:
        MalformedProgram: for a name that is no operator's, or of an operator that may do more than
            compute.
        _UnregisteredOperator: for an operator that no imported library registers.
    """
    match = _NAME.fullmatch(name)
    if match is None or not only_computes(match["library"], match["name"]):
        raise MalformedProgram(f"a call of {name[:80]!r}")
    packet = getattr(getattr(torch.ops, match["library"]), match["name"], None)
    overload = getattr(packet, match["form"], None)
    if not isinstance(overload, OpOverload):
        raise _UnregisteredOperator(name[:80])
    return overload
