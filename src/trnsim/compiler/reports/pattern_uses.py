"""The patterns that match in a graph, and the graph's program without each of them.

For each pattern the graph is compiled again without it. The difference is not the saving of this
pattern alone, as another may match in its place; and fewer instructions need not be faster.
Patterns without which there is no program are not left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from trnsim.compiler.compilation import compile, split_programs  # noqa: A004  the compilers' name
from trnsim.compiler.compiled_program import CompiledProgram
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.compiler.patterns.table import PATTERNS
from trnsim.compiler.program import legalize_graph
from trnsim.compiler.program_times import is_separate
from trnsim.document.answer import Block, Note, Table, columns
from trnsim.graph import Graph
from trnsim.graph.patterns import Producers
from trnsim.graph.rewriting import Pattern, match_node, observe_patterns
from trnsim.profile.units import time_text

_NEEDED_CELL: Final = "needed"
"""The cell `without` of a pattern that cannot be left out."""
_COLUMNS: Final = columns("pattern | times | without | with | what it does", numbers_to=4)
_IN_PLACE_PATTERNS: Final = tuple(pattern for pattern in PATTERNS if pattern.after is None)
"""Patterns that keep their operations, issued together: counted in the graph that is issued."""


@dataclass(frozen=True, slots=True)
class PatternUse:
    """The use of a pattern in a graph.

    Attributes:
        times: number of matches in the graph, of each of equal layers.
        without: the program that is compiled without the pattern; None if the chip has no
            instructions for the operations that it replaces.
    """

    pattern: Pattern
    times: int
    without: CompiledProgram | None

    def as_dict(self) -> dict[str, object]:
        """The use as plain values, with SI units in the names."""
        program = self.without
        return {
            "name": self.pattern.name,
            "meaning": self.pattern.meaning,
            "source": self.pattern.source,
            "times": self.times,
            "is_needed": self.pattern.is_needed,
            "instructions_without": None if program is None else program.instructions,
            "device_time_without_s": None if program is None else program.device_time_s,
        }


def pattern_uses(
    graph: Graph,
    program: CompiledProgram,
    weights: Collection[int],
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[PatternUse, ...]:
    """Uses of the patterns that a graph has, in the order of the table."""

    def without(pattern: Pattern) -> CompiledProgram | None:
        if pattern.is_needed:
            return None
        tell(f"without {pattern.name}")
        lnc, flags, target = program.lnc, program.flags, program.target
        with observe_patterns([pattern.name]):
            return compile(graph, target, lnc=lnc, flags=flags, weights=weights, tell=tell)

    times = _match_counts(graph, program, weights)
    return tuple(
        PatternUse(pattern, times[pattern.name], without(pattern))
        for pattern in PATTERNS
        if times.get(pattern.name)
    )


def _match_counts(
    graph: Graph, program: CompiledProgram, weights: Collection[int]
) -> dict[str, int]:
    """The number of matches of each pattern in a graph, by name."""
    with observe_patterns() as times:
        for piece, piece_weights in split_programs(prepare_graph(graph, weights, program.flags)):
            if is_separate(piece):
                continue
            whole, _ = legalize_graph(piece, piece_weights)
            producers = Producers.of_graph(whole)
            for pattern in _IN_PLACE_PATTERNS:
                matches = (match_node(pattern, node, producers) for node in whole.nodes)
                times[pattern.name] += sum(match is not None for match in matches)
    return dict(times)


def pattern_blocks(patterns: Collection[PatternUse], program: CompiledProgram) -> list[Block]:
    """A table of patterns, each with the program's instructions and time without it and with it."""
    if not patterns:
        return [Note("no pattern of the compiler's table is in this graph")]
    rows = [
        [
            use.pattern.name,
            f"{use.times:,}",
            _NEEDED_CELL if use.without is None else _figures(use.without),
            _figures(program),
            use.pattern.meaning,
        ]
        for use in patterns
    ]
    notes = ["without, with: the program's instructions, and its time by itself"]
    if any(use.without is None for use in patterns):
        notes.append("needed: the chip has no instructions for what the pattern replaces")
    for use in patterns:
        reasons = use.without.notes if use.without is not None else ()
        new = (reason for reason in reasons if reason not in program.notes)
        notes += [f"without {use.pattern.name}: {reason}" for reason in new]
    return [Table(_COLUMNS, rows), *map(Note, notes)]


def _figures(program: CompiledProgram) -> str:
    return f"{program.instructions:,}, {time_text(program.device_time_s)}"
