"""Programs of JAX as graphs: the records of their calls, and their values in `exact`.

A program becomes a graph only when a recording, exact numerics or the policy `chip` needs it; that
policy refuses operations that have no counterpart on the chip. The graph is compiled to one program
of a core by `trnsim.compiler`, as a graph of any framework is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.compiler import Flags, program
from trnsim.device.call_log import Scope, StepPhase, listening_recordings, note, note_collective
from trnsim.device.call_time import CallTime, DeviceCall, TensorSpec
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.compiled_graph import CompiledGraph, record_graph
from trnsim.device.device_core import target
from trnsim.device.fallback_policy import VARIABLE, count_host_fallback, state
from trnsim.device.faults import pending_faults, strike_fault
from trnsim.device.hbm_use import load
from trnsim.device.lockstep import compute_in_lockstep
from trnsim.device.model_report import Subject
from trnsim.device.numerics import mode
from trnsim.device.program_cache import keep_program, leave_program
from trnsim.errors import (
    EmulatorError,
    IllegalInstruction,
    InternalError,
    NotModelled,
    OutOfMemory,
    Unspecified,
)
from trnsim.fabric.floors import Floor
from trnsim.graph import Graph, Kind, TensorType
from trnsim.graph.ops.control_flow import Branching, While
from trnsim.graph.ops.leaves import Rng, RngBitGenerator
from trnsim.jax.large_integers import LargeIntegers
from trnsim.jax.stablehlo import ImportedModule
from trnsim.lower import GraphExchange, evaluate, exchange, memory_plan
from trnsim.lower.control import nodes_within

_SEPARATE_KINDS: Final = (Kind.CONTROL, Kind.CALL)
"""Kinds of nodes that are programs of their own: control flow, and calls of the user's kernels."""
_BRANCH_OPERATIONS: Final = frozenset({"stablehlo.case", "stablehlo.if"})
_PROGRAM_REFUSALS: Final = (OutOfMemory, IllegalInstruction, InternalError, NotModelled)
"""Errors of a graph that the chip's program cannot compute, so that the host does."""
Arrays = list[npt.NDArray[Any]]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ArraySpec(TensorSpec):
    """An array without its values; a token has no dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None

    @property
    def type(self) -> TensorType:
        """Its type in the graph."""
        return TensorType(self.shape, str(self.dtype))


@dataclass(frozen=True, eq=False)
class UntimedProgram:
    """A program without a graph, and so without a time.

    Attributes:
        reason: why it has no time.
    """

    name: str
    reason: str

    @property
    def operation(self) -> str:
        """The program's name."""
        return self.name

    def time(self, target: str) -> CallTime:
        """Refuse to give a time, on every chip.

        Raises:
            NotModelled: always.
        """
        raise NotModelled(f"{self.name} has no time on {target}: {self.reason}")


class LoweredProgram:
    """The graphs of a program, one per device: they differ where it reads the device's number.

    Attributes:
        devices: number of devices that run it together.
    """

    def __init__(
        self,
        name: str,
        module: Callable[[], Any],
        split: Callable[[], Any] | None,
        arguments: Callable[[], Sequence[ArraySpec]],
        devices: int,
    ) -> None:
        """A program that is not imported yet.

        Args:
            name: the name of the program.
            module: returns the program as JAX sent it.
            split: returns the program of one device, if XLA splits it; None if it does not.
            arguments: returns the arrays that a device takes, without values.
            devices: number of devices that run it together.
        """
        self.name = name
        self.devices = devices
        self._module = module
        self._split = split
        self._arguments = arguments
        self._graphs: dict[int, ImportedModule | EmulatorError] = {}
        self._large_integers: dict[int, LargeIntegers] = {}

    def _graph_or_error(self, device_number: int = 0) -> ImportedModule | EmulatorError:
        """A device's graph, or the error that refused it."""
        for graph in self._graphs.values():
            if isinstance(graph, EmulatorError) or not graph.is_device_specific:
                return graph
        if device_number not in self._graphs:
            self._graphs[device_number] = self._import(device_number)
        return self._graphs[device_number]

    def _import(self, device_number: int) -> ImportedModule | EmulatorError:
        # Loaded late: importing the rules takes a while, and a program may never need them.
        from trnsim.jax.stablehlo import Device, graph_of, is_device_program  # noqa: PLC0415

        try:
            module = self._module()
            shapes = [spec.shape for spec in self._arguments()]
            if self._split is not None and not is_device_program(module, shapes):
                module = self._split()
            return graph_of(module, Device(device_number, self.devices))
        except EmulatorError as error:
            return error

    def imported(self, device_number: int = 0) -> ImportedModule:
        """The program of a device as a graph.

        Raises:
            NotModelled: for an operation that a graph does not have, with the program's line.
        """
        graph = self._graph_or_error(device_number)
        if isinstance(graph, EmulatorError):
            raise graph
        return graph

    def keep(self) -> None:
        """Keep the program in the persistent cache, where the environment asks for it.

        A program without a graph is left out of the cache, as a chip could not run it.
        """
        module = self._graph_or_error(self.devices - 1)
        if isinstance(module, EmulatorError):
            leave_program(self.name, module.reason)
            return
        from trnsim.jax.stablehlo.exported import ProgramGraph  # noqa: PLC0415  loaded late, as above

        keep_program(lambda: Subject(self.name, ProgramGraph.of(module)))

    @cached_property
    def calls(self) -> tuple[DeviceCall, ...]:
        """The record of a call on each device.

        All devices have the time of the last device's graph. If the device's number selects
        branches, each device has the time of its own graph.
        """
        last_module = self._graph_or_error(self.devices - 1)
        if isinstance(last_module, EmulatorError):
            return (UntimedProgram(self.name, last_module.reason),) * self.devices
        if not last_module.is_device_specific or not _BRANCH_OPERATIONS & set(
            last_module.operators
        ):
            return (self._call(last_module),) * self.devices
        return tuple(self._call(self.imported(number)) for number in range(self.devices))

    def _call(self, module: ImportedModule) -> DeviceCall:
        plan = memory_plan(module.graph, module.names)
        inputs = tuple(self._arguments())
        flags = Flags.of_environment()
        constants = sum(array.nbytes for array in module.constants.values())
        return record_graph(
            self.name, inputs, module.graph, plan, module.operators, (), flags, constants=constants
        )

    @cached_property
    def exchanges(self) -> tuple[GraphExchange, ...]:
        """The exchanges of its devices, in order; members of groups are numbers of its devices."""
        graph = self._graph_or_error(self.devices - 1)
        return () if isinstance(graph, EmulatorError) else tuple(_exchanges(graph.graph))

    def note(self, cores: Sequence[int], positions: Sequence[int], numbers: Sequence[int]) -> None:
        """Record a call, where a recording listens.

        Args:
            cores: the cores of this process that run the program.
            positions: the index of each of these cores among the program's devices.
            numbers: for each device of the program, its number among the devices of all processes.
        """
        if pending_faults:
            for core in cores:
                strike_fault(core)
        if not listening_recordings():
            return
        for collective in self.exchanges:  # before the calls, so that they are of the same step
            group = _group_of(positions[0], collective.groups)
            if group:
                ranks = tuple(numbers[position] for position in group)
                note_collective(
                    CollectiveCall(collective.kind, collective.nbytes, ranks, Floor.PROGRAM)
                )
        for position, core in zip(positions, cores, strict=True):
            call = self.calls[position]
            note(call, core, _empty_scope)
            if isinstance(call, CompiledGraph):
                load(core, call, call)

    @cached_property
    def host_reason(self) -> str:
        """Why the host computes its values in exact numerics; empty if the chip's program does."""
        for number in range(self.devices):
            graph = self._graph_or_error(number)
            reason = graph.reason if isinstance(graph, EmulatorError) else _host_reason(graph)
            if reason:
                return reason
        return ""

    def values(self, arguments: Sequence[Arrays]) -> list[Arrays] | None:
        """The results of the chip's programs on each device's arrays; None if the host computes.

        Programs that the host computes are counted. A program with loops, branches or the user's
        kernels runs kernel by kernel, in the same way as its time is estimated.

        Raises:
            NotModelled: for an operation that only the host computes, under the policy `chip`.
        """
        reason = self.host_reason
        if not reason:
            modules = [self.imported(number) for number in range(len(arguments))]
            arrays = [
                arguments_of(module, module_arguments)
                for module, module_arguments in zip(modules, arguments, strict=True)
            ]
            reason = self._reason_of_values(modules, arrays)
            try:
                if not reason:
                    graphs = [module.graph for module in modules]
                    return [*compute_in_lockstep(graphs, arrays, _outputs)]
            except Unspecified as error:  # for these values alone
                reason = error.reason
            except _PROGRAM_REFUSALS as error:
                reason = self.host_reason = error.reason
        if state.policy == "chip":
            raise NotModelled(
                f"{self.name} in exact numerics: {reason}",
                fix=f"let the host compute it and count it: {VARIABLE}=host",
            )
        mode.host_fallbacks[reason] += 1
        text = f"{self.name} runs on the host, not instruction by instruction: {reason}"
        count_host_fallback(self.name, text)
        return None

    def _reason_of_values(self, modules: Sequence[ImportedModule], arrays: Sequence[Arrays]) -> str:
        """Why the host computes a call on these arrays; empty if the chip's programs do."""
        for module, module_arrays in zip(modules, arrays, strict=True):
            if id(module) not in self._large_integers:
                self._large_integers[id(module)] = LargeIntegers(module.graph)
            reason = self._large_integers[id(module)].reason(module_arrays)
            if reason:
                return reason
        return ""


def _host_reason(module: ImportedModule) -> str:
    """Why the chip's program does not compute a graph's values in exact numerics, or ""."""
    nodes = list(nodes_within(module.graph))
    graph_node_ids = set(map(id, module.graph.nodes))
    inner_names = [
        n.name for n in nodes if n.kind is Kind.COLLECTIVE and id(n) not in graph_node_ids
    ]
    if inner_names:
        return f"{inner_names[0]} in a loop or a branch is a program of its own"
    if any(isinstance(node.operation, Rng | RngBitGenerator) for node in nodes):
        return "random numbers are the host's"
    values = [*module.graph.inputs, *(value for node in nodes for value in node.results)]
    if any(not value.type.elements for value in values):
        return "it has arrays without elements"
    return ""


def arguments_of(module: ImportedModule, arguments: Arrays) -> Arrays:
    """The inputs of a graph: a device's arguments in the graph's types, then its constants."""
    types = [value.type.numpy_dtype() for value in module.inputs]
    pairs = zip(arguments, types, strict=True)
    return module.arguments([np.asarray(array).astype(dtype) for array, dtype in pairs])


def _group_of(position: int, groups: Groups) -> tuple[int, ...]:
    """The group in which a device of the program has its lowest index; () without a group."""
    candidates = [group for group in groups if position in group]
    return min(candidates, key=lambda group: group.index(position), default=())


def _exchanges(graph: Graph) -> Iterator[GraphExchange]:
    """The exchanges of a graph: of each trip of a loop (1 if unknown), of the heaviest branch."""
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, While) and operation.body is not None:
            yield from [*_exchanges(operation.body)] * (operation.trips or 1)
        elif isinstance(operation, Branching):
            exchanges = [[*_exchanges(branch)] for branch in operation.branches]
            yield from max(exchanges, key=lambda branch: sum(call.nbytes for call in branch))
        elif node.kind is Kind.COLLECTIVE:
            yield exchange(node)


def _outputs(graph: Graph, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """The outputs of a graph, by one program or, if it has loops or calls, kernel by kernel."""
    if any(node.kind in _SEPARATE_KINDS for node in graph.nodes):
        return evaluate(graph, arrays, target().name)
    return list(program.evaluate_program(graph, arrays, target().name, frozenset()))


def _empty_scope() -> Scope:
    """The scope of a call: JAX has no modules, and its step is one program."""
    return Scope("", StepPhase.forward)
