"""What is done to a graph before its instructions are issued."""

from __future__ import annotations

from collections.abc import Collection

from trnsim.compiler.flags import Flags
from trnsim.compiler.patterns.attention import attended
from trnsim.compiler.patterns.casts import apply_casts
from trnsim.compiler.patterns.contractions import in_parts
from trnsim.compiler.patterns.hoist import Hoisted, hoisted
from trnsim.compiler.patterns.merge import merged
from trnsim.graph import Graph


def prepared(graph: Graph, weights: Collection[int], flags: Flags | None = None) -> Hoisted:
    """A graph with attention recognized, cast, in parts of a size, and what is done ahead apart."""
    made = apply_casts(attended(graph), flags or Flags())
    return hoisted(in_parts(merged(made)), frozenset(weights))
