"""Clean-up of an imported graph: equal moves are merged, transposes of products removed.

JAX transposes the gradient of a weight after its product, and repeats views and moves for each
reader. Repeated products, functions and sums are not merged, so that a recomputation that saves
memory (`jax.checkpoint`) is kept.
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph import Graph, Kind, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Concatenate, Pad, Reverse, Transpose
from trnsim.graph.ops.leaves import Rng
from trnsim.graph.patterns import TensorForm, form_of
from trnsim.graph.rewriting import ANY, Match, Pattern, rewrite_graph

_MERGED_KINDS: Final = (Kind.ALIAS, Kind.VIEW, Kind.LEAF)
"""Kinds of operations that are merged if equal: they move nothing, or have no operands."""
_MERGED_OPERATIONS: Final = (Concatenate, Pad, Reverse, Transpose)
"""Further operations that are merged if equal: they move elements."""


def simplified_graph(graph: Graph) -> Graph:
    """A simpler graph with the same inputs and the same outputs."""
    graph_without_moves = rewrite_graph(rewrite_graph(graph, [MOVED_AGAIN]), [TRANSPOSED_PRODUCT])
    graph_without_moves.prune()
    return graph_without_moves


def _is_moved_again(match: Match) -> bool:
    """True if an operation repeats an earlier move or view of the same operand."""
    kind, operation = match.node.kind, match.node.operation
    is_move = (kind in _MERGED_KINDS and not isinstance(operation, Rng)) or isinstance(
        operation, _MERGED_OPERATIONS
    )
    return is_move and match.twin() is not None


def _transposes_matrices(match: Match) -> bool:
    rank = len(match.node.result.shape)
    return match.node.operation == Transpose((*range(rank - 2), rank - 1, rank - 2))


def _exchanged_product(match: Match) -> Value:
    """The product with its sides exchanged, which keeps the origin of the product."""
    product = match.producers.nodes[match.captured["product"].number]
    operation: Any = product.operation
    match.graph.current_origin = product.origin
    exchanged_dot = DotGeneral(operation.contracting[::-1])
    return match.graph.apply(
        exchanged_dot, match["rhs"], match["lhs"], dtype=match.node.result.dtype
    )


MOVED_AGAIN = Pattern(
    "moved again",
    "a move or a view of one tensor that is written again is the first one",
    before=ANY,
    when=_is_moved_again,
    after=lambda match: match.twin() or (),
)
TRANSPOSED_PRODUCT = Pattern(
    "transposed product",
    "the transpose of a product is the product of its sides exchanged",
    before=form_of(
        Transpose,
        form_of(DotGeneral, TensorForm("lhs"), TensorForm("rhs"), name="product", readers=1),
    ),
    when=_transposes_matrices,
    after=_exchanged_product,
)
