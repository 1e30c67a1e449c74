"""Which patterns of the table a graph has, and how many instructions its program has without each.

A pattern without which there is a program is left out, and the graph compiled again with all the
others: the figures are those of that program. They are not what the pattern saves by itself, as
another may be found in its place; and fewer instructions need not be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from trnsim.compiler.compilation import CompiledProgram, compile, pieces  # noqa: A004  likewise
from trnsim.compiler.patterns.preparation import prepared
from trnsim.compiler.patterns.table import PATTERNS
from trnsim.compiler.pricing import APART
from trnsim.compiler.program import legal
from trnsim.formatting import text_table
from trnsim.graph import Graph
from trnsim.graph.patterns import Makers
from trnsim.graph.rewriting import Pattern, observed, recognized
from trnsim.profile.units import time_text

_NEEDED: Final = "needed"
_STAY: Final = tuple(one for one in PATTERNS if one.after is None)
"""Those whose operations are issued together: they are counted in the graph that is issued."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A pattern that a graph has.

    Attributes:
        pattern: the pattern.
        times: how often the graph has it; of equal layers each counts.
        without: the program without it; None where the chip has no instructions for what it
            replaces.
    """

    pattern: Pattern
    times: int
    without: CompiledProgram | None

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, with SI units in the names."""
        other = self.without
        return {
            "name": self.pattern.name,
            "meaning": self.pattern.meaning,
            "source": self.pattern.source,
            "times": self.times,
            "is_needed": self.pattern.is_needed,
            "instructions_without": None if other is None else other.instructions,
            "device_time_without_s": None if other is None else other.device_time_s,
        }


def explained(
    graph: Graph,
    made: CompiledProgram,
    weights: Collection[int],
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Taken, ...]:
    """The patterns that a graph has, in the order in which they are looked for."""

    def without(pattern: Pattern) -> CompiledProgram | None:
        if pattern.is_needed:
            return None
        tell(f"without {pattern.name}")
        options: dict[str, Any] = {"lnc": made.lnc, "flags": made.flags, "tell": tell}
        with observed([pattern.name]):
            return compile(graph, made.target, weights=frozenset(weights), **options)

    times = _times(graph, made, weights)
    return tuple(
        Taken(one, times[one.name], without(one)) for one in PATTERNS if times.get(one.name)
    )


def _times(graph: Graph, made: CompiledProgram, weights: Collection[int]) -> dict[str, int]:
    """How often a graph has each pattern."""
    with observed() as times:
        for piece, own in pieces(prepared(graph, weights, made.flags)):
            if any(node.kind in APART for node in piece.nodes):
                continue
            whole, _ = legal(piece, own)
            makers = Makers.in_graph(whole)
            for one in _STAY:
                found = (recognized(one, node, makers) for node in whole.nodes)
                times[one.name] += sum(match is not None for match in found)
    return dict(times)


def table(patterns: Collection[Taken], made: CompiledProgram) -> str:
    """Patterns beside the program's instructions and time without each, and with all."""
    if not patterns:
        return "no pattern of the compiler's table is in this graph"
    rows = [
        [
            one.pattern.name,
            f"{one.times:,}",
            _NEEDED if one.without is None else _figures(one.without),
            _figures(made),
            one.pattern.meaning,
        ]
        for one in patterns
    ]
    lines = [text_table(["pattern", "times", "without", "with", "what it does"], rows)]
    lines.append("without, with: the program's instructions, and its time by itself")
    if any(one.without is None for one in patterns):
        lines.append("needed: the chip has no instructions for what the pattern replaces")
    for one in patterns:
        said = one.without.said if one.without is not None else ()
        lines += [f"without {one.pattern.name}: {why}" for why in said if why not in made.said]
    return "\n".join(lines)


def _figures(made: CompiledProgram) -> str:
    return f"{made.instructions:,}, {time_text(made.device_time_s)}"


__all__ = ["Taken", "explained", "table"]
