"""`compile`: the time of a graph as one optimized program for each NeuronCore.

Of many equal layers a few are compiled, and the time of one more is that of each of the others.
What a graph runs by branches, loops or kernels of its own splits the program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Final

import numpy as np

from trnsim import arch
from trnsim.compiler.casts import apply_casts
from trnsim.compiler.flags import Flags
from trnsim.compiler.hoist import hoisted
from trnsim.compiler.layers import Layers, layers_of, shortened
from trnsim.compiler.merge import merged
from trnsim.compiler.program import legal, trace
from trnsim.compiler.shares import shares
from trnsim.compiler.work import Work, added, of_layers, restored, stored, work_of
from trnsim.errors import BadInput, IllegalInstruction, InternalError, OutOfMemory
from trnsim.graph import Graph, Kind, verify
from trnsim.isa import Engine
from trnsim.lower import Bound, Cost, bound, cache, costs, without_exchanges
from trnsim.lower.bound import hbm_share
from trnsim.profile.analysis.whole import Share, Whole
from trnsim.profile.measures.metrics import peak_flop_per_s
from trnsim.profile.measures.parts import Part

_BY_LAYERS: Final = 4000
"""Instructions of a layer from which on one layer is compiled with the next, else two pairs are."""
KERNELS: Final = "kernels"
"""What is busy while kernels of their own run, one after another."""
APART: Final = (Kind.CONTROL, Kind.CALL)
"""What is a program of its own: values decide what runs, or the user wrote it."""


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A graph as a program.

    Attributes:
        target: the chip.
        lnc: physical cores of a logical one.
        flags: those of neuronx-cc.
        device_time_s: from the first instruction to the last result.
        launch_s: the fixed cost of starting it.
        instructions: how many it has.
        programs: into how many programs branches, loops and kernels split it.
        layers: equal layers of which a few were compiled; 0 if all operations were.
        compiled: how many of these were.
        shares: what operations take, by modules of the model, in its order.
        bound: the time below which no program can be.
        said: why parts of it are kernels one after another.
    """

    target: str
    lnc: int
    flags: Flags
    device_time_s: float
    launch_s: float
    instructions: int
    programs: int
    layers: int
    compiled: int
    shares: tuple[Share, ...]
    bound: Bound
    said: tuple[str, ...] = ()

    def costs(self) -> tuple[Cost, ...]:
        """The program by its operations, the dearest first, launched once.

        An operation's time is what it takes of the critical path: they add up to the program's.
        Products are shared by the time of the Tensor Engine.
        """
        work: dict[str, Part] = {}
        for one in self.shares:
            work[one.operation] = work.get(one.operation, Part()).plus(one.part)
        tensor = {name: part.busy_s.get(Engine.tensor.name, 0.0) for name, part in work.items()}
        multiplied = sum(tensor.values()) or 1.0
        return tuple(
            Cost(
                name,
                part.time_s,
                self.launch_s,
                round(part.instructions),
                self.bound.flop * tensor[name] / multiplied,
                round(sum(part.hbm_bytes.values())),
            )
            for name, part in sorted(work.items(), key=lambda one: -one[1].time_s)
        )

    @property
    def over_bound(self) -> float:
        """Its time over the physical bound."""
        return self.device_time_s / self.bound.seconds if self.bound.seconds else float("inf")

    @property
    def mfu(self) -> float:
        """``bound.flop / (peak * device_time_s)``: the model's products over the peak's.

        The peak is that of bfloat16, and follows from the Tensor Engine's clock.
        """
        return self._used(self.bound.flop, peak_flop_per_s(arch.target(self.target).core))

    @property
    def mbu(self) -> float:
        """``bound.hbm_bytes / (rate * device_time_s)``: weights, inputs and outputs once over HBM.

        The rate is the core's share of its stack.
        """
        return self._used(self.bound.hbm_bytes, hbm_share(self.target))

    def whole(self, links_s: float = 0.0, exchanges_s: float = 0.0) -> Whole:
        """The estimate above its programs, with what exchanges between ranks take, and at least."""
        least = replace(self.bound, links_s=links_s)
        return Whole(
            self.launch_s,
            self.device_time_s,
            exchanges_s,
            least.seconds,
            least.binds,
            least.flop,
            least.hbm_bytes,
            self.mfu,
            self.mbu,
            self.programs,
            self.layers,
            self.compiled,
            self.shares,
            self.said,
        )

    def _used(self, amount: float, rate: float) -> float:
        available = rate * self.lnc * self.device_time_s
        return amount / available if available else 0.0


@dataclass(frozen=True, slots=True)
class _Figures:
    """What of a program adds up."""

    device_time_s: float
    launch_s: float
    instructions: int
    work: Work
    said: tuple[str, ...] = ()
    compiled: int = 0

    def plus(self, other: _Figures) -> _Figures:
        """With another's; one launch."""
        return _Figures(
            self.device_time_s + other.device_time_s,
            self.launch_s or other.launch_s,
            self.instructions + other.instructions,
            added(self.work, other.work),
            tuple(dict.fromkeys((*self.said, *other.said))),
            max(self.compiled, other.compiled),
        )


_NOTHING: Final = _Figures(0.0, 0.0, 0, {})


def compile(  # noqa: A001  the name that compilers have
    graph: Graph,
    target: str = "trn2",
    *,
    lnc: int = 1,
    flags: Flags | None = None,
    weights: Collection[int] = frozenset(),
) -> CompiledProgram:
    """A graph as one program for each NeuronCore.

    Args:
        graph: its operations.
        target: the chip.
        lnc: physical cores of a logical one; 1, as no graph is sharded over two yet.
        flags: those of neuronx-cc; its defaults if none.
        weights: the inputs that do not change from call to call, by their values' numbers.

    Raises:
        BadInput: for any other `lnc`.
        NotModelled: for an operation without instructions, by name.
    """
    if lnc != 1:
        raise BadInput(
            f"lnc={lnc}; legal: 1, as no graph is sharded over two cores yet",
            fix="compile for one core (NEURON_LOGICAL_NC_CONFIG=1)",
            source="logical-neuroncore-config.rst",
        )
    asked = flags or Flags()
    verify(graph)
    found, layers, programs, by_module = _NOTHING, 0, 0, list[Share]()
    for piece, own in pieces(graph, asked, weights):
        figures, run = _priced(piece, own, target)
        found, programs = found.plus(figures), programs + 1
        layers = max(layers, run.count if run is not None else 0)
        by_module += shares(figures.work, legal(piece, own)[0], run)
    return CompiledProgram(
        target,
        lnc,
        asked,
        found.device_time_s,
        found.launch_s,
        found.instructions,
        programs,
        layers,
        found.compiled,
        tuple(by_module),
        bound(graph, target, weights=weights, is_cast=asked.auto_cast != "none"),
        found.said,
    )


def pieces(
    graph: Graph, flags: Flags, weights: Collection[int]
) -> Iterator[tuple[Graph, frozenset[int]]]:
    """The graphs of a graph's programs, and the weights of each.

    It is cut at operations that are programs of their own.
    """
    step = hoisted(merged(apply_casts(graph, flags)), frozenset(weights))
    whole = step.step
    cuts = [place for place, node in enumerate(whole.nodes) if node.kind in APART]
    if not cuts:
        yield whole, step.weights
        return
    ends = sorted({0, len(whole.nodes), *cuts, *(cut + 1 for cut in cuts)})
    for start, end in pairwise(ends):
        piece = _cut(whole, start, end)
        yield piece, frozenset(value.number for value in piece.inputs) & step.weights


def _cut(graph: Graph, start: int, end: int) -> Graph:
    """Some operations of a graph as a graph: what they read of others are its inputs."""
    nodes = graph.nodes[start:end]
    made = {value.number for node in nodes for value in node.results}
    read = {value.number: value for node in nodes for value in node.values}
    later = {value.number for node in graph.nodes[end:] for value in node.values}
    later |= {value.number for value in graph.outputs}
    inputs = [value for number, value in read.items() if number not in made]
    outputs = [v for node in nodes for v in node.results if v.number in later]
    return Graph(inputs, nodes, outputs)


def _priced(graph: Graph, weights: frozenset[int], target: str) -> tuple[_Figures, Layers | None]:
    """What a graph takes, remembered on disk, and its equal layers."""
    own = frozenset(value.number for value in graph.inputs) & weights
    key = ("program", graph.key(), tuple(sorted(own)), target)
    found = cache.read(key)
    if found is not None:
        run, work = found.pop("layers"), restored(found.pop("work"))
        said = tuple(found.pop("said"))
        return _Figures(work=work, said=said, **found), Layers(*run) if run else None
    figures, layers = _compiled(graph, own, target)
    kept = {one.name: getattr(figures, one.name) for one in fields(figures)}
    run = (layers.start, layers.length, layers.count) if layers is not None else ()
    cache.write(key, {**kept, "work": stored(figures.work), "layers": run})
    return figures, layers


def _compiled(graph: Graph, weights: frozenset[int], target: str) -> tuple[_Figures, Layers | None]:
    """What a graph takes: compiled whole, or with fewer of its equal layers."""
    if any(node.kind in APART for node in graph.nodes):
        return _apart(graph, target, 0), None
    graph, weights = legal(graph, weights)
    layers = layers_of(graph)
    if layers is not None:
        found = _by_layers(graph, weights, target, layers)
        if found is not None:
            return found, layers
    return _figures(graph, weights, target), None


def _by_layers(
    graph: Graph, weights: frozenset[int], target: str, layers: Layers
) -> _Figures | None:
    """A graph's figures from those with few layers; None where layers are read elsewhere.

    Two programs that differ by some layers give what a layer takes beside its neighbours.
    """
    short = shortened(graph, layers, 1)
    if short is None:
        return None
    one = _figures(short, weights, target)
    few, many = (1, 2) if one.instructions > _BY_LAYERS else (2, 4)
    if layers.count <= many:
        return None
    first = one if few == 1 else _of(graph, layers, few, weights, target)
    second = _of(graph, layers, many, weights, target)
    if first is None or second is None:
        return None
    steps = (layers.count - few) / (many - few)
    time_s = first.device_time_s + steps * (second.device_time_s - first.device_time_s)
    number = round(first.instructions + steps * (second.instructions - first.instructions))
    work = of_layers(second.work, layers, many, time_s, number)
    said = tuple(dict.fromkeys((*first.said, *second.said)))
    return _Figures(time_s, first.launch_s, number, work, said, many)


def _of(
    graph: Graph, layers: Layers, count: int, weights: frozenset[int], target: str
) -> _Figures | None:
    short = shortened(graph, layers, count)
    return None if short is None else _figures(short, weights, target)


def _figures(graph: Graph, weights: frozenset[int], target: str) -> _Figures:
    """The figures of a graph's program, all of it compiled.

    A graph that this compiler cannot place on the chip is priced as kernels one after another.
    """
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    try:
        found = trace(graph, inputs, target, weights, numerics=False)
    except (OutOfMemory, IllegalInstruction, InternalError) as error:
        alone, _ = without_exchanges(graph)
        return replace(_apart(alone, target, -1), said=(f"not one program: {error.reason}",))
    timeline, work = found.run.timeline, work_of(found, graph, weights)
    return _Figures(timeline.device_time_s, timeline.launch_s, len(timeline), work)


def _apart(graph: Graph, target: str, place: int) -> _Figures:
    """What branches, loops and users' kernels take, by their kernels.

    `place` is that of the one operation which they are of, or -1.
    """
    found = _NOTHING
    for cost in costs(graph, target):
        part = Part(cost.instructions, {}, {KERNELS: cost.device_time_s})
        work: Work = {(cost.name, place): part}
        one = _Figures(cost.device_time_s, cost.launch_s, cost.instructions, work)
        found = found.plus(one)
    return found


__all__ = ["CompiledProgram", "compile"]
