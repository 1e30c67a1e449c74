"""The effect of each ordering edge that a kernel states: the device time without and with it.

A statement of the kernel (`depends_on`, or a pair of `with_schedule`) is tried as a whole: all its
edges are left out on all cores, and the program is ordered, fitted into memory and timed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.errors import SourceLine
from trnsim.program.edges import Edge
from trnsim.timing import Timeline

MOST_TRIED: Final = 16
"""Maximum number of statements that are tried."""
MOST_INSTRUCTIONS: Final = 200_000
"""Maximum number of instructions in all trials together: long programs try fewer statements."""


@dataclass(frozen=True, slots=True)
class EdgeEffect:
    """The effect of the edges of a statement.

    Attributes:
        form: "depends_on" or "with_schedule".
        kind: "runtime" or "schedule".
        line: line of the statement; None if unknown.
        text: consumer and producer in words.
        pairs: (consumer, producer) of its edges, by index in the program.
        with_s: the device time.
        without_s: the device time without these edges, or None if that was not tried.
    """

    form: str
    kind: str
    line: SourceLine | None
    text: str
    pairs: tuple[tuple[int, int], ...]
    with_s: float
    without_s: float | None


def edge_effects(timeline: Timeline) -> list[EdgeEffect]:
    """The effect of the edges of each statement, in the kernel's order.

    At most `MOST_TRIED` statements are tried, and `MOST_INSTRUCTIONS` in all.
    """
    pairs: dict[Edge, list[tuple[int, int]]] = {}
    for edge in timeline.program.ordering.edges:
        pairs.setdefault(_statement(edge), []).append((edge.consumer, edge.producer))
    tries = max(1, min(MOST_TRIED, MOST_INSTRUCTIONS // max(len(timeline), 1)))
    return [
        EdgeEffect(
            statement.form,
            "runtime" if statement.waits else "schedule",
            statement.line,
            statement.text,
            tuple(own_pairs),
            timeline.device_time_s,
            _without_s(timeline, statement) if number < tries else None,
        )
        for number, (statement, own_pairs) in enumerate(pairs.items())
    ]


def _without_s(timeline: Timeline, statement: Edge) -> float:
    return timeline.device_time_without_s(lambda edge: _statement(edge) == statement)


def _statement(edge: Edge) -> Edge:
    """An edge without its two instructions: equal for all edges of a statement."""
    return edge._replace(consumer=-1, producer=-1)
