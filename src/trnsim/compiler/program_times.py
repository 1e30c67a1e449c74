"""The estimated time and work of a graph's program, compiled whole or with few equal layers.

Results are cached on disk, so that a model is compiled once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from trnsim import disk_cache
from trnsim.compiler.layers import Stack, producer_places, shorten_graph, stacks_of
from trnsim.compiler.links import RankLinks
from trnsim.compiler.program import legalize_graph
from trnsim.compiler.schedules import CompileOptions, alternative_schedules, fastest_schedule
from trnsim.compiler.work import (
    Work,
    busiest_engine_s,
    from_rows,
    scale_work,
    sum_work,
    to_rows,
    traced_work,
)
from trnsim.errors import IllegalInstruction, InternalError, OutOfMemory
from trnsim.graph import Graph, Kind
from trnsim.graph.rewriting import omitted_patterns
from trnsim.lower import costs, without_exchanges
from trnsim.lower.emit.schedule import FIRST_SCHEDULE, SbufSchedule
from trnsim.lower.program import trace_without_values
from trnsim.profile.measures.parts import PartCost

SEPARATE_KINDS: Final = (Kind.CONTROL, Kind.CALL)
"""Kinds of operations that are programs of their own: control flow and the user's kernels."""
PROGRAM_ERRORS: Final = (OutOfMemory, IllegalInstruction, InternalError)
"""Errors of a graph that cannot be one program on the chip; its kernels then run one by one."""
KERNELS: Final = "kernels"
"""The key, in the critical seconds of a part, of kernels that run one after another."""
_MANY_INSTRUCTIONS: Final = 4000
"""Instructions of the shortest graph, of n layers of each stack. If it has more, n and n + 1 layers
are compiled; otherwise 2 n and 4 n layers are."""
_MOST_SHORTEST_LAYERS: Final = 3
"""The most layers of each stack that the shortest graph may have."""
_WORK_IN_ALL_SCHEDULES: Final = 0.95
"""The part of an engine's work that all schedules have in common, as only their spills differ."""


class NoFasterProgramError(Exception):
    """A graph whose program cannot take less than `CompileOptions.limit_s`."""


@dataclass(frozen=True, slots=True)
class ProgramFigures:
    """Figures of a program, which add up over programs.

    Attributes:
        device_time_s: time from the first instruction to the last result.
        launch_s: time to start the program.
        work: work of each operation, by its name and its index in the graph.
        notes: sentences for the user on parts that are kernels one after another.
        compiled_layers: number of layers of each stack that were compiled; empty if all were.
        schedule: the division of SBUF between results and passing tiles.
        shortages: shortages of SBUF that another division of it may remove: `ROOM` and `RING` of
            `lower.emit.schedule`.
        is_linked: whether exchanges between ranks are part of the program's time.
        wanted_bytes: peak of the bytes of an SBUF partition for all results not yet read.
    """

    device_time_s: float = 0.0
    launch_s: float = 0.0
    instructions: int = 0
    work: Work = field(default_factory=dict[tuple[str, int], PartCost])
    notes: tuple[str, ...] = ()
    compiled_layers: tuple[int, ...] = ()
    schedule: SbufSchedule = FIRST_SCHEDULE
    shortages: frozenset[str] = frozenset()
    is_linked: bool = False
    wanted_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """The figures as JSON."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        schedule = (self.schedule.passing_bytes, self.schedule.ring_bytes)
        return {
            **values,
            "work": to_rows(self.work),
            "schedule": schedule,
            "shortages": [*self.shortages],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ProgramFigures:
        """The figures that `as_json` encoded.

        Raises:
            KeyError: where a field is missing.
        """
        decoded: dict[str, Any] = {
            "notes": tuple(values["notes"]),
            "compiled_layers": tuple(values["compiled_layers"]),
            "work": from_rows(values["work"]),
            "schedule": SbufSchedule(*values["schedule"]),
            "shortages": frozenset(values["shortages"]),
        }
        return cls(*((values | decoded)[item.name] for item in fields(cls)))

    def plus(self, other: ProgramFigures) -> ProgramFigures:
        """The sum of times, instructions, work and notes of two programs with a common launch."""
        return ProgramFigures(
            self.device_time_s + other.device_time_s,
            self.launch_s or other.launch_s,
            self.instructions + other.instructions,
            sum_work(self.work, other.work),
            tuple(dict.fromkeys((*self.notes, *other.notes))),
        )


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """A graph with the figures of its program.

    Attributes:
        graph: operations that have instructions; the work names them by their index in it.
        weights: the inputs that do not change from call to call, by their values' numbers.
        stacks: stacks of equal layers of which only some were compiled.
        cores: number of cores that run the program.
    """

    graph: Graph
    weights: frozenset[int]
    figures: ProgramFigures
    stacks: tuple[Stack, ...] = ()
    cores: int = 1

    @property
    def layers(self) -> int:
        """Number of layers of the longest stack that was compiled in part; 0 if there is none."""
        return max((stack.count for stack in self.stacks), default=0)

    def compiled(self) -> Graph:
        """The graph of the program that was compiled."""
        layers = list(zip(self.stacks, self.figures.compiled_layers, strict=True))
        return shorten_graph(self.graph, layers) or self.graph


def time_graph(graph: Graph, weights: frozenset[int], options: CompileOptions) -> TimedGraph:
    """A graph with its time on each of the cores of `options`, in the fastest schedule.

    Raises:
        NoFasterProgramError: no schedule takes less than the limit of `options`.
    """
    own_weights = frozenset(value.number for value in graph.inputs) & weights
    if is_separate(graph):
        return TimedGraph(graph, own_weights, _kernel_figures(graph, options.target, 0))
    key = _cache_key("model", graph, own_weights, options, options.level)
    graph, own_weights = legalize_graph(graph, own_weights)

    def decode(values: dict[str, Any]) -> TimedGraph:
        numbers = values.pop("stacks")
        stacks = stacks_of(graph) if numbers else []
        cached_stacks = tuple(stacks[number] for number in numbers)
        figures = ProgramFigures.from_json(values)
        return TimedGraph(graph, own_weights, figures, cached_stacks, options.cores)

    cached = disk_cache.read(key, decode)
    if cached is not None:
        return cached
    compiled = _compile_graph(graph, own_weights, options)
    stacks = stacks_of(graph) if compiled.stacks else []
    numbers = [stacks.index(stack) for stack in compiled.stacks]
    disk_cache.write(key, {**compiled.figures.as_json(), "stacks": numbers})
    return compiled


def _compile_graph(graph: Graph, weights: frozenset[int], options: CompileOptions) -> TimedGraph:
    """A graph with its time: compiled with fewer of its equal layers if possible, else whole."""
    untimed = TimedGraph(graph, weights, ProgramFigures(), (), options.cores)
    stacks = [
        stack for stack in stacks_of(graph) if _fewest_layers(replace(untimed, stacks=(stack,)))
    ]
    for shortened_stacks in (stacks, stacks[:1]):
        timed_graph = _time_by_layers(replace(untimed, stacks=tuple(shortened_stacks)), options)
        if timed_graph is not None:
            return timed_graph
    return replace(untimed, figures=_try_schedules(untimed, graph, (), options))


def _try_schedules(
    whole: TimedGraph, graph: Graph, layers: Sequence[tuple[Stack, int]], options: CompileOptions
) -> ProgramFigures:
    """The figures of a graph in the fastest schedule that is tried.

    `graph` is `whole` with the given number of layers of some stacks.

    Raises:
        NoFasterProgramError: one engine's work in the whole graph takes as long as the limit.
    """
    weights = whole.weights
    first = program_figures(graph, weights, options)
    work_s = busiest_engine_s(first.work, _places_in_whole(whole.graph, graph), layers)
    if _WORK_IN_ALL_SCHEDULES * work_s >= options.limit_s:
        raise NoFasterProgramError
    alternatives = alternative_schedules(options.level, first.shortages, first.instructions)

    def time_s(schedule: SbufSchedule) -> float:
        return program_figures(graph, weights, options, schedule).device_time_s

    fastest = fastest_schedule(first.device_time_s, alternatives, time_s, options)
    return program_figures(graph, weights, options, fastest) if fastest != FIRST_SCHEDULE else first


def _time_by_layers(whole: TimedGraph, options: CompileOptions) -> TimedGraph | None:
    """A graph's figures, from programs of few of its layers.

    None if layers cannot be removed, or if these programs together have as many operations as the
    whole graph.

    Two programs that differ by some layers of a stack give the time of a layer among its
    neighbours. The schedule is the fastest for the shortest graph.
    """
    stacks = whole.stacks
    shortest = _fewest_layers(whole)
    short = _shorten(whole, shortest) if shortest and stacks else None
    if short is None or _least_operations(whole, shortest) >= len(whole.graph.nodes):
        return None
    layers = [(stack, min(shortest, stack.count)) for stack in stacks]
    shortest_figures = _try_schedules(whole, short, layers, options)
    schedule = shortest_figures.schedule
    is_large = shortest_figures.instructions > _MANY_INSTRUCTIONS
    few, many = (shortest, shortest + 1) if is_large else (2 * shortest, 4 * shortest)
    cut_stacks = [stack for stack in stacks if stack.count > many]
    whole = replace(whole, stacks=tuple(cut_stacks))
    short = _shorten(whole, few)
    if not cut_stacks or short is None:
        return None
    is_shortest = few == shortest and len(cut_stacks) == len(stacks)
    first = (
        shortest_figures
        if is_shortest
        else program_figures(short, whole.weights, options, schedule)
    )
    time_s, instructions, base = first.device_time_s, float(first.instructions), first
    for stack in cut_stacks:
        longer = _shorten(whole, few, (stack, many))
        if longer is None:
            return None
        longer_figures = program_figures(longer, whole.weights, options, schedule)
        steps = (stack.count - few) / (many - few)
        time_s += steps * (longer_figures.device_time_s - first.device_time_s)
        instructions += steps * (longer_figures.instructions - first.instructions)
        if len(cut_stacks) == 1:
            base, short = longer_figures, longer
    compiled_layers = tuple(many if len(cut_stacks) == 1 else few for _ in cut_stacks)
    layers = list(zip(cut_stacks, compiled_layers, strict=True))
    places = _places_in_whole(whole.graph, short)
    work = scale_work(base.work, places, layers, time_s, instructions)
    figures = replace(
        base,
        device_time_s=time_s,
        instructions=round(instructions),
        work=work,
        compiled_layers=compiled_layers,
    )
    return replace(whole, figures=figures)


def _least_operations(whole: TimedGraph, shortest: int) -> int:
    """Number of operations of all shorter graphs that are compiled, if the shortest is large."""
    shorter = [_shorten(whole, shortest)]
    shorter += [_shorten(whole, shortest, (stack, shortest + 1)) for stack in whole.stacks]
    return sum(len(graph.nodes) for graph in shorter if graph is not None)


def _places_in_whole(graph: Graph, shorter: Graph) -> list[int]:
    """For each operation of `shorter`, which has fewer layers, its index in `graph`."""
    producers = producer_places(graph)
    return [producers[node.result.number] for node in shorter.nodes]


def _fewest_layers(whole: TimedGraph) -> int:
    """The fewest layers of each stack that a shorter graph can have; 0 if there is none."""
    return next((n for n in range(1, _MOST_SHORTEST_LAYERS + 1) if _shorten(whole, n)), 0)


def _shorten(
    whole: TimedGraph, count: int, exempt: tuple[Stack, int] | None = None
) -> Graph | None:
    """The graph with `count` layers of each stack, and another number of the stack `exempt`.

    None if other operations read the layers that would be removed.
    """
    counts = {stack: min(count, stack.count) for stack in whole.stacks}
    counts |= dict([exempt] if exempt else [])
    layers = [(stack, number) for stack, number in counts.items() if number < stack.count]
    return shorten_graph(whole.graph, layers)


def program_figures(
    graph: Graph,
    weights: frozenset[int],
    options: CompileOptions,
    schedule: SbufSchedule = FIRST_SCHEDULE,
) -> ProgramFigures:
    """The figures of a graph's program in a schedule, with all of its operations compiled.

    The figures are cached on disk, so that an interrupted search resumes. A graph that cannot be
    placed on the chip has the time of its kernels one after another.
    """
    key = _cache_key("program", graph, weights, options, schedule)
    cached = disk_cache.read(key, ProgramFigures.from_json)
    if cached is not None:
        return cached
    links = links_of_graph(graph, options)
    try:
        traced = trace_without_values(
            graph, options.target, weights, lnc=options.cores, schedule=schedule, links=links
        )
    except PROGRAM_ERRORS as error:
        if options.cores > 1:
            raise  # kernels exchange nothing, so one core has them all
        local_graph, _ = without_exchanges(graph)
        figures = replace(
            _kernel_figures(local_graph, options.target, -1),
            notes=(f"not one program: {error.reason}",),
            schedule=schedule,
        )
    else:
        timeline, work = traced.run.timeline, traced_work(traced, graph, weights)
        figures = ProgramFigures(
            timeline.device_time_s,
            timeline.launch_s,
            len(timeline),
            work,
            schedule=schedule,
            shortages=traced.shortages,
            is_linked=links is not None,
            wanted_bytes=traced.wanted_bytes,
        )
    disk_cache.write(key, figures.as_json())
    return figures


def _cache_key(
    content: str, graph: Graph, weights: frozenset[int], options: CompileOptions, search: Hashable
) -> Hashable:
    """The key on disk of the figures of a graph's program.

    Args:
        content: "model" for a graph with equal layers, "program" for one that is compiled whole.
        graph: the graph.
        weights: numbers of its weights.
        options: the options of the compilation.
        search: the level of the search for a schedule, or the schedule.
    """
    return (
        *(content, graph.key(), tuple(sorted(weights)), options.target, options.cores, search),
        *(links_of_graph(graph, options), *sorted(omitted_patterns())),
    )


def links_of_graph(graph: Graph, options: CompileOptions) -> RankLinks | None:
    """The links that the exchanges of a graph use; None if it has none."""
    return options.links() if has_exchanges(graph) else None


def has_exchanges(graph: Graph) -> bool:
    """True if the graph has exchanges between ranks."""
    return any(node.kind is Kind.COLLECTIVE for node in graph.nodes)


def is_separate(graph: Graph) -> bool:
    """True if a graph has operations of `SEPARATE_KINDS`."""
    return any(node.kind in SEPARATE_KINDS for node in graph.nodes)


def _kernel_figures(graph: Graph, target: str, place: int) -> ProgramFigures:
    """Figures of a graph whose kernels run one after another: their sum.

    `place` is the index of the graph's only operation, or -1 if there are several.
    """
    figures = ProgramFigures()
    for cost in costs(graph, target):
        part = PartCost(cost.instructions, {}, critical_s={KERNELS: cost.device_time_s})
        work: Work = {(cost.name, place): part}
        kernel_figures = ProgramFigures(cost.device_time_s, cost.launch_s, cost.instructions, work)
        figures = figures.plus(kernel_figures)
    return figures
