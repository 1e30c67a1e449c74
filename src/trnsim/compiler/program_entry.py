"""Compiled programs on disk, each found by its graph, options and flags.

The whole result of `compile` is stored, so that a graph is neither prepared, nor split over cores,
nor searched for equal layers again. A file names no module and no source line of the user's
program, but gives their numbers in the graph.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import astuple, fields
from typing import Any, Final

from trnsim import disk_cache
from trnsim.compiler.compiled_program import CompiledProgram
from trnsim.compiler.flags import Flags
from trnsim.compiler.program_times import is_separate, links_of_graph
from trnsim.compiler.schedules import CompileOptions
from trnsim.errors import SourceLine
from trnsim.graph import Graph
from trnsim.graph.rewriting import omitted_patterns
from trnsim.lower import Bound, GraphExchange
from trnsim.profile.analysis.model_estimate import Share
from trnsim.profile.measures.parts import PartCost

_STAR: Final = "*"
_NONE: Final = -1
"""The number of the module, or of the line, of work that has none."""


class ProgramEntry:
    """The stored program of a graph.

    The program of a graph with control flow or a user's kernels is not stored, as the code of a
    kernel may change.
    """

    def __init__(
        self, graph: Graph, weights: frozenset[int], options: CompileOptions, flags: Flags
    ) -> None:
        origins = [node.origin for node in graph.nodes]
        modules = tuple(origin.module if origin is not None else "" for origin in origins)
        lines = [origin.line if origin is not None else None for origin in origins]
        self._flags = flags
        self._modules = list(dict.fromkeys(modules))
        self._lines: dict[SourceLine | None, int] = {}
        numbers = tuple(self._lines.setdefault(line, len(self._lines)) for line in lines)
        self._key: Hashable | None = None
        if not is_separate(graph):
            self._key = (
                "compiled",
                graph.key(),
                modules,
                numbers,
                tuple(sorted(weights)),
                options.target,
                options.cores,
                tuple(getattr(flags, item.name) for item in fields(flags) if item.compare),
                options.is_linked,
                links_of_graph(graph, options),
                *sorted(omitted_patterns()),
            )

    def read(self) -> CompiledProgram | None:
        """The program; None if the same version of the sources stored none."""
        return disk_cache.read(self._key, self._decode) if self._key is not None else None

    def _decode(self, values: dict[str, Any]) -> CompiledProgram:
        """The program that `write` encoded; a KeyError if a field is missing."""
        exchanges = [
            GraphExchange(kind, nbytes, tuple(map(tuple, groups)))
            for kind, nbytes, groups in values["exchanges"]
        ]
        decoded: dict[str, Any] = {
            "shares": tuple(self._share(*row) for row in values["shares"]),
            "bound": Bound(*values["bound"]),
            "notes": tuple(values["notes"]),
            "exchanges": tuple(exchanges),
            "flags": self._flags,
        }
        return CompiledProgram(
            **{item.name: (values | decoded)[item.name] for item in fields(CompiledProgram)}
        )

    def write(self, program: CompiledProgram) -> None:
        """Store the program, unless it has a module or a line that no operation came from."""
        rows = [self._row(share) for share in program.shares]
        if self._key is None or None in rows:
            return
        names = [item.name for item in fields(program) if item.name != "flags"]
        encoded: dict[str, Any] = {
            "shares": rows,
            "bound": astuple(program.bound),
            "exchanges": [astuple(exchange) for exchange in program.exchanges],
        }
        disk_cache.write(self._key, {name: getattr(program, name) for name in names} | encoded)

    def _share(
        self, module: int, stars: list[int], line: int, operation: str, times: int, *part: Any
    ) -> Share:
        """The share that `_row` encoded."""
        steps = self._modules[module].split(".") if module != _NONE else [""]
        for place in stars:
            steps[place] = _STAR
        source_line = list(self._lines)[line] if line != _NONE else None
        return Share(".".join(steps), operation, times, PartCost(*part), source_line)

    def _row(self, share: Share) -> list[Any] | None:
        """A share as a row of JSON; None if no operation came from its module or its line."""
        module = self._module_number(share.module)
        line = self._lines.get(share.line) if share.line is not None else _NONE
        if module is None or line is None:
            return None
        part = share.part
        amounts = part.busy_s, part.critical_s, part.hbm_bytes
        return [*module, line, share.operation, share.times, part.instructions, *amounts]

    def _module_number(self, path: str) -> tuple[int, list[int]] | None:
        """The number of a module, and the places of the stars in its path."""
        if not path:
            return _NONE, []
        steps = path.split(".")
        for number, module in enumerate(self._modules):
            own_steps = module.split(".")
            if len(own_steps) == len(steps):
                pairs = enumerate(zip(steps, own_steps, strict=True))
                differing = [place for place, (step, module_step) in pairs if step != module_step]
                if all(steps[place] == _STAR for place in differing):
                    return number, differing
        return None
