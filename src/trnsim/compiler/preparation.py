"""What is done to a graph before its instructions are issued."""

from __future__ import annotations

from collections.abc import Collection

from trnsim.compiler.attended import attended
from trnsim.compiler.casts import apply_casts
from trnsim.compiler.contractions import in_parts
from trnsim.compiler.flags import Flags
from trnsim.compiler.hoist import Hoisted, hoisted
from trnsim.compiler.merge import merged
from trnsim.graph import Graph


def prepared(graph: Graph, weights: Collection[int], flags: Flags | None = None) -> Hoisted:
    """A graph with attention recognized, cast, in parts of a size, and what is done ahead apart."""
    made = apply_casts(attended(graph), flags or Flags())
    return hoisted(in_parts(merged(made)), frozenset(weights))
