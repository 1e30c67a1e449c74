"""What a graph's program takes: compiled whole, or with fewer of its equal layers.

What is found is remembered on disk, so that a model is compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from trnsim.compiler.layers import Stack, shortened, stacks_of
from trnsim.compiler.program import legal
from trnsim.compiler.schedules import Asked, fastest, others
from trnsim.compiler.work import Work, added, of_layers, restored, stored, work_of
from trnsim.errors import IllegalInstruction, InternalError, OutOfMemory
from trnsim.graph import Graph, Kind
from trnsim.graph.rewriting import left_out
from trnsim.lower import cache, costs, without_exchanges
from trnsim.lower.emit.schedule import FIRST, Schedule
from trnsim.lower.program import trace
from trnsim.profile.measures.parts import Part

APART: Final = (Kind.CONTROL, Kind.CALL)
"""What is a program of its own: values decide what runs, or the user wrote it."""
NO_PROGRAM: Final = (OutOfMemory, IllegalInstruction, InternalError)
"""What a graph that has no place on the chip raises."""
KERNELS: Final = "kernels"
"""What is busy while kernels of their own run, one after another."""
_BY_LAYERS: Final = 4000
"""Instructions of a layer from which on one layer is compiled with the next, else two pairs are."""
_LEAST: Final = 3
"""Layers of each stack beyond which no shorter graph is looked for."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What of a program adds up.

    Attributes:
        device_time_s: from the first instruction to the last result.
        launch_s: the fixed cost of starting it.
        instructions: how many it has.
        work: what each operation takes.
        said: why parts of it are no one program.
        kept: layers that were compiled of each stack; none if all were.
        schedule: how SBUF is shared.
        lacks: what another schedule may give it.
        is_linked: whether its exchanges between ranks take their time in it.
        wanted_bytes: of a partition of SBUF for all results that are yet to be read, at the most.
    """

    device_time_s: float = 0.0
    launch_s: float = 0.0
    instructions: int = 0
    work: Work = field(default_factory=dict[tuple[str, int], Part])
    said: tuple[str, ...] = ()
    kept: tuple[int, ...] = ()
    schedule: Schedule = FIRST
    lacks: frozenset[str] = frozenset()
    is_linked: bool = False
    wanted_bytes: int = 0

    def stored(self) -> dict[str, Any]:
        """As JSON."""
        made = {one.name: getattr(self, one.name) for one in fields(self)}
        schedule = (self.schedule.passing_bytes, self.schedule.ring_bytes)
        return {**made, "work": stored(self.work), "schedule": schedule, "lacks": [*self.lacks]}

    @classmethod
    def restored(cls, known: dict[str, Any]) -> Figures:
        """From JSON."""
        made = dict(known)
        made["work"] = restored(known["work"])
        made |= {name: tuple(known[name]) for name in ("said", "kept")}
        made["schedule"] = Schedule(*known["schedule"])
        made["lacks"] = frozenset(known["lacks"])
        return cls(**made)

    def plus(self, other: Figures) -> Figures:
        """With another's; one launch."""
        return Figures(
            self.device_time_s + other.device_time_s,
            self.launch_s or other.launch_s,
            self.instructions + other.instructions,
            added(self.work, other.work),
            tuple(dict.fromkeys((*self.said, *other.said))),
        )


@dataclass(frozen=True, slots=True)
class Priced:
    """A graph with what its program takes.

    Attributes:
        graph: of operations that have instructions; the places of the work are its own.
        weights: its inputs that do not change, by number.
        figures: what it takes.
        stacks: its equal layers of which a few were compiled.
        cores: how many cores have such a program.
    """

    graph: Graph
    weights: frozenset[int]
    figures: Figures
    stacks: tuple[Stack, ...] = ()
    cores: int = 1

    @property
    def layers(self) -> int:
        """How many equal layers there are of which a few were compiled."""
        return max((stack.count for stack in self.stacks), default=0)

    def compiled(self) -> Graph:
        """The graph of the program that was compiled."""
        kept = list(zip(self.stacks, self.figures.kept, strict=True))
        return shortened(self.graph, kept) or self.graph


def priced(graph: Graph, weights: frozenset[int], asked: Asked) -> Priced:
    """What a graph takes on each of the cores that are asked for, in the fastest schedule."""
    own = frozenset(value.number for value in graph.inputs) & weights
    if any(node.kind in APART for node in graph.nodes):
        return Priced(graph, own, _apart(graph, asked.target, 0))
    what = graph.key(), tuple(sorted(own)), asked.target, asked.cores, asked.level
    key = ("model", *what, asked.links() if has_exchanges(graph) else None, *sorted(left_out()))
    found = cache.read(key)
    graph, own = legal(graph, own)
    if found is not None:
        numbers = found.pop("stacks")
        stacks = stacks_of(graph) if numbers else []
        chosen = tuple(stacks[number] for number in numbers)
        return Priced(graph, own, Figures.restored(found), chosen, asked.cores)
    made = _compiled(graph, own, asked)
    stacks = stacks_of(graph) if made.stacks else []
    numbers = [stacks.index(stack) for stack in made.stacks]
    cache.write(key, {**made.figures.stored(), "stacks": numbers})
    return made


def _compiled(graph: Graph, weights: frozenset[int], asked: Asked) -> Priced:
    """What a graph takes: compiled whole, or with fewer of its equal layers."""
    plain = Priced(graph, weights, Figures(), (), asked.cores)
    stacks = [one for one in stacks_of(graph) if _least(replace(plain, stacks=(one,)))]
    for some in (stacks, stacks[:1]):
        found = _by_layers(replace(plain, stacks=tuple(some)), asked)
        if found is not None:
            return found
    return replace(plain, figures=_searched(graph, weights, asked))


def _searched(graph: Graph, weights: frozenset[int], asked: Asked) -> Figures:
    """The figures of a graph in the fastest schedule that is tried."""
    first = figures_of(graph, weights, asked)
    tried = others(asked.level, first.lacks, first.instructions)

    def time_s(schedule: Schedule) -> float:
        return figures_of(graph, weights, asked, schedule).device_time_s

    chosen = fastest(first.device_time_s, tried, time_s, asked)
    return figures_of(graph, weights, asked, chosen) if chosen != FIRST else first


def _by_layers(whole: Priced, asked: Asked) -> Priced | None:
    """A graph's figures from those with few layers; None where layers are read elsewhere.

    Two programs that differ by some layers of a stack give what one takes beside its neighbours.
    The schedule is the fastest for the fewest layers.
    """
    stacks = whole.stacks
    least = _least(whole)
    short = _short(whole, least) if least and stacks else None
    if short is None:
        return None
    one = _searched(short, whole.weights, asked)
    few, many = (least, least + 1) if one.instructions > _BY_LAYERS else (2 * least, 4 * least)
    deep = [stack for stack in stacks if stack.count > many]
    whole = replace(whole, stacks=tuple(deep))
    short = _short(whole, few)
    if not deep or short is None:
        return None
    is_one = few == least and len(deep) == len(stacks)
    first = one if is_one else figures_of(short, whole.weights, asked, one.schedule)
    time_s, instructions, base = first.device_time_s, float(first.instructions), first
    for stack in deep:
        longer = _short(whole, few, (stack, many))
        if longer is None:
            return None
        more = figures_of(longer, whole.weights, asked, one.schedule)
        steps = (stack.count - few) / (many - few)
        time_s += steps * (more.device_time_s - first.device_time_s)
        instructions += steps * (more.instructions - first.instructions)
        if len(deep) == 1:
            base, short = more, longer
    kept = tuple(many if len(deep) == 1 else few for _ in deep)
    makers = {v.number: at for at, node in enumerate(whole.graph.nodes) for v in node.results}
    places = [makers[node.result.number] for node in short.nodes]
    layers = list(zip(deep, kept, strict=True))
    work = of_layers(base.work, places, layers, time_s, instructions)
    figures = replace(
        base, device_time_s=time_s, instructions=round(instructions), work=work, kept=kept
    )
    return replace(whole, figures=figures)


def _least(whole: Priced) -> int:
    """The fewest layers of each stack that a shorter graph can have; 0 if none can."""
    return next((n for n in range(1, _LEAST + 1) if _short(whole, n)), 0)


def _short(whole: Priced, count: int, other: tuple[Stack, int] | None = None) -> Graph | None:
    """The graph with so many layers of each stack, but for one of them; None if it has no such."""
    kept = {stack: min(count, stack.count) for stack in whole.stacks}
    kept |= dict([other] if other else [])
    cut = [(stack, many) for stack, many in kept.items() if many < stack.count]
    return shortened(whole.graph, cut)


def figures_of(
    graph: Graph, weights: frozenset[int], asked: Asked, schedule: Schedule = FIRST
) -> Figures:
    """The figures of a graph's program in a schedule, all of it compiled.

    They are remembered on disk: a search that was interrupted goes on where it was. A graph that
    this compiler cannot place on the chip is priced as kernels one after another.
    """
    links = asked.links() if has_exchanges(graph) else None
    what = graph.key(), tuple(sorted(weights)), asked.target, asked.cores, schedule
    key = ("program", *what, links, *sorted(left_out()))
    known = cache.read(key)
    if known is not None:
        return Figures.restored(known)
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    options: dict[str, Any] = {"numerics": False, "lnc": asked.cores, "schedule": schedule}
    options["links"] = links
    try:
        found = trace(graph, inputs, asked.target, weights, **options)
    except NO_PROGRAM as error:
        if asked.cores > 1:
            raise  # kernels exchange nothing, so one core has them all
        alone, _ = without_exchanges(graph)
        said = (f"not one program: {error.reason}",)
        made = replace(_apart(alone, asked.target, -1), said=said, schedule=schedule)
    else:
        timeline, work = found.run.timeline, work_of(found, graph, weights)
        made = Figures(
            timeline.device_time_s,
            timeline.launch_s,
            len(timeline),
            work,
            schedule=schedule,
            lacks=found.lacks,
            is_linked=links is not None,
            wanted_bytes=found.wanted_bytes,
        )
    cache.write(key, made.stored())
    return made


def has_exchanges(graph: Graph) -> bool:
    """Whether ranks exchange anything."""
    return any(node.kind is Kind.COLLECTIVE for node in graph.nodes)


def _apart(graph: Graph, target: str, place: int) -> Figures:
    """What branches, loops and users' kernels take, by their kernels.

    `place` is that of the one operation which they are of, or -1.
    """
    found = Figures()
    for cost in costs(graph, target):
        part = Part(cost.instructions, {}, {KERNELS: cost.device_time_s})
        work: Work = {(cost.name, place): part}
        one = Figures(cost.device_time_s, cost.launch_s, cost.instructions, work)
        found = found.plus(one)
    return found
