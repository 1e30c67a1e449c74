"""The table of import rules: how each operation of StableHLO becomes operations of the graph.

    @rule("stablehlo.abs", "stablehlo.negate")
    def unary(scope, op):
        '''The operation of that name.'''

A rule returns the operation's results as entries of a scope. A rule with `composed` builds them
from other operations of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which an operation of StableHLO becomes operations of the graph.

    Attributes:
        build: the function of a scope and MLIR's operation that returns its result or results.
        composed: the operations that it is built from; "" where the graph has the operation itself.
        is_folded: True if the importer evaluates it where all of its operands are constants; rules
            of shapes fold constants themselves, as views.
        limits: the forms that are imported, if others are refused; "" for all.
        is_by_parts: True if each element of its result depends only on the operands' elements at
            the same index, so that a tensor in parts (`Stack`) is computed part by part.
    """

    build: Build
    composed: str = ""
    is_folded: bool = True
    limits: str = ""
    is_by_parts: bool = False


RULES: Final[dict[str, Rule]] = {}
"""Rules by the operation's name, with its dialect."""


def rule(
    *names: str,
    composed: str = "",
    is_folded: bool = True,
    limits: str = "",
    is_by_parts: bool = False,
) -> Callable[[Build], Build]:
    """Enter a function in the table, for operations of those names."""

    def enter(build: Build) -> Build:
        for name in names:
            RULES[name] = Rule(build, composed, is_folded, limits, is_by_parts)
        return build

    return enter
