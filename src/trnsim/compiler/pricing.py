"""Prices of a graph's program: compiled whole, or with fewer of its equal layers.

They are cached on disk, so that a model is compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from trnsim.compiler.layers import Stack, shortened, stacks_of
from trnsim.compiler.program import legalize_graph
from trnsim.compiler.schedules import CompileOptions, alternative_schedules, fastest_schedule
from trnsim.compiler.work import Work, from_rows, scale_work, sum_work, to_rows, traced_work
from trnsim.errors import IllegalInstruction, InternalError, OutOfMemory
from trnsim.graph import Graph, Kind
from trnsim.graph.rewriting import omitted
from trnsim.lower import cache, costs, without_exchanges
from trnsim.lower.emit.schedule import FIRST, SbufSchedule
from trnsim.lower.program import trace
from trnsim.profile.measures.parts import PartCost

APART: Final = (Kind.CONTROL, Kind.CALL)
"""Kinds of operations that are programs of their own: control flow, and the user's kernels."""
NO_PROGRAM: Final = (OutOfMemory, IllegalInstruction, InternalError)
"""Errors of a graph that does not fit on the chip as one program."""
KERNELS: Final = "kernels"
"""The key in busy times of kernels that run one after another."""
_BY_LAYERS: Final = 4000
"""Instructions of the fewest layers beyond which n and n + 1 are compiled, else 2 n and 4 n."""
_LEAST: Final = 3
"""Number of layers of each stack beyond which no shorter graph is looked for."""


@dataclass(frozen=True, slots=True)
class ProgramFigures:
    """Figures of a program, which add up over programs.

    Attributes:
        device_time_s: time from the first instruction to the last result.
        launch_s: the fixed cost of starting it.
        instructions: number of instructions.
        work: work of each operation.
        said: reasons why parts of it are no single program.
        kept: number of layers compiled of each stack; empty if all were.
        schedule: division of SBUF.
        lacks: resources that another schedule may give it.
        is_linked: whether its exchanges between ranks take their time in it.
        wanted_bytes: most bytes of an SBUF partition that results yet to be read want at once.
    """

    device_time_s: float = 0.0
    launch_s: float = 0.0
    instructions: int = 0
    work: Work = field(default_factory=dict[tuple[str, int], PartCost])
    said: tuple[str, ...] = ()
    kept: tuple[int, ...] = ()
    schedule: SbufSchedule = FIRST
    lacks: frozenset[str] = frozenset()
    is_linked: bool = False
    wanted_bytes: int = 0

    def stored(self) -> dict[str, Any]:
        """The figures as JSON."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        schedule = (self.schedule.passing_bytes, self.schedule.ring_bytes)
        return {**plain, "work": to_rows(self.work), "schedule": schedule, "lacks": [*self.lacks]}

    @classmethod
    def restored(cls, plain: dict[str, Any]) -> ProgramFigures:
        """Figures from JSON."""
        fields_by_name = dict(plain)
        fields_by_name["work"] = from_rows(plain["work"])
        fields_by_name |= {name: tuple(plain[name]) for name in ("said", "kept")}
        fields_by_name["schedule"] = SbufSchedule(*plain["schedule"])
        fields_by_name["lacks"] = frozenset(plain["lacks"])
        return cls(**fields_by_name)

    def plus(self, other: ProgramFigures) -> ProgramFigures:
        """The sum with another program's figures; one launch."""
        return ProgramFigures(
            self.device_time_s + other.device_time_s,
            self.launch_s or other.launch_s,
            self.instructions + other.instructions,
            sum_work(self.work, other.work),
            tuple(dict.fromkeys((*self.said, *other.said))),
        )


@dataclass(frozen=True, slots=True)
class PricedGraph:
    """A graph with the figures of its program.

    Attributes:
        graph: operations that have instructions; places of the work refer to it.
        weights: numbers of its inputs that do not change.
        figures: figures of the program.
        stacks: equal layers of which a few were compiled.
        cores: number of cores that run the program.
    """

    graph: Graph
    weights: frozenset[int]
    figures: ProgramFigures
    stacks: tuple[Stack, ...] = ()
    cores: int = 1

    @property
    def layers(self) -> int:
        """Number of equal layers of which a few were compiled."""
        return max((stack.count for stack in self.stacks), default=0)

    def compiled(self) -> Graph:
        """The graph of the program that was compiled."""
        kept = list(zip(self.stacks, self.figures.kept, strict=True))
        return shortened(self.graph, kept) or self.graph


def price_graph(graph: Graph, weights: frozenset[int], options: CompileOptions) -> PricedGraph:
    """The price of a graph on each of the cores of `options`, in the fastest schedule."""
    own = frozenset(value.number for value in graph.inputs) & weights
    if any(node.kind in APART for node in graph.nodes):
        return PricedGraph(graph, own, _kernel_figures(graph, options.target, 0))
    base = graph.key(), tuple(sorted(own)), options.target, options.cores, options.level
    key = ("model", *base, options.links() if has_exchanges(graph) else None, *sorted(omitted()))
    cached = cache.read(key)
    graph, own = legalize_graph(graph, own)
    if cached is not None:
        numbers = cached.pop("stacks")
        stacks = stacks_of(graph) if numbers else []
        chosen = tuple(stacks[number] for number in numbers)
        return PricedGraph(graph, own, ProgramFigures.restored(cached), chosen, options.cores)
    compiled = _compile_graph(graph, own, options)
    stacks = stacks_of(graph) if compiled.stacks else []
    numbers = [stacks.index(stack) for stack in compiled.stacks]
    cache.write(key, {**compiled.figures.stored(), "stacks": numbers})
    return compiled


def _compile_graph(graph: Graph, weights: frozenset[int], options: CompileOptions) -> PricedGraph:
    """The price of a graph: compiled with fewer of its equal layers if possible, else whole."""
    plain = PricedGraph(graph, weights, ProgramFigures(), (), options.cores)
    stacks = [stack for stack in stacks_of(graph) if _min_layers(replace(plain, stacks=(stack,)))]
    for some in (stacks, stacks[:1]):
        by_layers = _price_by_layers(replace(plain, stacks=tuple(some)), options)
        if by_layers is not None:
            return by_layers
    return replace(plain, figures=_try_schedules(graph, weights, options))


def _try_schedules(
    graph: Graph, weights: frozenset[int], options: CompileOptions
) -> ProgramFigures:
    """The figures of a graph in the fastest schedule that is tried."""
    first = program_figures(graph, weights, options)
    tried = alternative_schedules(options.level, first.lacks, first.instructions)

    def time_s(schedule: SbufSchedule) -> float:
        return program_figures(graph, weights, options, schedule).device_time_s

    chosen = fastest_schedule(first.device_time_s, tried, time_s, options)
    return program_figures(graph, weights, options, chosen) if chosen != FIRST else first


def _price_by_layers(whole: PricedGraph, options: CompileOptions) -> PricedGraph | None:
    """A graph's figures from those with few layers; None where layers cannot be removed.

    Two programs that differ by some layers of a stack give the time of a layer among its
    neighbours. The schedule is the fastest for the fewest layers.
    """
    stacks = whole.stacks
    least = _min_layers(whole)
    short = _shorten(whole, least) if least and stacks else None
    if short is None:
        return None
    fewest = _try_schedules(short, whole.weights, options)
    few, many = (least, least + 1) if fewest.instructions > _BY_LAYERS else (2 * least, 4 * least)
    deep = [stack for stack in stacks if stack.count > many]
    whole = replace(whole, stacks=tuple(deep))
    short = _shorten(whole, few)
    if not deep or short is None:
        return None
    is_fewest = few == least and len(deep) == len(stacks)
    first = fewest if is_fewest else program_figures(short, whole.weights, options, fewest.schedule)
    time_s, instructions, base = first.device_time_s, float(first.instructions), first
    for stack in deep:
        longer = _shorten(whole, few, (stack, many))
        if longer is None:
            return None
        longest = program_figures(longer, whole.weights, options, fewest.schedule)
        steps = (stack.count - few) / (many - few)
        time_s += steps * (longest.device_time_s - first.device_time_s)
        instructions += steps * (longest.instructions - first.instructions)
        if len(deep) == 1:
            base, short = longest, longer
    kept = tuple(many if len(deep) == 1 else few for _ in deep)
    makers = {v.number: at for at, node in enumerate(whole.graph.nodes) for v in node.results}
    places = [makers[node.result.number] for node in short.nodes]
    layers = list(zip(deep, kept, strict=True))
    work = scale_work(base.work, places, layers, time_s, instructions)
    figures = replace(
        base, device_time_s=time_s, instructions=round(instructions), work=work, kept=kept
    )
    return replace(whole, figures=figures)


def _min_layers(whole: PricedGraph) -> int:
    """The fewest layers of each stack that a shorter graph can have; 0 if there is none."""
    return next((n for n in range(1, _LEAST + 1) if _shorten(whole, n)), 0)


def _shorten(
    whole: PricedGraph, count: int, exempt: tuple[Stack, int] | None = None
) -> Graph | None:
    """The graph with `count` layers of each stack, `exempt` excepted; None if impossible."""
    kept = {stack: min(count, stack.count) for stack in whole.stacks}
    kept |= dict([exempt] if exempt else [])
    cut = [(stack, many) for stack, many in kept.items() if many < stack.count]
    return shortened(whole.graph, cut)


def program_figures(
    graph: Graph, weights: frozenset[int], options: CompileOptions, schedule: SbufSchedule = FIRST
) -> ProgramFigures:
    """The figures of a graph's program in a schedule, with all of its operations compiled.

    They are cached on disk: an interrupted search resumes. A graph that this compiler cannot place
    on the chip is priced as kernels one after another.
    """
    links = options.links() if has_exchanges(graph) else None
    base = graph.key(), tuple(sorted(weights)), options.target, options.cores, schedule
    key = ("program", *base, links, *sorted(omitted()))
    cached = cache.read(key)
    if cached is not None:
        return ProgramFigures.restored(cached)
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in graph.inputs]
    tracing: dict[str, Any] = {"numerics": False, "lnc": options.cores, "schedule": schedule}
    tracing["links"] = links
    try:
        traced = trace(graph, inputs, options.target, weights, **tracing)
    except NO_PROGRAM as error:
        if options.cores > 1:
            raise  # kernels exchange nothing, so one core has them all
        alone, _ = without_exchanges(graph)
        said = (f"not one program: {error.reason}",)
        figures = replace(_kernel_figures(alone, options.target, -1), said=said, schedule=schedule)
    else:
        timeline, work = traced.run.timeline, traced_work(traced, graph, weights)
        figures = ProgramFigures(
            timeline.device_time_s,
            timeline.launch_s,
            len(timeline),
            work,
            schedule=schedule,
            lacks=traced.lacks,
            is_linked=links is not None,
            wanted_bytes=traced.wanted_bytes,
        )
    cache.write(key, figures.stored())
    return figures


def has_exchanges(graph: Graph) -> bool:
    """True if the graph has exchanges between ranks."""
    return any(node.kind is Kind.COLLECTIVE for node in graph.nodes)


def _kernel_figures(graph: Graph, target: str, place: int) -> ProgramFigures:
    """Figures of branches, loops and users' kernels: the sum of their kernels.

    `place` is that of their only operation in the graph, or -1.
    """
    figures = ProgramFigures()
    for cost in costs(graph, target):
        part = PartCost(cost.instructions, {}, {KERNELS: cost.device_time_s})
        work: Work = {(cost.name, place): part}
        kernel_figures = ProgramFigures(cost.device_time_s, cost.launch_s, cost.instructions, work)
        figures = figures.plus(kernel_figures)
    return figures
