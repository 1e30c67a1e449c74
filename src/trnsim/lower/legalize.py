"""The pass that replaces operations without a kernel by others that have one.

It runs before operations are grouped. The replacements, called legal forms, are in
`trnsim.lower.legal`, a file for each family of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trnsim.graph import Graph, Node
from trnsim.graph.rewriting import Pattern, rewrite_graph
from trnsim.lower.legal import (
    attention,
    comparison,
    indexing,
    products,
    random_bits,
    reductions,
    sorting,
    windows,
)
from trnsim.lower.legal.emptiness import EMPTINESS
from trnsim.lower.rules import LEGAL

_RULES: Final = (
    attention,
    comparison,
    indexing,
    products,
    random_bits,
    reductions,
    sorting,
    windows,
)
"""Importing them fills the table of legal forms."""


def legal_patterns() -> tuple[Pattern, ...]:
    """All patterns, in the order in which they are tried."""
    return (*EMPTINESS, *LEGAL.values())


def legalize(graph: Graph, is_kept: Callable[[Node], bool] = lambda _: False) -> Graph:
    """An equivalent graph of operations that have kernels.

    It is the graph itself if there is nothing to replace; inputs are the same. Graphs that are
    attributes, such as branches, stay as they are: they are lowered when they run. Nodes for which
    `is_kept` holds stay too, unless they have no elements: the caller has instructions for them.
    """
    return rewrite_graph(graph, legal_patterns(), is_kept)
