"""What is done to a graph before its instructions are issued."""

from __future__ import annotations

from collections.abc import Collection

from trnsim.compiler.flags import Flags
from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.compiler.patterns.hoist import Hoisted, hoisted
from trnsim.compiler.patterns.merge import TWICE
from trnsim.graph import Graph
from trnsim.graph.rewriting import rewritten
from trnsim.lower.patterns.contractions import IN_PARTS


def prepared(graph: Graph, weights: Collection[int], flags: Flags | None = None) -> Hoisted:
    """A graph with attention recognized, cast, in parts of a size, and what is done ahead apart."""
    made = rewritten(graph, [ATTENTION])
    if made is not graph:
        made.prune()
    made = rewritten(apply_casts(made, flags or Flags()), [TWICE, IN_PARTS])
    return hoisted(made, frozenset(weights))
