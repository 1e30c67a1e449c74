"""Compiled graphs of a framework: time, memory, and why each one was compiled."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from trnsim import arch, compiler
from trnsim.compiler import Flags
from trnsim.compiler.ncc.limits import memory_refused
from trnsim.device.call_time import CallTime, TensorSpec, spec_text
from trnsim.device.device_core import device_core, target
from trnsim.device.hbm import device_memory
from trnsim.device.hbm_use import Loadable, load
from trnsim.device.program_line import program_line
from trnsim.errors import EmulatorError, OutOfMemory
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
        inputs: the shapes and dtypes that it was compiled for.
        graph: its operations.
        plan: the placement of its tensors in HBM over time.
        operators: the operators of the framework's graph, in order.
        missing: operators without a lowering, which the host computes, each with the reason.
        reason: why it was compiled.
        flags: AWS's flags, which it was compiled with.
        weights: the graph's inputs that do not change from call to call, by number.
        own_constant_bytes: arrays that are part of it, without those of kernels that it calls.
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
        """Its name."""
        return self.name

    @property
    def constant_bytes(self) -> int:
        """Arrays that are part of it, those of kernels that it calls among them."""
        return self.own_constant_bytes + sum(one.constant_bytes for one in self._kernels)

    @property
    def scratchpad_bytes(self) -> int:
        """The arena of its plan, and room for the kernel that needs most, as one runs at a time."""
        inside = max((one.scratchpad_bytes for one in self._kernels), default=0)
        return self.plan.arena.nbytes + inside

    @cached_property
    def _kernels(self) -> list[Loadable]:
        """The user's kernels that it calls, each once."""
        calls: dict[Hashable, Any] = {
            node.operation.call: node.operation.call
            for node in nodes_within(self.graph)
            if isinstance(node.operation, CustomCall)
        }
        found: list[Loadable] = []
        for call in calls.values():
            with suppress(EmulatorError):  # one that the chip refuses does not run
                found.append(call.outline(target().name))
        return found

    def time(self, target: str) -> CallTime:
        """The time of its program on a chip, by operations, with one launch.

        Exchanges between ranks take none of it: they are recorded as they happen, with the ranks'
        places.

        Raises:
            NotModelled: for an operation without instructions.
        """
        cores = device_core(arch.target(target)).physical_cores
        program = compiler.compile(
            self.graph, target, lnc=cores, weights=self.weights, is_linked=False
        )
        modules, lines = dict[str, float](), dict[str, float]()
        for one in program.shares:
            modules[one.module] = modules.get(one.module, 0.0) + one.part.time_s
            line = f"{Path(one.line.file).name}:{one.line.line}" if one.line is not None else ""
            lines[line] = lines.get(line, 0.0) + one.part.time_s
        return CallTime(
            program.costs(),
            "; ".join(self.missing),
            is_one_launch=True,
            modules=tuple(modules.items()),
            lines=tuple(lines.items()),
        )


_graphs: list[CompiledGraph] = []


def graphs() -> tuple[CompiledGraph, ...]:
    """The graphs compiled in this process, in order."""
    return tuple(_graphs)


def compiled(
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
    """A new compiled graph of a kind ("forward"), numbered, with the reason for compiling it.

    `constants` are the bytes of arrays that are part of it.
    """
    number = sum(one.name.startswith(kind) for one in _graphs)
    reason = _reason(kind, inputs, operators)
    name = f"{kind}-{number}"
    made = CompiledGraph(
        name, inputs, graph, plan, operators, missing, reason, flags, weights, constants
    )
    _graphs.append(made)
    return made


def _reason(kind: str, inputs: tuple[TensorSpec, ...], operators: tuple[str, ...]) -> str:
    """Why a graph was compiled: its operators are new, or came before with other inputs."""
    for one in reversed(_graphs):
        if one.name.startswith(kind) and one.operators == operators:
            for place, (old, new) in enumerate(zip(one.inputs, inputs, strict=False)):
                if old != new:
                    was, now = spec_text(old), spec_text(new)
                    return f"input {place} was {was} in {one.name} and is {now} here"
            return f"as {one.name}, for another function"
    return "the first of its kind"


def graphs_text() -> str:
    """A table of the compiled graphs: sizes, memory, operators without a lowering, reasons."""
    lines: list[str] = []
    for one in _graphs:
        shapes = ", ".join(str(list(spec.shape)) for spec in one.inputs)
        plan = one.plan
        lines.append(f"{one.name}: {len(one.operators)} operators; {one.reason}")
        lines.append(f"  inputs   {shapes}")
        lines.append(
            f"  memory   {bytes_text(plan.peak_bytes)} at most, "
            f"{bytes_text(plan.input_bytes)} of it inputs"
        )
        lines.append(f"  arena    {plan.arena_text()}")
        lines += [f"  on host  {why}" for why in one.missing]
    return "\n".join(lines) or "nothing was compiled"


def require_room(one: CompiledGraph, core: int, refused: type[OutOfMemory] = OutOfMemory) -> None:
    """Refuse a graph whose tensors do not fit in the HBM that is free on a core.

    One that would not fit even in all of it is refused under neuronx-cc's code.

    Raises:
        OutOfMemory: or `refused`, the framework's own subclass, with a table of the graph's
        tensors at its peak.
    """
    load(core, one, one)
    memory = device_memory(core)
    needed = memory.live_bytes + one.plan.fresh_bytes
    memory.peak_bytes = max(memory.peak_bytes, min(needed, memory.capacity_bytes))
    if needed > memory.capacity_bytes:
        codes = [f"{code}: " for code, _ in memory_refused(one.plan, memory.capacity_bytes)]
        raise refused(
            f"{''.join(codes)}{one.name} needs {bytes_text(one.plan.fresh_bytes)} of HBM beside "
            f"the {bytes_text(memory.live_bytes)} in use; neuron:{core} has "
            f"{bytes_text(memory.capacity_bytes)} ({target().name}). At its peak it holds\n"
            f"{one.plan.table()}",
            fix="a smaller batch, activation checkpointing, or a sharded model",
            source=memory.source,
            line=program_line(),
        )
