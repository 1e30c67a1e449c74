"""The origin of an operation: JAX's named scope, its primitive, and the user's line.

JAX writes a location as `"jit(step)/jvp(layers)/mlp/dot_general"(callsite("mlp"("model.py":12:4 to
:30) at ...))`: scopes of the program, without the scopes of JAX's transformations, and lines, the
innermost first. In a function that is called, names are those within it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from trnsim.device.program_line import is_program
from trnsim.errors import SourceLine
from trnsim.graph import Origin
from trnsim.jax.stablehlo.mlir import Op

_LOCATION_NAME: Final = re.compile(r'loc\("(?P<name>[^"\\]*(?:\\.[^"\\]*)*)"(?!:)')
_LOCATION_LINE: Final = re.compile(r'"(?!")(?P<file>[^"\\]*(?:\\.[^"\\]*)*)":(?P<line>\d+)')
_TRANSFORMATION: Final = re.compile(
    r"(?:jvp|transpose|vmap|pmap|shard_map|remat|custom_\w+)\((.*)\)"
)
_CALL_SCOPE: Final = re.compile(r"(?:jit|pjit|xla_call|core_call)(?:\(.*\))?:?")
_STRUCTURE: Final = (
    *("", "body", "cond", "closed_call", "checkpoint", "rematted_computation", "remat", "remat2"),
)
"""Names that JAX itself gives to parts of a program."""
_LOOP_SCOPE: Final = "while"


class Trip(NamedTuple):
    """A trip of a loop: its number, and how many there are."""

    number: int
    trips: int


class Path:
    """The scopes around an operation.

    Attributes:
        names: the names of the program's scopes, outermost first.
        trips: the trips of the loops around it in the present function, outermost first, which are
            not yet among the names.
        line: the line of the innermost call around it, for operations without a line of their own.
    """

    def __init__(
        self, names: Sequence[str] = (), trips: Sequence[Trip] = (), line: SourceLine | None = None
    ) -> None:
        self.names = tuple(names)
        self.trips = tuple(trips)
        self.line = line

    def in_trip(self, number: int, trips: int) -> Path:
        """The path within a trip of an inner loop."""
        return Path(self.names, (*self.trips, Trip(number, trips)), self.line)

    def in_call(self, op: Op) -> Path:
        """The path within a function that an operation calls."""
        location = str(op.location)
        scopes, primitive = self._scopes(location)
        names = (*scopes, *_program_names([primitive], ()))
        return Path(names, (), line_in(location) or self.line)

    def origin(self, op: Op) -> Origin:
        """The origin of an operation."""
        location = str(op.location)  # MLIR writes it anew each time
        scopes, primitive = self._scopes(location)
        operator = primitive.rstrip(":") or op.name.partition(".")[2]
        return Origin(".".join(scopes), f"jax::{operator}", line_in(location) or self.line)

    def _scopes(self, location: str) -> tuple[tuple[str, ...], str]:
        """The program's scopes around an operation, and the name of its primitive."""
        match = _LOCATION_NAME.match(location)
        *scopes, primitive = _split_path(match["name"]) if match else [""]
        return (*self.names, *_program_names(scopes, self.trips)), primitive


def line_in(location: str) -> SourceLine | None:
    """The innermost line of the user's program in a location, as MLIR writes it."""
    for match in _LOCATION_LINE.finditer(location):
        if is_program(match["file"]):
            return SourceLine(match["file"], int(match["line"]))
    return None


def _program_names(parts: Sequence[str], trips: Sequence[Trip]) -> list[str]:
    """The user's own names among scopes; a loop that is unrolled gives the number of its trip.

    The gradient of a loop runs from the last trip to the first: each has the forward trip's number.
    """
    remaining_trips, names, is_gradient = list(trips), list[str](), False
    for part in parts:
        name = _without_transformations(part)
        is_gradient |= "transpose(" in part
        if name == _LOOP_SCOPE and remaining_trips:
            trip = remaining_trips.pop(0)
            names.append(str(trip.trips - 1 - trip.number if is_gradient else trip.number))
        elif name != _LOOP_SCOPE and _is_own(name):
            names.append(name)
    return names


def _is_own(name: str) -> bool:
    """True if a scope is the user's: no part of JAX's, no call, no formula of an einsum."""
    return name not in _STRUCTURE and not _CALL_SCOPE.fullmatch(name) and "->" not in name


def _without_transformations(part: str) -> str:
    """A scope without the transformations around it."""
    match = _TRANSFORMATION.fullmatch(part)
    return _without_transformations(match[1]) if match else part


@lru_cache(maxsize=1024)
def _split_path(name: str) -> tuple[str, ...]:
    """The parts of a name between slashes; a slash within parentheses parts nothing."""
    parts, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(parts)
