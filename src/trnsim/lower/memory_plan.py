"""Memory planning: when each tensor of a graph is in HBM, and the most bytes at once.

A tensor lives from the kernel that writes it to the last one that reads it; inputs and outputs
belong to the caller and live from the beginning, or to the end. Values inside a fused kernel take
no HBM. Tensors that are neither inputs nor outputs share one arena (`arena`). It may have holes, so
it can be larger than the bytes that are in use at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from trnsim.graph import Graph, Kind, Node, TensorType
from trnsim.graph.ops.control_flow import While
from trnsim.lower import control
from trnsim.lower.arena import Arena, Block, arena
from trnsim.lower.fusion import fusion_groups
from trnsim.lower.legalize import legalize
from trnsim.profile.units import bytes_text

_TABLE_ROWS: Final = 12
"""Maximum number of rows of the table of a plan."""


@dataclass(frozen=True, slots=True)
class TensorLifetime:
    """A tensor in HBM and the kernels between which it lives.

    Attributes:
        label: the input's name, or the kernel that writes it.
        type: its shape and dtype.
        first: the index of the kernel that writes it; -1 for an input.
        last: the index of the kernel that reads it last.
        is_returned: True if it is an output of the graph.
    """

    label: str
    type: TensorType
    first: int
    last: int
    is_returned: bool = False

    @property
    def is_inside(self) -> bool:
        """True if the tensor is neither input nor output, so that it has a place in the arena."""
        return self.first >= 0 and not self.is_returned


@dataclass(frozen=True)
class MemoryPlan:
    """The tensors of a graph in HBM, by lifetime.

    Attributes:
        kernels: the names of the graph's kernels, in order.
    """

    lifetimes: tuple[TensorLifetime, ...]
    kernels: tuple[str, ...]

    @cached_property
    def input_bytes(self) -> int:
        """The bytes of the inputs."""
        return sum(life.type.nbytes for life in self.lifetimes if life.first < 0)

    @cached_property
    def in_use_bytes(self) -> list[int]:
        """The bytes in use during each kernel."""
        change = [0] * (len(self.kernels) + 1)
        for life in self.lifetimes:
            change[max(life.first, 0)] += life.type.nbytes
            change[life.last + 1] -= life.type.nbytes
        return list(accumulate(change))[: len(self.kernels)]

    @cached_property
    def peak_tensors(self) -> list[TensorLifetime]:
        """The tensors in use during the first kernel with most bytes in use, the largest first."""
        in_use_bytes = self.in_use_bytes
        peak_index = in_use_bytes.index(max(in_use_bytes)) if in_use_bytes else 0
        tensors = [
            life
            for life in self.lifetimes
            if life.first <= peak_index <= life.last or not self.kernels
        ]
        return sorted(tensors, key=lambda life: -life.type.nbytes)

    @cached_property
    def peak_bytes(self) -> int:
        """The most bytes at once, inputs included."""
        return sum(life.type.nbytes for life in self.peak_tensors)

    @property
    def fresh_bytes(self) -> int:
        """The most bytes at once, inputs left out."""
        return self.peak_bytes - self.input_bytes

    @cached_property
    def inner_tensors(self) -> tuple[TensorLifetime, ...]:
        """The tensors that are neither inputs nor outputs, in the order of the arena's offsets."""
        return tuple(life for life in self.lifetimes if life.is_inside)

    @cached_property
    def arena(self) -> Arena:
        """The offset of each tensor of `inner_tensors` in one arena."""
        return arena(
            [Block(life.type.nbytes, life.first, life.last) for life in self.inner_tensors]
        )

    def arena_text(self) -> str:
        """The arena's size, and the least size of any arena, in words."""
        count = len(self.inner_tensors)
        return (
            f"{bytes_text(self.arena.nbytes)} for {count} tensors that die inside; "
            f"at least {bytes_text(self.arena.least_bytes)} wherever they lie"
        )

    def table(self) -> str:
        """A table of the tensors at the peak: equal ones in one row, the largest rows first."""
        equal_tensors: dict[tuple[str, str], tuple[int, int]] = {}
        for life in self.peak_tensors:
            key = (str(life.type), life.label if life.first >= 0 else "input")
            number, nbytes = equal_tensors.get(key, (0, 0))
            equal_tensors[key] = number + 1, nbytes + life.type.nbytes
        rows = sorted(equal_tensors.items(), key=lambda row: -row[1][1])
        lines = [f"{'bytes':>12} {'tensors':>8}  type, and what wrote it"]
        lines += [
            f"{bytes_text(nbytes):>12} {number:>8}  {kind}  {writer}"
            for (kind, writer), (number, nbytes) in rows[:_TABLE_ROWS]
        ]
        other_rows = rows[_TABLE_ROWS:]
        if other_rows:
            total = sum(nbytes for _, (_, nbytes) in other_rows)
            number = sum(number for _, (number, _) in other_rows)
            lines.append(f"{bytes_text(total):>12} {number:>8}  others")
        return "\n".join(lines)


def memory_plan(graph: Graph, names: Mapping[int, str] | None = None) -> MemoryPlan:
    """The memory plan of `graph`; `names` has its inputs' names by `Value.number`."""
    graph = legalize(graph)
    kernels = fusion_groups(graph)
    sources = {n.result.number: n.values[0].number for n in graph.nodes if n.kind is Kind.ALIAS}

    def origin(number: int) -> int:
        while number in sources:
            number = sources[number]
        return number

    last_kernel = len(kernels) - 1
    last_readers: dict[int, int] = {}
    for index, group in enumerate(kernels):
        last_readers |= {origin(value.number): index for value in group.inputs}
    last_readers |= {origin(value.number): last_kernel for value in graph.outputs}
    output_numbers = {origin(value.number) for value in graph.outputs}
    input_names = names or {}
    lifetimes = [
        TensorLifetime(input_names.get(value.number, f"input {index}"), value.type, -1, last_kernel)
        for index, value in enumerate(graph.inputs)
    ]
    for index, group in enumerate(kernels):
        for value in group.outputs:
            number = origin(value.number)
            last_reader = last_readers.get(number, index)
            lifetimes.append(
                TensorLifetime(group.name, value.type, index, last_reader, number in output_numbers)
            )
        lifetimes += [
            TensorLifetime(f"inside {group.name}", TensorType((nbytes,), "uint8"), index, index)
            for node in group.nodes
            for nbytes in (_inner_graph_bytes(node),)
            if nbytes
        ]
    return MemoryPlan(tuple(lifetimes), tuple(group.name for group in kernels))


def _inner_graph_bytes(node: Node) -> int:
    """Bytes of HBM for the graphs that a node runs, its operands and results left out.

    Only one of several graphs runs at a time. A `while` has a second copy of the values that it
    carries, as the next ones are computed from them.
    """
    operation = node.operation
    plans = [memory_plan(graph) for graph in control.inner_graphs(operation)]
    inner_bytes = max((plan.arena.nbytes for plan in plans), default=0)
    carried_bytes = sum(value.type.nbytes for value in node.results)
    return inner_bytes + (carried_bytes if isinstance(operation, While) else 0)
