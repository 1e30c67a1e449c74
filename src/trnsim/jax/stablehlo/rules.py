"""The table of what StableHLO's operations are in our graph.

    @rule("stablehlo.abs", "stablehlo.negate")
    def unary(scope, op):
        '''The operation of that name.'''

A rule gives what the operation's results are. One that says `composed` makes them of other
operations of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """What an operation is in the graph.

    Attributes:
        build: from the scope and MLIR's operation to its result, or a tuple of several.
        composed: of what it is made; "" where the graph has the operation itself.
        is_pure: whether it may be computed at once where all that it reads is known.
        limits: the forms of it that are refused; "" if none.
        is_by_parts: whether each element of its result comes of the elements at the same place, so
            that a tensor in parts is computed part by part.
    """

    build: Build
    composed: str = ""
    is_pure: bool = True
    limits: str = ""
    is_by_parts: bool = False


RULES: Final[dict[str, Rule]] = {}
"""By the operation's name, with its dialect."""


def rule(
    *names: str,
    composed: str = "",
    is_pure: bool = True,
    limits: str = "",
    is_by_parts: bool = False,
) -> Callable[[Build], Build]:
    """Enter a function in the table, for operations of those names."""

    def enter(build: Build) -> Build:
        for name in names:
            RULES[name] = Rule(build, composed, is_pure, limits, is_by_parts)
        return build

    return enter
