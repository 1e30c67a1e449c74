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


def work_of(found: Traced, graph: Graph, weights: frozenset[int]) -> Work:
    """What the operations of a graph take, from its program."""
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    keys = [(one.name, places.get(id(one.node), -1)) for one in found.names]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    of_name = np.array([numbers[key] for key in keys], np.int64)
    part_of = of_name[found.stretches()]
    reason_of = _reasons(found, graph, weights)
    made = parts(found.run.timeline, part_of, len(numbers), REASONS, reason_of)
    return {key: one for key, one in zip(numbers, made, strict=True) if one.instructions}


def _reasons(found: Traced, graph: Graph, weights: frozenset[int]) -> Integers:
    """The reasons of what each instruction reads and writes."""
    program = found.run.timeline.program
    cache = caches(graph, weights)
    of_input = {
        serial: "weights" if number in weights else "cache" if number in cache else "inputs"
        for serial, number in found.inputs.items()
    }
    of_result = dict.fromkeys(found.spilled, "spills") | dict.fromkeys(found.outputs, "outputs")
    of_result |= {serial: "spills" for serial, use in program.uses.items() if use.is_spill}
    known = {s: REASONS.index(reason) for s, reason in (of_result | of_input).items()}
    other = REASONS.index("intermediate")
    read = [known.get(serial, other) for serial in program.tensor_of]
    # What is read stands for both where a transfer goes from HBM to HBM; inputs are not written.
    given = {REASONS.index(name) for name in ("weights", "cache", "inputs")}
    written = [other if one in given else one for one in read]
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
    found: set[int] = set()
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if value.number in seen:
            continue
        seen.add(value.number)
        node = maker.get(value.number)
        if node is None:
            found.add(value.number)
        elif isinstance(node.operation, _MOVED):
            waiting += node.values
    return frozenset(found - weights)


def added(work: Work, other: Work) -> Work:
    """What two programs take."""
    keys = dict.fromkeys([*work, *other])
    return {key: work.get(key, Part()).plus(other.get(key, Part())) for key in keys}


def of_layers(
    work: Work,
    places: Sequence[int],
    kept: Sequence[tuple[Stack, int]],
    time_s: float,
    instructions: float,
) -> Work:
    """The work of a graph with all of its layers, from that of one with some of each stack.

    Each compiled layer stands for as many, so that times and instructions add up to those given;
    the places are those of the first layer.

    Args:
        work: of the shorter graph.
        places: of its operations in the whole graph.
        kept: stacks, and how many layers of each were compiled.
        time_s: of the whole program.
        instructions: of the whole program.
    """
    rows = [
        (name, *_first(places[place] if place >= 0 else place, kept), part)
        for (name, place), part in work.items()
    ]
    inside = [(times, part) for *_, times, part in rows if times != 1]
    outside = [part for *_, times, part in rows if times == 1]
    longer = _share(
        time_s - sum(one.time_s for one in outside), sum(n * one.time_s for n, one in inside)
    )
    more = _share(
        instructions - sum(one.instructions for one in outside),
        sum(n * one.instructions for n, one in inside),
    )
    found: Work = {}
    for name, place, times, part in rows:
        scaled = part if times == 1 else part.times(times, times * longer, times * more)
        found[name, place] = found.get((name, place), Part()).plus(scaled)
    return found


def _first(place: int, kept: Sequence[tuple[Stack, int]]) -> tuple[int, float]:
    """The place of the first layer's same operation, and how many layers a compiled one is."""
    for stack, count in kept:
        for run in stack.runs:
            if run.layer(place) is not None:
                left = run.count - (stack.count - count)
                return run.start + (place - run.start) % run.length, run.count / left
    return place, 1.0


def _share(whole: float, part: float) -> float:
    return whole / part if part > 0 and whole > 0 else 1.0


def stored(work: Work) -> list[list[object]]:
    """Work as JSON."""
    return [
        [name, place, one.instructions, one.busy_s, one.critical_s, one.hbm_bytes]
        for (name, place), one in work.items()
    ]


def restored(rows: list[list[Any]]) -> Work:
    """Work from JSON."""
    return {(name, place): Part(*rest) for name, place, *rest in rows}
