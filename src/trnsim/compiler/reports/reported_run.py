"""The program of a compiled graph for a report: its instructions by the user's lines.

Of several programs, the report shows the program with most operations; of equal layers, the layers
that were compiled.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from trnsim.compiler.compilation import split_programs, time_on_cores
from trnsim.compiler.compiled_program import CompiledProgram
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.program_times import PROGRAM_ERRORS, is_separate
from trnsim.compiler.schedules import CompileOptions
from trnsim.errors import BadInput, SourceLine
from trnsim.graph import Graph
from trnsim.lower.program import TracedProgram, trace_without_values
from trnsim.runs import Run


def reported_run(
    graph: Graph, program: CompiledProgram, title: str, weights: Collection[int]
) -> Run:
    """The run of a graph's largest program, with the source line of each instruction.

    Raises:
        BadInput: the graph has no program, as kernels run one after another.
    """
    step = prepare_graph(graph, weights, program.flags)
    programs = [pair for pair in split_programs(step) if not is_separate(pair[0])]
    if not programs:
        raise BadInput(
            f"{title} has no program to show: branches, loops and kernels run by themselves",
            fix="leave --report out, or report each kernel: trnsim run SCRIPT --report DIR",
        )
    largest = max(programs, key=lambda pair: len(pair[0].nodes))
    options = CompileOptions(program.target, program.lnc, program.flags.optlevel, lnc=program.lnc)
    timed_graph = time_on_cores(*largest, options)
    piece = timed_graph.compiled()
    links = replace(options, cores=timed_graph.cores).links()
    trace_options: dict[str, Any] = {
        "lnc": timed_graph.cores,
        "schedule": timed_graph.figures.schedule,
        "links": links,
    }
    try:
        traced = trace_without_values(piece, program.target, timed_graph.weights, **trace_options)
    except PROGRAM_ERRORS as error:
        raise BadInput(
            f"{title} has no whole program to show: {error.reason}",
            fix="leave --report out",
        ) from error
    _set_lines(traced)
    return replace(traced.run, title=title)


def _set_lines(traced: TracedProgram) -> None:
    """Set each instruction's source line to that of its operation."""
    lines: dict[SourceLine, int] = {}
    line_numbers: list[int] = []
    for span in traced.names:
        origin = span.node.origin if span.node is not None else None
        line = origin.line if origin is not None else None
        line_numbers.append(-1 if line is None else lines.setdefault(line, len(lines)))
    program = traced.run.timeline.program
    program.lines = list(lines)
    program.line_of = array("l", np.array(line_numbers, np.int64)[traced.stretches()].tolist())
