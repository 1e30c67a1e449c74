"""The operations of the graph, one file for each family; importing them completes the registry."""

from trnsim.graph.ops import (
    arithmetic,
    bits,
    calls,
    collectives,
    comparison,
    contraction,
    control_flow,
    functions,
    layout,
    leaves,
    lookup,
    reductions,
    rounding,
)

__all__ = [
    "arithmetic",
    "bits",
    "calls",
    "collectives",
    "comparison",
    "contraction",
    "control_flow",
    "functions",
    "layout",
    "leaves",
    "lookup",
    "reductions",
    "rounding",
]
