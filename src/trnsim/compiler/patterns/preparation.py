"""The preparation of a graph before its instructions are issued."""

from __future__ import annotations

from collections.abc import Collection

from trnsim.compiler.flags import Flags
from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.compiler.patterns.hoist import HoistedGraph, hoist_weights
from trnsim.compiler.patterns.merge import COMMON_SUBEXPRESSION
from trnsim.graph import Graph
from trnsim.graph.rewriting import rewrite_graph
from trnsim.lower.patterns.contractions import SPLIT_CONTRACTION
from trnsim.lower.patterns.convolutions import SINGLE_WINDOW, VOLUME
from trnsim.lower.patterns.selection import GATHERED_FIRST, SUM_OF_ONE


def prepare_graph(
    graph: Graph, weights: Collection[int], flags: Flags | None = None
) -> HoistedGraph:
    """A graph with patterns of whole operations replaced, casts, and weights hoisted."""
    whole = [ATTENTION, SINGLE_WINDOW, VOLUME, GATHERED_FIRST, SUM_OF_ONE]
    rewritten_graph = rewrite_graph(graph, whole)
    if rewritten_graph is not graph:
        rewritten_graph.prune()
    rewritten_graph = rewrite_graph(
        apply_casts(rewritten_graph, flags or Flags()), [COMMON_SUBEXPRESSION, SPLIT_CONTRACTION]
    )
    return hoist_weights(rewritten_graph, frozenset(weights))
