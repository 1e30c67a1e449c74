"""`compile`: the time of a graph as one optimized program for each NeuronCore.

Of many equal layers a few are compiled, and the time of one more is that of each of the others.
What a graph runs by branches, loops or kernels of its own splits the program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from trnsim.compiler.casts import apply_casts
from trnsim.compiler.common import once
from trnsim.compiler.flags import Flags
from trnsim.compiler.hoist import hoisted
from trnsim.compiler.layers import Stack, shortened, stacks_of
from trnsim.compiler.program import Traced, legal, trace
from trnsim.errors import BadInput, IllegalInstruction, InternalError, OutOfMemory
from trnsim.graph import Graph, Kind, verify
from trnsim.isa import Engine
from trnsim.lower import Bound, Cost, bound, cache, costs, without_exchanges
from trnsim.timing import Timeline

_BY_LAYERS: Final = 4000
"""Instructions of a layer from which on one layer is compiled with the next, else two pairs are."""
_LEAST: Final = 3
"""Layers of each stack beyond which no shorter graph is looked for."""
_APART: Final = (Kind.CONTROL, Kind.CALL)
"""What is a program of its own: values decide what runs, or the user wrote it."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation of the graph's language takes of a program.

    Attributes:
        name: the operation's.
        instructions: how many.
        busy_s: busy time by engine.
    """

    name: str
    instructions: int
    busy_s: dict[str, float]


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
        work: what each kind of operation takes, the dearest first.
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
    work: tuple[Work, ...]
    bound: Bound
    said: tuple[str, ...] = ()

    def costs(self) -> tuple[Cost, ...]:
        """The program by its operations, each with a share of its time, launched once.

        An operation's share is that of its busiest engine: engines work at once, so no operation
        has a time of its own.
        """
        most = {one.name: max(one.busy_s.values(), default=0.0) for one in self.work}
        whole = sum(most.values()) or 1.0
        products = {one.name: one.busy_s.get(Engine.tensor.name, 0.0) for one in self.work}
        multiplied = sum(products.values()) or 1.0
        return tuple(
            Cost(
                one.name,
                self.device_time_s * most[one.name] / whole,
                self.launch_s,
                one.instructions,
                self.bound.flop * products[one.name] / multiplied,
                round(self.bound.hbm_bytes * most[one.name] / whole),
            )
            for one in self.work
        )

    @property
    def over_bound(self) -> float:
        """Its time over the physical bound."""
        return self.device_time_s / self.bound.seconds if self.bound.seconds else float("inf")


@dataclass(frozen=True, slots=True)
class _Figures:
    """What of a program adds up."""

    device_time_s: float
    launch_s: float
    instructions: int
    work: dict[str, tuple[int, dict[str, float]]]
    said: tuple[str, ...] = ()

    def plus(self, other: _Figures, times: float = 1) -> _Figures:
        """With another's added so many times; one launch."""
        work = dict(self.work)
        for name, (count, busy_s) in other.work.items():
            mine, mine_s = work.get(name, (0, {}))
            engines = {*mine_s, *busy_s}
            sums = {e: mine_s.get(e, 0.0) + times * busy_s.get(e, 0.0) for e in engines}
            work[name] = round(mine + times * count), sums
        return _Figures(
            self.device_time_s + times * other.device_time_s,
            self.launch_s or other.launch_s,
            round(self.instructions + times * other.instructions),
            work,
            tuple(dict.fromkeys((*self.said, *other.said))),
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
    made = apply_casts(graph, asked)
    step = hoisted(once(made), frozenset(weights))
    found, layers, programs = _NOTHING, 0, 0
    for piece, own in _pieces(step.step, step.weights):
        figures, count = _priced(piece, own, target)
        found, layers, programs = found.plus(figures), max(layers, count), programs + 1
    work = sorted(found.work.items(), key=lambda one: -sum(one[1][1].values()))
    return CompiledProgram(
        target,
        lnc,
        asked,
        found.device_time_s,
        found.launch_s,
        found.instructions,
        programs,
        layers,
        tuple(Work(name, count, busy_s) for name, (count, busy_s) in work),
        bound(graph, target, weights=weights, is_cast=asked.auto_cast != "none"),
        found.said,
    )


def _pieces(graph: Graph, weights: frozenset[int]) -> Iterator[tuple[Graph, frozenset[int]]]:
    """The graph cut at operations that are programs of their own."""
    cuts = [place for place, node in enumerate(graph.nodes) if node.kind in _APART]
    if not cuts:
        yield graph, weights
        return
    ends = sorted({0, len(graph.nodes), *cuts, *(cut + 1 for cut in cuts)})
    for start, end in pairwise(ends):
        yield _cut(graph, start, end), weights


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


def _priced(graph: Graph, weights: frozenset[int], target: str) -> tuple[_Figures, int]:
    """What a graph takes, remembered on disk, and its equal layers."""
    own = frozenset(value.number for value in graph.inputs) & weights
    key = ("program", graph.key(), tuple(sorted(own)), target)
    stored = cache.read(key)
    if stored is not None:
        layers = stored.pop("layers")
        work = {name: (count, busy) for name, (count, busy) in stored.pop("work").items()}
        return _Figures(work=work, said=tuple(stored.pop("said")), **stored), layers
    figures, layers = _compiled(graph, own, target)
    cache.write(key, {**asdict(figures), "layers": layers})
    return figures, layers


def _compiled(graph: Graph, weights: frozenset[int], target: str) -> tuple[_Figures, int]:
    """What a graph takes: compiled whole, or with fewer of its equal layers."""
    if any(node.kind in _APART for node in graph.nodes):
        return _apart(graph, target), 0
    graph, weights = legal(graph, weights)
    stacks = [one for one in stacks_of(graph) if _least(graph, [one])]
    for some in (stacks, stacks[:1]):
        found = _by_layers(graph, weights, target, some)
        if found is not None:
            return found, max(stack.count for stack in some)
    return _figures(graph, weights, target), 0


def _by_layers(
    graph: Graph, weights: frozenset[int], target: str, stacks: Sequence[Stack]
) -> _Figures | None:
    """A graph's figures from those with few layers; None where layers are read elsewhere.

    Two programs that differ by some layers of a stack give what one takes beside its neighbours.
    """
    least = _least(graph, stacks)
    short = _short(graph, stacks, least) if least and stacks else None
    if short is None:
        return None
    one = _figures(short, weights, target)
    few, many = (least, least + 1) if one.instructions > _BY_LAYERS else (2 * least, 4 * least)
    deep = [stack for stack in stacks if stack.count > many]
    short = _short(graph, deep, few)
    if not deep or short is None:
        return None
    found = first = (
        one if few == least and len(deep) == len(stacks) else _figures(short, weights, target)
    )
    for stack in deep:
        longer = _short(graph, deep, few, (stack, many))
        if longer is None:
            return None
        more = _figures(longer, weights, target).plus(first, -1)
        found = found.plus(more, (stack.count - few) / (many - few))
    return found


def _least(graph: Graph, stacks: Sequence[Stack]) -> int:
    """The fewest layers of each stack that a shorter graph can have; 0 if none can."""
    return next((n for n in range(1, _LEAST + 1) if _short(graph, stacks, n)), 0)


def _short(
    graph: Graph, stacks: Sequence[Stack], count: int, other: tuple[Stack, int] | None = None
) -> Graph | None:
    """The graph with so many layers of each stack, but for one of them; None if it has no such."""
    kept = {stack: min(count, stack.count) for stack in stacks}
    kept |= dict([other] if other else [])
    return shortened(graph, [(stack, many) for stack, many in kept.items() if many < stack.count])


def _figures(graph: Graph, weights: frozenset[int], target: str) -> _Figures:
    """The figures of a graph's program, all of it compiled.

    A graph that this compiler cannot place on the chip is priced as kernels one after another.
    """
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    try:
        found = trace(graph, inputs, target, weights, numerics=False)
    except (OutOfMemory, IllegalInstruction, InternalError) as error:
        alone, _ = without_exchanges(graph)
        return replace(_apart(alone, target), said=(f"not one program: {error.reason}",))
    timeline = found.run.timeline
    return _Figures(
        timeline.device_time_s, timeline.launch_s, len(timeline), _work(timeline, found)
    )


def _work(timeline: Timeline, found: Traced) -> dict[str, tuple[int, dict[str, float]]]:
    """Instructions and busy seconds of each engine by the operation that they belong to."""
    counts: defaultdict[str, int] = defaultdict(int)
    busy: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    names = [*found.names, (len(timeline), "")]
    place, name = 0, ""
    for span in timeline.spans():
        while names[place][0] <= span.index:
            name, place = names[place][1], place + 1
        counts[name] += 1
        busy[name][span.engine.name] += span.busy_until_s - span.start_s
    return {name: (counts[name], dict(busy[name])) for name in counts}


def _apart(graph: Graph, target: str) -> _Figures:
    """What branches, loops and users' kernels take, by their kernels."""
    found = _NOTHING
    for cost in costs(graph, target):
        work = {cost.name: (cost.instructions, dict[str, float]())}
        one = _Figures(cost.device_time_s, cost.launch_s, cost.instructions, work)
        found = found.plus(one)
    return found


__all__ = ["CompiledProgram", "Work", "compile"]
