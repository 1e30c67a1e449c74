"""What each operation of a graph takes of its program: time, engines, HBM.

An operation is known by its place in the graph, so that what is remembered on disk names no
module of any model. Of equal layers, the first one's places stand for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from trnsim.compiler.layers import Stack
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention
from trnsim.graph.ops.layout import BroadcastInDim, Concatenate, Reshape, Transpose
from trnsim.graph.ops.rounding import Convert
from trnsim.lower.program import Traced
from trnsim.profile.measures.parts import Part, parts
from trnsim.timing.occupancy import Integers

Work = dict[tuple[str, int], Part]
"""What is taken, by the operations in words and the place of the node that stands for them.

The place is -1 where no node does.
"""
REASONS: Final = ("weights", "cache", "inputs", "outputs", "spills", "intermediate")
"""Why HBM is read or written.

cache: keys and values that were given. spills: results for which SBUF had no room. intermediate:
results that a kernel takes or gives in HBM, or that are laid out anew there.
"""
_MOVED: Final = (BroadcastInDim, Concatenate, Convert, Reshape, Transpose)


def traced_work(traced: Traced, graph: Graph, weights: frozenset[int]) -> Work:
    """What the operations of a graph take, from its program."""
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    keys = [(span.name, places.get(id(span.node), -1)) for span in traced.names]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    of_name = np.array([numbers[key] for key in keys], np.int64)
    part_of = of_name[traced.stretches()]
    reason_of = _reasons(traced, graph, weights)
    totals = parts(traced.run.timeline, part_of, len(numbers), REASONS, reason_of)
    return {key: part for key, part in zip(numbers, totals, strict=True) if part.instructions}


def _reasons(traced: Traced, graph: Graph, weights: frozenset[int]) -> Integers:
    """The reasons of what each instruction reads and writes."""
    program = traced.run.timeline.program
    cache = caches(graph, weights)
    of_input = {
        serial: "weights" if number in weights else "cache" if number in cache else "inputs"
        for serial, number in traced.inputs.items()
    }
    of_result = dict.fromkeys(traced.spilled, "spills") | dict.fromkeys(traced.outputs, "outputs")
    of_result |= {serial: "spills" for serial, use in program.uses.items() if use.is_spill}
    reasons = {s: REASONS.index(reason) for s, reason in (of_result | of_input).items()}
    intermediate = REASONS.index("intermediate")
    read = [reasons.get(serial, intermediate) for serial in program.tensor_of]
    # What is read stands for both where a transfer goes from HBM to HBM; inputs are not written.
    inputs = {REASONS.index(name) for name in ("weights", "cache", "inputs")}
    written = [intermediate if reason in inputs else reason for reason in read]
    return np.array([read, written], np.int64)


def caches(graph: Graph, weights: frozenset[int]) -> frozenset[int]:
    """The inputs, but for weights, that attention reads as keys or values as they were given."""
    maker = {value.number: node for node in graph.nodes for value in node.results}
    waiting = [
        value
        for node in graph.nodes
        if isinstance(node.operation, Attention)
        for value in node.values[1:3]
    ]
    inputs: set[int] = set()
    visited: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value.number in visited:
            continue
        visited.add(value.number)
        node = maker.get(value.number)
        if node is None:
            inputs.add(value.number)
        elif isinstance(node.operation, _MOVED):
            waiting += node.values
    return frozenset(inputs - weights)


def sum_work(work: Work, other: Work) -> Work:
    """What two programs take."""
    keys = dict.fromkeys([*work, *other])
    return {key: work.get(key, Part()).plus(other.get(key, Part())) for key in keys}


def scale_work(
    work: Work,
    places: Sequence[int],
    stacks: Sequence[tuple[Stack, int]],
    time_s: float,
    instructions: float,
) -> Work:
    """The work of a graph with all of its layers, from that of one with some of each stack.

    Each compiled layer stands for as many, so that times and instructions add up to those given;
    the places are those of the first layer.

    Args:
        work: of the shorter graph.
        places: of its operations in the whole graph.
        stacks: and how many layers of each were compiled.
        time_s: of the whole program.
        instructions: of the whole program.
    """
    rows = [
        (name, *_first(places[place] if place >= 0 else place, stacks), part)
        for (name, place), part in work.items()
    ]
    inside = [(times, part) for *_, times, part in rows if times != 1]
    outside = [part for *_, times, part in rows if times == 1]
    longer = _share(
        time_s - sum(part.time_s for part in outside), sum(n * part.time_s for n, part in inside)
    )
    more = _share(
        instructions - sum(one.instructions for one in outside),
        sum(n * part.instructions for n, part in inside),
    )
    scaled_work: Work = {}
    for name, place, times, part in rows:
        grown = part if times == 1 else part.times(times, times * longer, times * more)
        scaled_work[name, place] = scaled_work.get((name, place), Part()).plus(grown)
    return scaled_work


def _first(place: int, stacks: Sequence[tuple[Stack, int]]) -> tuple[int, float]:
    """The place of the first layer's same operation, and how many layers a compiled one is."""
    for stack, count in stacks:
        for run in stack.runs:
            if run.layer(place) is not None:
                left = run.count - (stack.count - count)
                return run.start + (place - run.start) % run.length, run.count / left
    return place, 1.0


def _share(total: float, part: float) -> float:
    return total / part if part > 0 and total > 0 else 1.0


def to_rows(work: Work) -> list[list[object]]:
    """Work as JSON."""
    return [
        [name, place, part.instructions, part.busy_s, part.critical_s, part.hbm_bytes]
        for (name, place), part in work.items()
    ]


def from_rows(rows: list[list[Any]]) -> Work:
    """Work from JSON."""
    return {(name, place): Part(*rest) for name, place, *rest in rows}
