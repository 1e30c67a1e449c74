"""The work of each operation in a graph's program: its time, engines and HBM traffic.

An operation is identified by its place in the graph, not by its module's name, so that files on
disk do not disclose a model's modules. The places in the first of equal layers stand for all.
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
from trnsim.isa import Engine
from trnsim.lower.program import TracedProgram
from trnsim.profile.measures.parts import PartCost, part_costs
from trnsim.timing.occupancy import Integers

Work = dict[tuple[str, int], PartCost]
"""Work by name of the operation and index of its node in the graph; index -1 without a node."""
REASONS: Final = ("weights", "cache", "inputs", "outputs", "spills", "intermediate")
"""Reasons of HBM traffic.

cache: keys and values that are inputs. spills: results for which SBUF had no room. intermediate:
results that a kernel reads or writes in HBM, or that are copied there to another layout.
"""
_ONE_AT_A_TIME: Final = tuple(
    engine.name for engine in (Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd)
)
"""Engines that execute one instruction at a time."""
_MOVING_OPERATIONS: Final = (BroadcastInDim, Concatenate, Convert, Reshape, Transpose)
"""Operations that move elements and compute nothing."""


def traced_work(traced: TracedProgram, graph: Graph, weights: frozenset[int]) -> Work:
    """The work of a graph's operations, measured on its traced program."""
    places = {id(node): place for place, node in enumerate(graph.nodes)}
    keys = [(span.name, places.get(id(span.node), -1)) for span in traced.names]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    part_numbers = np.array([numbers[key] for key in keys], np.int64)
    part_of = part_numbers[traced.stretches()]
    reason_of = _reasons(traced, graph, weights)
    costs = part_costs(traced.run.timeline, part_of, len(numbers), REASONS, reason_of)
    return {key: part for key, part in zip(numbers, costs, strict=True) if part.instructions}


def _reasons(traced: TracedProgram, graph: Graph, weights: frozenset[int]) -> Integers:
    """Indices in `REASONS` of each instruction's read and write of HBM: [2, instructions]."""
    program = traced.run.timeline.program
    cache = caches(graph, weights)
    input_reasons = {
        serial: "weights" if number in weights else "cache" if number in cache else "inputs"
        for serial, number in traced.inputs.items()
    }
    result_reasons = dict.fromkeys(traced.spilled, "spills") | dict.fromkeys(
        traced.outputs, "outputs"
    )
    result_reasons |= {serial: "spills" for serial, use in program.uses.items() if use.is_spill}
    reasons = {s: REASONS.index(reason) for s, reason in (result_reasons | input_reasons).items()}
    intermediate = REASONS.index("intermediate")
    read_reasons = [reasons.get(serial, intermediate) for serial in program.tensor_of]
    # A transfer from HBM to HBM counts by what it reads; inputs are never written.
    inputs = {REASONS.index(name) for name in ("weights", "cache", "inputs")}
    write_reasons = [intermediate if reason in inputs else reason for reason in read_reasons]
    return np.array([read_reasons, write_reasons], np.int64)


def caches(graph: Graph, weights: frozenset[int]) -> frozenset[int]:
    """Numbers of the inputs, weights excepted, that attention reads unchanged as keys or values."""
    producers = {value.number: node for node in graph.nodes for value in node.results}
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
        node = producers.get(value.number)
        if node is None:
            inputs.add(value.number)
        elif isinstance(node.operation, _MOVING_OPERATIONS):
            waiting += node.values
    return frozenset(inputs - weights)


def sum_work(work: Work, other: Work) -> Work:
    """The work of two programs together."""
    keys = dict.fromkeys([*work, *other])
    return {key: work.get(key, PartCost()).plus(other.get(key, PartCost())) for key in keys}


def scale_work(
    work: Work,
    places: Sequence[int],
    stacks: Sequence[tuple[Stack, int]],
    time_s: float,
    instructions: float,
) -> Work:
    """The work of a graph with all of its layers, from that of a graph with a few of each stack.

    The work of compiled layers is scaled so that all times and instructions add up to `time_s` and
    `instructions`. It is attributed to the operations of the first layer.

    Args:
        work: the work of the shorter graph.
        places: places of its operations in the whole graph.
        stacks: each stack with the number of its layers that were compiled.
        time_s: the time of the whole program.
        instructions: the instructions of the whole program.
    """
    # Each row: name, place, how many layers it stands for (times), work.
    rows = [
        (name, *_place_in_first_layer(places[place] if place >= 0 else place, stacks), part)
        for (name, place), part in work.items()
    ]
    layer_parts = [(times, part) for *_, times, part in rows if times != 1]
    other_parts = [part for *_, times, part in rows if times == 1]
    time_scale = _ratio(
        time_s - sum(part.time_s for part in other_parts),
        sum(n * part.time_s for n, part in layer_parts),
    )
    instruction_scale = _ratio(
        instructions - sum(part.instructions for part in other_parts),
        sum(n * part.instructions for n, part in layer_parts),
    )
    scaled_work: Work = {}
    for name, place, times, part in rows:
        scaled_part = (
            part
            if times == 1
            else part.repeated(times, times * time_scale, times * instruction_scale)
        )
        scaled_work[name, place] = scaled_work.get((name, place), PartCost()).plus(scaled_part)
    return scaled_work


def busiest_engine_s(
    work: Work, places: Sequence[int], stacks: Sequence[tuple[Stack, int]]
) -> float:
    """The time in which the busiest engine of a graph with all of its layers works.

    Transfers are left out, as several take place at once. Arguments are those of `scale_work`.
    """
    engine_s = dict.fromkeys(_ONE_AT_A_TIME, 0.0)
    for (_, place), part in work.items():
        _, times = _place_in_first_layer(places[place] if place >= 0 else place, stacks)
        for name in engine_s:
            engine_s[name] += times * part.busy_s.get(name, 0.0)
    return max(engine_s.values())


def _place_in_first_layer(place: int, stacks: Sequence[tuple[Stack, int]]) -> tuple[int, float]:
    """The operation's place in the first layer, and how many layers a compiled one stands for."""
    for stack, count in stacks:
        for run in stack.runs:
            if run.layer(place) is not None:
                remaining_layers = run.count - (stack.count - count)
                return run.start + (place - run.start) % run.length, run.count / remaining_layers
    return place, 1.0


def _ratio(total: float, part: float) -> float:
    return total / part if part > 0 and total > 0 else 1.0


def to_rows(work: Work) -> list[list[object]]:
    """Work as rows of JSON."""
    return [
        [name, place, part.instructions, part.busy_s, part.critical_s, part.hbm_bytes]
        for (name, place), part in work.items()
    ]


def from_rows(rows: list[list[Any]]) -> Work:
    """Work from rows of JSON."""
    return {(name, place): PartCost(*rest) for name, place, *rest in rows}
