"""The program of a compiled graph that a report shows: its instructions by the user's lines.

Of several programs it is that with most operations, and of equal layers those that were compiled.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from trnsim.compiler.compilation import CompiledProgram, on_cores, pieces
from trnsim.compiler.patterns.preparation import prepared
from trnsim.compiler.pricing import APART
from trnsim.compiler.schedules import Asked
from trnsim.errors import BadInput, IllegalInstruction, InternalError, OutOfMemory, SourceLine
from trnsim.graph import Graph
from trnsim.lower.program import Traced, trace
from trnsim.runs import Run


def shown(graph: Graph, made: CompiledProgram, title: str, weights: Collection[int]) -> Run:
    """The run of a graph's program, whose lines are those that its operations came from.

    Raises:
        BadInput: there is none, as kernels run one after another.
    """
    step = prepared(graph, weights, made.flags)
    found = [one for one in pieces(step) if not _is_apart(one[0])]
    if not found:
        raise BadInput(
            f"{title} has no program to show: branches, loops and kernels run by themselves",
            fix="leave --report out, or report each kernel: trnsim run SCRIPT --report DIR",
        )
    largest = max(found, key=lambda one: len(one[0].nodes))
    asked = Asked(made.target, made.lnc, made.flags.optlevel, lnc=made.lnc)
    chosen = on_cores(*largest, asked)
    piece = chosen.compiled()
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in piece.inputs]
    links = replace(asked, cores=chosen.cores).links()
    options: dict[str, Any] = {"numerics": False, "lnc": chosen.cores, "links": links}
    try:
        traced = trace(piece, inputs, made.target, chosen.weights, **options)
    except (OutOfMemory, IllegalInstruction, InternalError) as error:
        raise BadInput(
            f"{title} has no program to show, as it is not one: {error.reason}",
            fix="leave --report out",
        ) from error
    _set_lines(traced)
    return replace(traced.run, title=title)


def _is_apart(graph: Graph) -> bool:
    return any(node.kind in APART for node in graph.nodes)


def _set_lines(found: Traced) -> None:
    """Give each instruction the line that its operation came from."""
    lines: dict[SourceLine, int] = {}
    of_name: list[int] = []
    for one in found.names:
        origin = one.node.origin if one.node is not None else None
        line = origin.line if origin is not None else None
        of_name.append(-1 if line is None else lines.setdefault(line, len(lines)))
    program = found.run.timeline.program
    program.lines = list(lines)
    program.line_of = array("l", np.array(of_name, np.int64)[found.stretches()].tolist())
