"""Computations on weights alone, moved out of the step: casts, layouts, parts of weights.

A result that is computed from weights alone is equal at every step, so AWS's compiler computes it
ahead of time. A result larger than its weights would cost HBM, so it stays in the step, unless it
is only an intermediate of something smaller, as in the norm of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.graph import Graph, Kind, Value
from trnsim.graph.rewriting import ANY, Match, Pattern, rewrite_graph

_HOISTED_KINDS: Final = (Kind.ELEMENTWISE, Kind.ALIAS, Kind.VIEW, Kind.KERNEL, Kind.REDUCTION)
"""Kinds of operations that are computed ahead of time if they read weights alone."""


@dataclass(frozen=True, slots=True)
class HoistedGraph:
    """A graph in two parts.

    Attributes:
        ahead: computations on weights, done once; its outputs are weights of the step.
        step: the other operations.
        weights: numbers of the step's weights.
    """

    ahead: Graph
    step: Graph
    weights: frozenset[int]


def _bytes_of_weights(graph: Graph, weights: frozenset[int]) -> dict[int, int]:
    """For each value that is computed from weights alone, by number, the least bytes to store it.

    These are the bytes of the value itself, or of the values from which it is computed.
    """
    nbytes = {v.number: v.type.nbytes for v in graph.inputs if v.number in weights}
    for node in graph.nodes:
        values = node.values
        if (
            values
            and node.kind in _HOISTED_KINDS
            and all(value.number in nbytes for value in values)
        ):
            weight_bytes = sum(nbytes[value.number] for value in values)
            nbytes |= {v.number: min(v.type.nbytes, weight_bytes) for v in node.results}
    return nbytes


def _fits_weights(match: Match) -> bool:
    """True if no result of an operation is larger than the weights that it comes from."""
    return all(v.type.nbytes <= match.facts.get(v.number, -1) for v in match.node.results)


def _results_as_inputs(match: Match) -> tuple[Value, ...]:
    """The results as inputs of the step."""
    match.graph.inputs += match.node.results
    return match.node.results


WEIGHT_HOISTING = Pattern(
    "ahead",
    "what depends on weights alone, and is no larger than they, is computed before the step",
    before=ANY,
    when=_fits_weights,
    after=_results_as_inputs,
    source="torch_neuronx.trace, inline_weights_to_neff: weights are constants of the program",
)


def hoist_weights(graph: Graph, weights: frozenset[int]) -> HoistedGraph:
    """A graph divided into the computations on its weights and the step."""
    nbytes = _bytes_of_weights(graph, weights)
    step = rewrite_graph(graph, [WEIGHT_HOISTING], nbytes)
    step = Graph(step.inputs, list(step.nodes), step.outputs)
    step.prune()
    read = {value.number for node in step.nodes for value in node.values}
    read |= {value.number for value in step.outputs}
    inputs = [v for v in graph.inputs if v.number in read or v.number not in weights]
    hoisted_inputs = [v for v in step.inputs[len(graph.inputs) :] if v.number in read]
    step.inputs = [*inputs, *hoisted_inputs]
    ahead = Graph(
        [v for v in graph.inputs if v.number in weights], list(graph.nodes), hoisted_inputs
    )
    ahead.prune()
    return HoistedGraph(ahead, step, frozenset(v.number for v in step.inputs if v.number in nbytes))
