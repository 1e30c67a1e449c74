"""Rotary embeddings: halves of the last dimension exchanged, one with its sign inverted.

The nodes stay. If the halves lie along the partitions of a block, the nodes are emitted as one
product (`trnsim.lower.emit.computing.rotation`).
"""

from __future__ import annotations

from typing import Any

from trnsim.graph.ops.arithmetic import Negate
from trnsim.graph.ops.layout import Concatenate, Slice
from trnsim.graph.patterns import TensorForm, form_of
from trnsim.graph.rewriting import Match, Pattern


def _are_halves(match: Match) -> bool:
    """True if the slices are the halves of the last dimension of their operand."""
    concatenation: Any = match.node.operation
    shape = match.node.result.shape
    rank, half = len(shape), shape[-1] // 2
    slices = (match.operation("first"), 0), (match.operation("second"), half)
    return (concatenation.dim, match["x"].shape) == (rank - 1, shape) and all(
        slice_.shape[-1] == half
        and tuple(slice_.starts) == (*(0,) * (rank - 1), start)
        and {*slice_.strides} == {1}
        for slice_, start in slices
    )


ROTATION = Pattern(
    "rotation",
    "an exchange of halves that lie along partitions is a product",
    before=form_of(
        Concatenate,
        form_of(Negate, form_of(Slice, TensorForm("x"), name="second")),
        form_of(Slice, TensorForm("x"), name="first"),
    ),
    when=_are_halves,
)
