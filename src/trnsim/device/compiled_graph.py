"""Compiled graphs of a framework: time, memory, and the reason for each compilation."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trnsim import arch, compiler
from trnsim.compiler import Flags
from trnsim.compiler.ncc.limits import memory_refusals
from trnsim.device.call_time import CallTime, TensorSpec, spec_text
from trnsim.device.device_core import device_core, target
from trnsim.device.hbm import device_memory
from trnsim.device.hbm_use import Loadable, load
from trnsim.device.program_line import program_line
from trnsim.errors import EmulatorError, OutOfMemory
from trnsim.formatting import counted
from trnsim.graph import Graph
from trnsim.graph.ops.calls import CustomCall
from trnsim.lower import MemoryPlan
from trnsim.lower.control import nodes_within
from trnsim.profile.units import bytes_text


@dataclass(frozen=True, eq=False)
class CompiledGraph:
    """A compiled graph.

    Attributes:
        name: "forward-0", "backward-0" ...
        inputs: shapes and dtypes that it was compiled for.
        plan: placement of its tensors in HBM over time.
        operators: operators of the framework's graph, in order.
        missing: operators without a lowering, which the host computes, each with the reason.
        flags: AWS's flags of the compilation.
        weights: numbers of the graph's inputs that do not change from call to call.
        own_constant_bytes: bytes of its constant arrays, without the constants of called kernels.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    graph: Graph = field(repr=False)
    plan: MemoryPlan = field(repr=False)
    operators: tuple[str, ...]
    missing: tuple[str, ...]
    reason: str
    flags: Flags = field(default_factory=Flags)
    weights: frozenset[int] = frozenset()
    own_constant_bytes: int = 0

    @property
    def operation(self) -> str:
        """The graph's name."""
        return self.name

    @property
    def constant_bytes(self) -> int:
        """Bytes of the graph's constant arrays, and of the constants of called kernels."""
        return self.own_constant_bytes + sum(kernel.constant_bytes for kernel in self._kernels)

    @property
    def scratchpad_bytes(self) -> int:
        """Bytes of its plan's arena, and of the largest scratchpad of a called kernel."""
        kernel_bytes = max((kernel.scratchpad_bytes for kernel in self._kernels), default=0)
        return self.plan.arena.nbytes + kernel_bytes

    @cached_property
    def _kernels(self) -> list[Loadable]:
        """The distinct kernels that the graph calls and the chip does not refuse."""
        calls: dict[Hashable, Any] = {
            node.operation.call: node.operation.call
            for node in nodes_within(self.graph)
            if isinstance(node.operation, CustomCall)
        }
        kernels: list[Loadable] = []
        for call in calls.values():
            with suppress(EmulatorError):  # refused by the chip, so it does not run
                kernels.append(call.outline(target().name))
        return kernels

    def time(self, target: str) -> CallTime:
        """The time of its program on a chip, by operations, with one launch.

        Exchanges between ranks are not included: they are recorded as they happen, with the ranks'
        places.

        Raises:
            NotModelled: for an operation without instructions.
        """
        cores = device_core(arch.target(target)).physical_cores
        # The graph has its casts, and the device its cores.
        flags = replace(self.flags, auto_cast="none", logical_nc_config=None)
        program = compiler.compile(
            self.graph, target, lnc=cores, flags=flags, weights=self.weights, is_linked=False
        )
        modules, lines = dict[str, float](), dict[str, float]()
        for share in program.shares:
            modules[share.module] = modules.get(share.module, 0.0) + share.part.time_s
            line = share.line
            text = "" if line is None else f"{Path(line.file).name}:{line.line}"
            lines[text] = lines.get(text, 0.0) + share.part.time_s
        return CallTime(
            program.costs(),
            "; ".join(self.missing),
            is_one_launch=True,
            modules=tuple(modules.items()),
            lines=tuple(lines.items()),
        )


_graphs: list[CompiledGraph] = []


def compiled_graphs() -> tuple[CompiledGraph, ...]:
    """The graphs compiled in this process, in order."""
    return tuple(_graphs)


def record_graph(
    kind: str,
    inputs: tuple[TensorSpec, ...],
    graph: Graph,
    plan: MemoryPlan,
    operators: tuple[str, ...],
    missing: tuple[str, ...],
    flags: Flags = Flags(),  # noqa: B008  frozen
    weights: frozenset[int] = frozenset(),
    *,
    constants: int = 0,
) -> CompiledGraph:
    """Record a new compiled graph of a kind ("forward") with its number and reason.

    `constants` are the bytes of arrays that are part of it.
    """
    name = f"{kind}-{sum(_kind(earlier) == kind for earlier in _graphs)}"
    reason = _reason(kind, inputs, operators)
    compiled_graph = CompiledGraph(
        name, inputs, graph, plan, operators, missing, reason, flags, weights, constants
    )
    _graphs.append(compiled_graph)
    return compiled_graph


def _kind(graph: CompiledGraph) -> str:
    """The kind of a graph, which its name begins with."""
    return graph.name.rpartition("-")[0]


def _reason(kind: str, inputs: tuple[TensorSpec, ...], operators: tuple[str, ...]) -> str:
    """The reason for a compilation: new operators, other inputs, or another function."""
    for earlier_graph in reversed(_graphs):
        if _kind(earlier_graph) == kind and earlier_graph.operators == operators:
            for index, (old, new) in enumerate(zip(earlier_graph.inputs, inputs, strict=False)):
                if old != new:
                    old_text, new_text = spec_text(old), spec_text(new)
                    name = earlier_graph.name
                    return f"input {index} was {old_text} in {name} and is {new_text} here"
            return f"as {earlier_graph.name}, for another function"
    return "the first of its kind"


def graphs_text() -> str:
    """A table of the compiled graphs: sizes, memory, operators without a lowering, reasons."""
    lines: list[str] = []
    for graph in _graphs:
        shapes = ", ".join(str(list(spec.shape)) for spec in graph.inputs)
        plan = graph.plan
        count = len(graph.operators)
        lines.append(f"{graph.name}: {counted(count, 'operator')}; {graph.reason}")
        lines.append(f"  inputs   {shapes}")
        lines.append(
            f"  memory   {bytes_text(plan.peak_bytes)} at most, "
            f"{bytes_text(plan.input_bytes)} of it inputs"
        )
        lines.append(f"  arena    {plan.arena_text()}")
        lines += [f"  on host  {why}" for why in graph.missing]
    return "\n".join(lines) or "nothing was compiled"


def require_room(
    graph: CompiledGraph, core: int, error_class: type[OutOfMemory] = OutOfMemory
) -> None:
    """Refuse a graph whose tensors do not fit in the HBM that is free on a core.

    A graph that would not fit even in the whole HBM is refused under neuronx-cc's code.

    Raises:
        OutOfMemory: or `error_class`, the framework's own subclass, with a table of the graph's
        tensors at its peak.
    """
    load(core, graph, graph)
    memory = device_memory(core)
    needed_bytes = memory.live_bytes + graph.plan.fresh_bytes
    memory.peak_bytes = max(memory.peak_bytes, min(needed_bytes, memory.capacity_bytes))
    if needed_bytes > memory.capacity_bytes:
        codes = [f"{code}: " for code, _ in memory_refusals(graph.plan, memory.capacity_bytes)]
        raise error_class(
            f"{''.join(codes)}{graph.name} needs {bytes_text(graph.plan.fresh_bytes)} of HBM "
            f"beside the {bytes_text(memory.live_bytes)} in use; neuron:{core} has "
            f"{bytes_text(memory.capacity_bytes)} ({target().name}). At its peak it holds\n"
            f"{graph.plan.table()}",
            fix="a smaller batch, activation checkpointing, or a sharded model",
            source=memory.source,
            line=program_line(),
        )
