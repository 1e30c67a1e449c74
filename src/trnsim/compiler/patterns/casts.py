"""--auto-cast: operations on float32 become operations on a shorter type.

"matmult" casts operands of the Tensor Engine, which multiplies in products, convolutions and
attention; the results are float32 again. "all" casts every operation, and tensors between
operations have the short type; inputs and outputs of the graph stay float32. AWS does not document
the following choices. Values that are computed from integers or booleans alone (indices, masks,
counts) and random numbers are not cast until an operation combines them with a tensor that is cast.
Operands of the user's kernels and of branches keep their types.

Source: aws-neuron-sdk compiler/neuronx-cc/api-reference-guide/index.rst, --auto-cast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, Final

from trnsim.compiler.flags import Flags
from trnsim.errors import BadInput
from trnsim.graph import Graph, Kind, Node, TensorType, Value, verify
from trnsim.graph.graph import Operand, result_types
from trnsim.graph.operation import Operation
from trnsim.graph.ops.contraction import AttentionBackward
from trnsim.graph.ops.layout import Reinterpret
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.rounding import BitcastConvert, Convert

_F32: Final = "float32"
_BIT_CASTS: Final = (Reinterpret, BitcastConvert)
"""Operations that read the bits of their operand."""
_LOGS_OPERAND: Final = AttentionBackward.operands.index("logs")
"""Position of the operand of log-sum-exps, which stays float32."""


def apply_casts(graph: Graph, flags: Flags) -> Graph:
    """`graph` with the casts that --auto-cast asks for; the graph itself if there are none.

    Inputs keep their numbers and types, and so does every result whose type stays.
    """
    if flags.auto_cast == "none" or not flags.cast_dtype:
        return graph
    casting = _Casting(graph, flags.cast_dtype, is_all=flags.auto_cast == "all")
    for node in graph.nodes:
        casting.add(node)
    cast_graph = casting.graph
    cast_graph.outputs = [casting.in_own_type(value) for value in graph.outputs]
    cast_graph.prune()
    verify(cast_graph)
    return cast_graph


class _Casting:
    """The graph with casts, under construction."""

    def __init__(self, graph: Graph, dtype: str, *, is_all: bool) -> None:
        self.graph = graph.without_nodes()
        self._dtype = dtype
        self._is_all = is_all
        self._floating = {value.number for value in graph.inputs if value.type.is_floating}
        """Numbers of floating-point values that are not computed from integers alone."""
        self._recast: dict[int, Value] = {}
        """For each value whose type has changed, the new value, by the old value's number."""
        self._converted: dict[tuple[int, str], Value] = {}
        """Conversions of values, by the value's number and the type."""
        self._numbers: dict[int, float] = {}
        """Constants of float32, by the value's number."""

    def add(self, node: Node) -> None:
        """Add an operation, cast or unchanged."""
        self._record(node)
        self.graph.current_origin = node.origin
        floating_operands = [value for value in node.values if value.number in self._floating]
        if floating_operands:
            self._floating |= {value.number for value in node.results if value.type.is_floating}
        is_of_float32 = any(value.dtype == _F32 for value in floating_operands)
        is_cast = is_of_float32 and (self._is_all or node.kind is Kind.CONTRACTION)
        if not is_cast or _has_own_types(node) or not self._cast(node):
            self.graph.add(node.operation, self._operands(node, self.in_own_type), node.results)

    def in_own_type(self, value: Value) -> Value:
        """A value in the type that it has in the graph before casts."""
        return self._convert_to(self._recast.get(value.number, value), value.dtype)

    def _record(self, node: Node) -> None:
        """Record a constant, and a value of the short type that is converted to float32."""
        result = node.result
        if isinstance(node.operation, Constant) and result.dtype == _F32:
            self._numbers[result.number] = node.operation.number
        if isinstance(node.operation, Convert) and result.dtype == _F32:
            current = self._recast.get(node.values[0].number, node.values[0])
            if current.dtype == self._dtype:
                self._converted[result.number, self._dtype] = current

    def _cast(self, node: Node) -> bool:
        """Add an operation in the short type; False if it is not defined on it."""
        operands = self._operands(node, self._to_short_type)
        operation = _in_short_type(node.operation, self._dtype) if self._is_all else node.operation
        try:
            types = result_types(operation, operands)
        except BadInput:
            return False
        if operation.names_dtype:
            types = (TensorType(types[0].shape, self._result_dtype(node.result.type)), *types[1:])
        results = [
            result if result.type == type_ else self.graph.fresh(type_)
            for result, type_ in zip(node.results, types, strict=True)
        ]
        self.graph.add(operation, operands, results)
        for old, new in zip(node.results, results, strict=True):
            if old != new and self._is_all:
                self._recast[old.number] = new
            elif old != new:
                self.graph.add(Convert(to=old.dtype), (new,), (old,))
        return True

    def _result_dtype(self, type_: TensorType) -> str:
        """The element type of a result, if the operation lets a graph name it."""
        return self._dtype if self._is_all and type_.dtype == _F32 else type_.dtype

    def _operands(self, node: Node, convert: Callable[[Value], Value]) -> list[Operand]:
        """The operands of an operation, tensors after `convert`; log-sum-exps keep their type."""
        is_backward = isinstance(node.operation, AttentionBackward)
        return [
            operand
            if not isinstance(operand, Value)
            else self.in_own_type(operand)
            if is_backward and place == _LOGS_OPERAND
            else convert(operand)
            for place, operand in enumerate(node.operands)
        ]

    def _to_short_type(self, value: Value) -> Value:
        """A value, converted to the short type if it is float32."""
        current = self._recast.get(value.number, value)
        return self._convert_to(current, self._dtype) if current.dtype == _F32 else current

    def _convert_to(self, value: Value, dtype: str) -> Value:
        """A value converted to a type; each conversion is added to the graph once."""
        if value.dtype == dtype:
            return value
        key = value.number, dtype
        if key not in self._converted:
            number = self._numbers.get(value.number)
            self._converted[key] = (
                self.graph.elementwise("convert", value, dtype=dtype)
                if number is None
                else self.graph.constant(number, TensorType(value.shape, dtype))
            )
        return self._converted[key]


def _has_own_types(node: Node) -> bool:
    """True if a node needs its types: it runs the user's code, or reads bits."""
    return node.kind in (Kind.CONTROL, Kind.CALL) or isinstance(node.operation, _BIT_CASTS)


def _in_short_type(operation: Operation, dtype: str) -> Operation:
    """An operation whose attributes name the short type in the place of float32."""
    changes: dict[str, Any] = {}
    for attribute in fields(operation):
        value = getattr(operation, attribute.name)
        if value == _F32:
            changes[attribute.name] = dtype
        elif isinstance(value, TensorType) and value.dtype == _F32:
            changes[attribute.name] = TensorType(value.shape, dtype)
    return replace(operation, **changes) if changes else operation
