"""`compile`: the time of a graph as one optimized program for each NeuronCore.

Of many equal layers only a few are compiled, as two programs of different depth: the difference of
their times gives that of each layer that is left out.
Branches, loops and the user's kernels split a graph into several programs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from trnsim import arch
from trnsim.compiler.crowded import crowding_note
from trnsim.compiler.flags import Flags
from trnsim.compiler.patterns.hoist import HoistedGraph
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.program_times import (
    PROGRAM_ERRORS,
    SEPARATE_KINDS,
    ProgramFigures,
    TimedGraph,
    time_graph,
)
from trnsim.compiler.schedules import CompileOptions
from trnsim.compiler.sharding import halve_graph
from trnsim.compiler.sharding.splits import CORES
from trnsim.compiler.shares import module_shares
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.graph import Graph, verify
from trnsim.isa import Engine
from trnsim.lower import Bound, Cost, GraphExchange, bound, without_exchanges
from trnsim.lower.bound import hbm_rate
from trnsim.profile.analysis.whole import Share, Whole
from trnsim.profile.measures.metrics import peak_flop_per_s
from trnsim.profile.measures.parts import PartCost

_SOURCE: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_NAMED: Final = 4
"""Number of operations that a note on single-core work names."""


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A graph as a program.

    Attributes:
        target: the chip.
        lnc: physical cores of a logical one.
        flags: those of neuronx-cc.
        device_time_s: time from the first instruction to the last result.
        launch_s: the fixed cost of starting it.
        instructions: number of instructions.
        programs: number of programs into which branches, loops and kernels split it.
        layers: number of equal layers of which a few were compiled; 0 if all operations were.
        compiled_layers: number of those layers that were compiled.
        shares: work of the operations by modules of the model, in its order.
        bound: the time below which no program can be.
        notes: reasons why parts of it are kernels one after another, and work of one core alone.
        exchanges: exchanges between ranks outside of the program, whose time the caller adds.
        crowding: a sentence on results that do not fit in SBUF; "" where that costs little time.
    """

    target: str
    lnc: int
    flags: Flags
    device_time_s: float
    launch_s: float
    instructions: int
    programs: int
    layers: int
    compiled_layers: int
    shares: tuple[Share, ...]
    bound: Bound
    notes: tuple[str, ...] = ()
    exchanges: tuple[GraphExchange, ...] = ()
    crowding: str = ""

    @property
    def exchanged_s(self) -> float:
        """Time of the exchanges in the program, hidden or not."""
        name = Engine.collective.name
        return sum(share.part.busy_s.get(name, 0.0) for share in self.shares)

    @property
    def exposed_s(self) -> float:
        """Time of exchanges on the critical path: the rest is hidden beside other instructions."""
        name = Engine.collective.name
        return sum(share.part.critical_s.get(name, 0.0) for share in self.shares)

    def costs(self) -> tuple[Cost, ...]:
        """Costs of the program's operations, the dearest first, each with the program's one launch.

        An operation's time is its part of the critical path, so that the times add up to the
        program's; its flop are a share in proportion to its time on the Tensor Engine.
        """
        work: dict[str, PartCost] = {}
        for share in self.shares:
            work[share.operation] = work.get(share.operation, PartCost()).plus(share.part)
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
                dict(part.busy_s),
            )
            for name, part in sorted(work.items(), key=lambda item: -item[1].time_s)
        )

    @property
    def bound_ratio(self) -> float:
        """The program's time divided by the physical bound."""
        return self.device_time_s / self.bound.seconds if self.bound.seconds else float("inf")

    @property
    def mfu(self) -> float:
        """``bound.flop / (peak * device_time_s)``: model flop utilization.

        The peak is that of bfloat16, and follows from the Tensor Engine's clock.
        """
        return self._utilization(self.bound.flop, peak_flop_per_s(arch.target(self.target).core))

    @property
    def mbu(self) -> float:
        """``bound.hbm_bytes / (rate * device_time_s)``: weights, inputs and outputs once over HBM.

        The rate is a core's bandwidth to its HBM stack.
        """
        return self._utilization(self.bound.hbm_bytes, hbm_rate(self.target, self.lnc) / self.lnc)

    def whole(self, links_s: float = 0.0, exchanges_s: float = 0.0) -> Whole:
        """The estimate of a step with `exchanges_s` of exchanges; `links_s` enters its bound."""
        limit = replace(self.bound, links_s=links_s)
        return Whole(
            self.launch_s,
            self.device_time_s,
            exchanges_s,
            limit.seconds,
            limit.binds,
            limit.flop,
            limit.hbm_bytes,
            self.mfu,
            self.mbu,
            self.programs,
            self.layers,
            self.compiled_layers,
            self.shares,
            (*self.notes, *([self.crowding] if self.crowding else [])),
        )

    def _utilization(self, amount: float, rate: float) -> float:
        """``amount`` over what the cores do at `rate` each in the program's time."""
        available = rate * self.lnc * self.device_time_s
        return amount / available if available else 0.0


def compile(  # noqa: A001  the name that compilers have
    graph: Graph,
    target: str = "trn2",
    *,
    lnc: int | None = None,
    flags: Flags | None = None,
    weights: Collection[int] = frozenset(),
    tell: Callable[[str], None] = lambda _: None,
    is_linked: bool = True,
) -> CompiledProgram:
    """A graph as one program for each NeuronCore.

    Args:
        graph: the graph.
        target: the chip.
        lnc: physical cores of a logical one, over which the graph is split; by default what
            --logical-nc-config says among the flags, else 1.
        flags: those of neuronx-cc; its defaults if none.
        weights: the inputs that do not change from call to call, by their values' numbers.
        tell: receives messages on the progress of the search for a schedule.
        is_linked: whether exchanges between ranks take their time in the program, where the chip's
            links are described (`trnsim.compiler.links`).

    Raises:
        BadInput: for an `lnc` that the chip does not have, or that the flags contradict.
        NotModelled: for an operation without instructions, by name.
    """
    settings = flags or Flags()
    cores = _cores(lnc, settings, target)
    verify(graph)
    options = CompileOptions(target, cores, settings.optlevel, tell, cores, is_linked)
    total, programs, parts = ProgramFigures(), 0, list[TimedGraph]()
    outside_exchanges: list[GraphExchange] = []
    hoisted = prepare_graph(graph, weights, settings)
    for piece, own_weights in split_programs(hoisted):
        parts.append(time_on_cores(piece, own_weights, options))
        total, programs = total.plus(parts[-1].figures), programs + 1
        if not parts[-1].figures.is_linked:
            outside_exchanges += without_exchanges(piece)[1]
    by_module = [
        share
        for piece in parts
        for share in module_shares(piece.figures.work, piece.graph, piece.stacks)
    ]
    return CompiledProgram(
        target,
        cores,
        settings,
        total.device_time_s,
        total.launch_s,
        total.instructions,
        programs,
        max(piece.layers for piece in parts),
        max((count for piece in parts for count in piece.figures.compiled_layers), default=0),
        tuple(by_module),
        bound(hoisted.step, target, lnc=cores),
        total.notes,
        tuple(outside_exchanges),
        crowding_note([piece.figures for piece in parts], target),
    )


def _cores(lnc: int | None, flags: Flags, target: str) -> int:
    """Physical cores of a logical one.

    Raises:
        BadInput: for any number but 1, and 2 where the chip has logical cores.
    """
    flagged = flags.logical_nc_config
    if lnc is not None and flagged not in (None, lnc):
        raise BadInput(
            f"lnc={lnc} with --logical-nc-config={flagged}; legal: the same number",
            fix="leave one of the two out",
            source=_SOURCE,
        )
    cores, chip = lnc or flagged or 1, arch.target(target)
    legal = (1, CORES) if arch.makes_pairs(chip.core) else (1,)
    if lnc == 0 or cores not in legal:
        chips = enumerated([chip.name for chip in arch.having(arch.makes_pairs)], "and")
        raise BadInput(
            f"lnc={lnc if lnc is not None else flagged} on {target}; legal: "
            f"{enumerated(list(map(str, legal)), 'or')}, as logical cores of two are of {chips}",
            fix="compile for one core (--lnc 1, NEURON_LOGICAL_NC_CONFIG=1)",
            source=_SOURCE,
        )
    return cores


def split_programs(hoisted: HoistedGraph) -> Iterator[tuple[Graph, frozenset[int]]]:
    """The graph and weights of each program of a step, cut at operations of `SEPARATE_KINDS`."""
    step = hoisted.step
    cuts = [place for place, node in enumerate(step.nodes) if node.kind in SEPARATE_KINDS]
    if not cuts:
        yield step, hoisted.weights
        return
    ends = sorted({0, len(step.nodes), *cuts, *(cut + 1 for cut in cuts)})
    for start, end in pairwise(ends):
        piece = _cut_graph(step, start, end)
        yield piece, frozenset(value.number for value in piece.inputs) & hoisted.weights


def _cut_graph(graph: Graph, start: int, end: int) -> Graph:
    """Nodes `start` to `end` as a graph, whose inputs are the values that they read of others."""
    nodes = graph.nodes[start:end]
    result_numbers = {value.number for node in nodes for value in node.results}
    read = {value.number: value for node in nodes for value in node.values}
    later = {value.number for node in graph.nodes[end:] for value in node.values}
    later |= {value.number for value in graph.outputs}
    inputs = [value for number, value in read.items() if number not in result_numbers]
    outputs = [v for node in nodes for v in node.results if v.number in later]
    return Graph(inputs, nodes, outputs)


def time_on_cores(graph: Graph, weights: frozenset[int], options: CompileOptions) -> TimedGraph:
    """A graph with its time on a logical core.

    Two cores run a half each; where one runs the whole graph, the other waits.
    """
    if options.cores == 1:
        return time_graph(graph, weights, options)
    core = arch.paired(arch.target(options.target))
    both = _time_on_both(graph, weights, options, core)
    least_s = bound(graph, options.target, weights=weights).seconds
    if both is not None and both.figures.device_time_s <= least_s:
        return both  # no program of one core can be faster
    alone = time_graph(graph, weights, replace(options, cores=1))
    if both is not None and both.figures.device_time_s < alone.figures.device_time_s:
        return both
    names = ", ".join(dict.fromkeys(node.name for node in graph.nodes[:_NAMED]))
    more = " ..." if len(graph.nodes) > _NAMED else ""
    note = f"one of the two cores does all of: {names}{more}"
    # Both cores of a logical one are started, whether both work or not.
    launch_s = core.paired_launch_s if alone.figures.launch_s else 0.0
    notes = (*alone.figures.notes, note)
    return replace(alone, figures=replace(alone.figures, launch_s=launch_s, notes=notes))


def _time_on_both(
    graph: Graph, weights: frozenset[int], options: CompileOptions, core: arch.NeuronCore
) -> TimedGraph | None:
    """A graph split over two cores, with its time; None without a split or a program of it."""
    own_weights = frozenset(value.number for value in graph.inputs) & weights
    half = halve_graph(graph, own_weights, core)
    if not half.is_split:
        return None
    try:
        split = time_graph(half.graph, half.weights, options)
    except PROGRAM_ERRORS:
        return None
    shared = (f"both cores do all of: {', '.join(half.alike)}",) if half.alike else ()
    notes = (*split.figures.notes, *shared)
    return replace(split, figures=replace(split.figures, notes=notes))


__all__ = ["CompiledProgram", "compile"]
