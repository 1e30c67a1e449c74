"""`compile`: the time of a graph as one optimized program for each NeuronCore.

The program of a graph that an earlier process compiled is read from disk. Of many equal layers only
a few are compiled, as two programs of different depth: the difference of their times gives the time
of each further layer. Branches, loops and the user's kernels split a graph into several programs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Final

from trnsim import arch
from trnsim.compiler.compiled_program import CompiledProgram
from trnsim.compiler.flags import Flags
from trnsim.compiler.patterns.hoist import HoistedGraph
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.program_entry import ProgramEntry
from trnsim.compiler.program_times import (
    PROGRAM_ERRORS,
    SEPARATE_KINDS,
    NoFasterProgramError,
    ProgramFigures,
    TimedGraph,
    time_graph,
)
from trnsim.compiler.reports.crowding import crowding_note
from trnsim.compiler.reports.module_shares import module_shares
from trnsim.compiler.schedules import CompileOptions
from trnsim.compiler.sharding import halve_graph
from trnsim.compiler.sharding.splits import CORES
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.graph import Graph, verify
from trnsim.lower import GraphExchange, bound, without_exchanges

_SOURCE: Final = "aws-neuron-sdk logical-neuroncore-config.rst"
_NAMED_OPERATIONS: Final = 4
"""Number of operations that a note on single-core work names."""


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
        lnc: number of physical cores of a logical core, over which the graph is split; by default
            the value of --logical-nc-config in `flags`, else 1.
        flags: the flags of neuronx-cc; None for its defaults.
        weights: the inputs that do not change from call to call, by their values' numbers.
        tell: receives messages on the progress of the search for a schedule.
        is_linked: whether the program's time includes exchanges between ranks; without effect for a
            chip whose links are not described (`trnsim.compiler.links`).

    Raises:
        BadInput: for an `lnc` that the chip does not have, or that the flags contradict.
        NotModelled: for an operation without instructions, by name.
    """
    settings = flags or Flags()
    cores = logical_core_size(lnc, settings, target)
    # both `cores` and `lnc`, as one core may run the whole program of a logical core
    options = CompileOptions(target, cores, settings.optlevel, tell, cores, is_linked)
    entry = ProgramEntry(graph, frozenset(weights), options, settings)
    program = entry.read()
    if program is None:
        program = _compile_graph(graph, weights, options, settings)
        entry.write(program)
    return program


def _compile_graph(
    graph: Graph, weights: Collection[int], options: CompileOptions, flags: Flags
) -> CompiledProgram:
    """The program of a graph that no earlier process compiled."""
    verify(graph)
    total, programs, parts = ProgramFigures(), 0, list[TimedGraph]()
    outside_exchanges: list[GraphExchange] = []
    hoisted = prepare_graph(graph, weights, flags)
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
        options.target,
        options.cores,
        flags,
        total.device_time_s,
        total.launch_s,
        total.instructions,
        programs,
        max(piece.layers for piece in parts),
        max((count for piece in parts for count in piece.figures.compiled_layers), default=0),
        tuple(by_module),
        bound(hoisted.step, options.target, lnc=options.cores),
        total.notes,
        tuple(outside_exchanges),
        crowding_note([piece.figures for piece in parts], options.target),
    )


def logical_core_size(lnc: int | None, flags: Flags, target: str) -> int:
    """Number of physical cores of a logical core.

    Raises:
        BadInput: for any number but 1, and 2 where the chip has logical cores.
    """
    flag_lnc = flags.logical_nc_config
    if lnc is not None and flag_lnc not in (None, lnc):
        raise BadInput(
            f"lnc={lnc} with --logical-nc-config={flag_lnc}; legal: the same number",
            fix="leave one of the two out",
            source=_SOURCE,
        )
    cores, chip = lnc or flag_lnc or 1, arch.target(target)
    legal = (1, CORES) if arch.makes_pairs(chip.core) else (1,)
    is_integer = lnc is None or type(lnc) is int
    if not is_integer or lnc == 0 or cores not in legal:
        chips = enumerated([chip.name for chip in arch.having(arch.makes_pairs)], "and")
        raise BadInput(
            f"lnc={lnc if lnc is not None else flag_lnc} on {target}; legal: "
            f"{enumerated(list(map(str, legal)), 'or')}, as only {chips} join two physical cores "
            "to a logical one",
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
    """Nodes `start` to `end` as a graph, whose inputs are the values that other nodes compute."""
    nodes = graph.nodes[start:end]
    result_numbers = {value.number for node in nodes for value in node.results}
    read = {value.number: value for node in nodes for value in node.values}
    later_numbers = {value.number for node in graph.nodes[end:] for value in node.values}
    later_numbers |= {value.number for value in graph.outputs}
    inputs = [value for number, value in read.items() if number not in result_numbers]
    outputs = [v for node in nodes for v in node.results if v.number in later_numbers]
    return Graph(inputs, nodes, outputs)


def time_on_cores(graph: Graph, weights: frozenset[int], options: CompileOptions) -> TimedGraph:
    """A graph with its time on a logical core.

    Two cores run a half each. If one core runs the whole graph, the other waits.
    """
    if options.cores == 1:
        return time_graph(graph, weights, options)
    core = arch.paired(arch.target(options.target))
    two_cores = _time_on_both_cores(graph, weights, options, core)
    least_s = bound(graph, options.target, weights=weights).seconds
    if two_cores is not None and two_cores.figures.device_time_s <= least_s:
        return two_cores  # no program of one core can be faster
    limit_s = two_cores.figures.device_time_s if two_cores is not None else inf
    try:
        one_core = time_graph(graph, weights, replace(options, cores=1, limit_s=limit_s))
    except NoFasterProgramError:
        if two_cores is None:
            raise
        return two_cores
    if two_cores is not None and limit_s < one_core.figures.device_time_s:
        return two_cores
    names = ", ".join(dict.fromkeys(node.name for node in graph.nodes[:_NAMED_OPERATIONS]))
    ellipsis = " ..." if len(graph.nodes) > _NAMED_OPERATIONS else ""
    lone_core = (f"one of the two cores does all of: {names}{ellipsis}",) if names else ()
    # Both cores of a logical one are started, whether both work or not.
    launch_s = core.paired_launch_s if one_core.figures.launch_s else 0.0
    notes = (*one_core.figures.notes, *lone_core)
    return replace(one_core, figures=replace(one_core.figures, launch_s=launch_s, notes=notes))


def _time_on_both_cores(
    graph: Graph, weights: frozenset[int], options: CompileOptions, core: arch.NeuronCore
) -> TimedGraph | None:
    """A graph split over two cores, with its time; None if it has no split or no such program."""
    own_weights = frozenset(value.number for value in graph.inputs) & weights
    half = halve_graph(graph, own_weights, core)
    if not half.is_split:
        return None
    try:
        split = time_graph(half.graph, half.weights, options)
    except PROGRAM_ERRORS:
        return None
    repeated = ", ".join(half.repeated)
    shared = (f"not split, so that both cores compute all of: {repeated}",) if repeated else ()
    notes = (*split.figures.notes, *shared)
    return replace(split, figures=replace(split.figures, notes=notes))
