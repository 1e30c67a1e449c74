"""A cut's program as a compiled graph, by the import and the compiler of `torch.compile`.

The recorded calls become a PyTorch graph without values. A program with an operator that has no
graph is timed call by call, as on the device without `torch_xla`, and its report says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any, Final

import torch
from torch import fx

from trnsim.compiler import Flags
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.device.call_time import DeviceCall
from trnsim.device.compiled_graph import CompiledGraph
from trnsim.device.device_core import target
from trnsim.device.graph_file import GraphFile
from trnsim.device.model_report import Subject
from trnsim.device.program_cache import keep_program, leave_program
from trnsim.errors import EmulatorError
from trnsim.lower import memory_plan
from trnsim.torch import pytorch
from trnsim.torch.aten.operator_call import OperatorCall
from trnsim.torch.aten.spec import spec_of
from trnsim.torch.compile.fx_import import ImportedGraph, KernelTarget, import_graph
from trnsim.torch.compile.refused import raise_or_warn, refusals_of_graph
from trnsim.xla.cuts.programs import CutProgram, Reference
from trnsim.xla.cuts.rules import rule_of
from trnsim.xla.cuts.values import (
    COPY,
    EXCHANGE,
    FILLED,
    SCATTER,
    SEED,
    VIEW,
    Geometry,
    HostNumber,
    Operand,
    RecordedCall,
)
from trnsim.xla.cuts.views import ViewCall, view_calls

_META: Final = torch.device("meta")


@dataclass(frozen=True)
class CompiledCut:
    """A program's calls on the device.

    Attributes:
        calls: the compiled graph alone, or the calls of its operators.
        missing: operators without a graph, each with the reason; empty for a compiled graph.
    """

    calls: tuple[DeviceCall, ...]
    missing: tuple[str, ...] = ()


def compile_program(program: CutProgram, name: str) -> CompiledCut:
    """Compile a program.

    Raises:
        EmulatorError: for a program that neuronx-cc refuses.
    """
    graph = fx_graph(program)
    if isinstance(graph, str):
        leave_program(name, graph)
        return CompiledCut(tuple(operator_calls(program)), (graph,))
    try:
        imported_graph = import_graph(graph)
    except EmulatorError as error:  # the program runs all the same
        leave_program(name, error.reason)
        return CompiledCut(tuple(operator_calls(program)), (error.reason,))
    if imported_graph.missing:
        keep_program(lambda: Subject(name, GraphFile.of(imported_graph)))
        return CompiledCut(tuple(operator_calls(program)), imported_graph.missing)
    flags = Flags.of_environment()
    raise_or_warn(refusals_of_graph(imported_graph, target().name, flags))
    keep_program(lambda: Subject(name, GraphFile.of(imported_graph)))
    return CompiledCut((_compiled_graph(imported_graph, name, flags),))


def _compiled_graph(imported_graph: ImportedGraph, name: str, flags: Flags) -> CompiledGraph:
    graph = apply_casts(imported_graph.graph, flags)
    return CompiledGraph(
        name,
        imported_graph.inputs,
        graph,
        memory_plan(graph, imported_graph.names),
        imported_graph.operators,
        imported_graph.missing,
        "a cut of a torch_xla program",
        flags,
    )


def fx_graph(program: CutProgram) -> fx.Graph | str:
    """A program as a PyTorch graph; a text with the reason if some call cannot be in a graph."""
    build = _FxBuilder(program)
    for node, references in zip(program.nodes, program.operands, strict=True):
        reason = build.add(node, references)
        if reason:
            return reason
    return build.result()


class _FxBuilder:
    """A PyTorch graph under construction."""

    def __init__(self, program: CutProgram) -> None:
        self.program = program
        self.graph = fx.Graph()
        self._results: list[list[fx.Node | None]] = []
        self._inputs: list[Any] = []
        self._sent_nodes: list[Any] = []
        for number, geometry in enumerate(program.inputs):
            if isinstance(geometry, HostNumber):
                self._inputs.append(geometry.value)
            else:
                node = self.graph.placeholder(f"input_{number}")
                node.meta["val"] = meta_tensor(geometry)
                self._inputs.append(node)

    def add(self, node: RecordedCall, references: Sequence[Reference]) -> str:
        """Add a call; returns why that is impossible, or ""."""
        signature = node.signature
        operands = [self._value(reference) for reference in references]
        if signature.name == SEED:
            self._results.append([None])
            return ""
        if signature.name in (VIEW, SCATTER):
            return self._add_view(node, operands)
        if signature.operator.startswith(EXCHANGE):
            return self._add_exchange(node, operands)
        values = [meta_tensor(geometry) for geometry in signature.results]
        if signature.kernel is not None:
            target = KernelTarget(signature.kernel)
            self._results.append(self._call(node, target, tuple(operands), {}, values))
            return ""
        overload = pytorch.overload(signature.operator)
        if overload is None:
            return f"{signature.operator} is no operator of PyTorch's"
        args = [_with_operands(argument, operands, list) for argument in signature.arguments]
        kwargs = {
            key: _with_operands(argument, operands, list) for key, argument in signature.keywords
        }
        if "::" in signature.operator and rule_of(signature.operator).is_random:
            args.pop()  # the seed
        if signature.name == FILLED:
            kwargs["dtype"] = signature.results[0][3]
        self._results.append(self._call(node, overload, tuple(args), kwargs, values))
        return ""

    def result(self) -> fx.Graph:
        """The graph, with its outputs."""
        outputs = [
            *(self._value(reference) for reference in self.program.outputs),
            *self._sent_nodes,
        ]
        self.graph.output([output for output in outputs if isinstance(output, fx.Node)])
        return self.graph

    def _add_exchange(self, node: RecordedCall, operands: list[Any]) -> str:
        """Add a collective: its operands are outputs of the graph, its results inputs."""
        self._sent_nodes += operands
        received_nodes: list[fx.Node | None] = []
        with self.graph.inserting_before(next(iter(self.graph.nodes), None)):
            for geometry in node.signature.results:
                placeholder = self.graph.placeholder(
                    f"received_{len(self._results)}_{len(received_nodes)}"
                )
                placeholder.meta["val"] = meta_tensor(geometry)
                received_nodes.append(placeholder)
        self._results.append(received_nodes)
        return ""

    def _value(self, reference: Reference) -> Any:
        values = self._inputs if reference.call < 0 else self._results[reference.call]
        return values[reference.index]

    def _call(
        self, node: RecordedCall, overload: Any, args: Any, kwargs: Any, values: list[Any]
    ) -> list[fx.Node | None]:
        fx_call = self.graph.call_function(overload, args, kwargs)
        self._place(fx_call, node)
        if len(values) == 1 and not node.signature.operator.startswith("aten::_foreach"):
            fx_call.meta["val"] = values[0]
            return [fx_call]
        positions = node.signature.positions or range(len(values))
        values_by_position = dict(zip(positions, values, strict=True))
        fx_call.meta["val"] = tuple(
            values_by_position.get(index) for index in range(max(positions) + 1)
        )
        parts: list[fx.Node | None] = []
        for number, value in values_by_position.items():
            part = self.graph.call_function(getitem, (fx_call, number))
            part.meta["val"] = value
            parts.append(part)
        return parts

    def _add_view(self, node: RecordedCall, operands: list[Any]) -> str:
        base_geometry, geometry = node.signature.arguments
        calls = view_calls(base_geometry, geometry)
        if calls is None:
            return (
                f"a view of {list(base_geometry[0])} as {list(geometry[0])} in steps has no graph"
            )
        if node.signature.name == SCATTER:
            return self._add_write(node, operands, calls)
        view_node = operands[0]
        for view in calls:
            view_node = self._derive(node, view.operator, (view_node, *view.arguments))
        self._results.append([view_node])
        return ""

    def _add_write(self, node: RecordedCall, operands: list[Any], calls: list[ViewCall]) -> str:
        """Add a write to a view: each view of the chain is written back, the last first."""
        base, value = operands
        if any(view.operator == "aten::expand" for view in calls):
            return "a write to a repeated view has no graph"
        parts = [base]
        for view in calls:
            parts.append(self._derive(node, view.operator, (parts[-1], *view.arguments)))
        for part, view in zip(reversed(parts[:-1]), reversed(calls), strict=True):
            if view.operator == "aten::slice.Tensor":
                arguments = (part, value, *view.arguments)
                value = self._derive(node, "aten::slice_scatter", arguments)
            elif view.operator == "aten::permute":
                order: list[int] = view.arguments[0]
                inverse = sorted(range(len(order)), key=lambda dim: order[dim])
                value = self._derive(node, view.operator, (value, inverse))
            else:
                value = self._derive(node, view.operator, (value, list(part.meta["val"].shape)))
        self._results.append([value])
        return ""

    def _derive(self, node: RecordedCall, operator: str, args: tuple[Any, ...]) -> fx.Node:
        """A call whose result PyTorch's shape function determines."""
        overload: Any = pytorch.overload(operator)
        if operator == "aten::view":
            overload = torch.ops.aten.reshape.default
        call = self.graph.call_function(overload, args)
        values = [arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in args]
        call.meta["val"] = overload(*values)
        self._place(call, node)
        return call

    @staticmethod
    def _place(call: fx.Node, node: RecordedCall) -> None:
        if node.place is not None:
            file, line = node.place
            call.meta["stack_trace"] = f'  File "{file}", line {line}, in program'


def meta_tensor(geometry: Geometry) -> Any:
    """A tensor of a geometry without values."""
    shape, strides, _, dtype = geometry
    return torch.empty_strided(shape, strides, dtype=dtype, device=_META)


def _with_operands(argument: Any, operands: list[Any], sequence: type = tuple) -> Any:
    """An argument with operands in the place of placeholders; tuples become `sequence`."""
    if isinstance(argument, Operand):
        return operands[argument.number]
    if isinstance(argument, tuple):
        return sequence([_with_operands(part, operands, sequence) for part in argument])
    return argument


def operator_calls(program: CutProgram) -> list[DeviceCall]:
    """A program's operators and kernels one by one, each with its shapes."""
    calls: list[DeviceCall] = []
    for node, references in zip(program.nodes, program.operands, strict=True):
        signature = node.signature
        if signature.name in (VIEW, SCATTER, SEED) or "::" not in signature.operator:
            continue
        if signature.operator.startswith(EXCHANGE):
            continue
        if signature.kernel is not None:
            calls.append(signature.kernel)
            continue
        operands = [_spec(program, reference) for reference in references]
        results = tuple(spec_of(meta_tensor(geometry)) for geometry in signature.results)
        if signature.name == FILLED:
            number = _with_operands(signature.arguments[1], operands)
            calls.append(OperatorCall("aten::fill_.Scalar", (results[0], number), (), results))
            continue
        arguments = [_with_operands(argument, operands) for argument in signature.arguments]
        if signature.name != COPY and rule_of(signature.operator).is_random:
            arguments.pop()
        keywords = tuple(
            (key, _with_operands(argument, operands)) for key, argument in signature.keywords
        )
        calls.append(OperatorCall(signature.operator, tuple(arguments), keywords, results))
    return calls


def _spec(program: CutProgram, reference: Reference) -> Any:
    """The spec of an operand, or the number that it is."""
    source = program.source_of(reference)
    return source.value if isinstance(source, HostNumber) else spec_of(meta_tensor(source))
