"""Common subexpression elimination: of equal operations only the first is computed."""

from __future__ import annotations

from typing import Final

from trnsim.graph import Kind
from trnsim.graph.ops.leaves import Rng
from trnsim.graph.rewriting import ANY, Match, Pattern

_UNMERGED_KINDS: Final = (Kind.COLLECTIVE, Kind.CONTROL, Kind.CALL)
"""Kinds of operations that run as often as they occur in a graph."""


def _has_equal_before(match: Match) -> bool:
    """True if an earlier operation equals this one, and running it once is enough."""
    node = match.node
    runs_each_time = node.kind in _UNMERGED_KINDS or isinstance(node.operation, Rng)
    return not runs_each_time and match.twin() is not None


COMMON_SUBEXPRESSION = Pattern(
    "twice",
    "an operation that occurs twice is computed once",
    before=ANY,
    when=_has_equal_before,
    after=lambda match: match.twin() or (),
)
