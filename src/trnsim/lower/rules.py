"""What an operation becomes: a tile kernel, instructions on tiles, or others; one table of each.

    @kernel(Transpose)
    def transpose(op: Transpose, node: Node, source: Tensor) -> Tensor: ...

    @legal(DynamicSlice)
    def dynamic_slice(b: Build, op: DynamicSlice, operand: Value, *starts: Value) -> Value: ...

A kernel takes the operation, its place in the graph and its operands in HBM. A rule on tiles takes
the operation, its place and the tiles, or numbers, of its operands, and is fused with others. A
legal form takes the graph that is being built, the operation and its operands there, and gives the
results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from trnsim.graph import Node, Operation
from trnsim.graph.building.build import Build
from trnsim.graph.patterns import Op, of
from trnsim.graph.rewriting import Match, Pattern

Rule = TypeVar("Rule", bound=Callable[..., Any])

KERNELS: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What runs an operation that is not fused with others."""
ON_TILES: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What computes an elementwise operation that takes more than one instruction."""


LEGAL: Final[dict[type[Operation], Pattern]] = {}
"""What an operation becomes that has no kernel as it stands in a graph."""


def kernel(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the kernel of operations."""
    return _into(KERNELS, operations)


def on_tiles(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the instructions of elementwise operations."""
    return _into(ON_TILES, operations)


def legal(
    *operations: type[Operation],
    unless: Callable[[Node], bool] = lambda _: False,
    name: str = "",
) -> Callable[[Rule], Rule]:
    """Declare what operations become that have no kernel, unless a node of one has, or is kept.

    The form is called as the operation is unless it has a name.
    """

    def has_none(match: Match) -> bool:
        return not unless(match.node) and not match.facts(match.node)

    def declare(rule: Rule) -> Rule:
        for one in operations:
            LEGAL[one] = legal_pattern(name or one.name, of(one), rule, has_none)
        return rule

    return declare


def legal_pattern(
    name: str, before: Op, rule: Callable[..., Any], when: Callable[[Match], bool]
) -> Pattern:
    """The pattern of a legal form, which means what the rule's docstring says."""

    def after(match: Match) -> Any:
        b, node = Build(), match.node
        b.graph, b.results = match.graph, [value.type for value in node.results]
        return rule(b, node.operation, *node.operands)

    meaning = (rule.__doc__ or "").partition("\n")[0].rstrip(".")
    meaning = meaning[:1].lower() + meaning[1:]
    return Pattern(name, meaning, before, after, when, is_needed=True)


def _into(
    table: dict[type[Operation], Callable[..., Any]], operations: tuple[type[Operation], ...]
) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        table.update(dict.fromkeys(operations, rule))
        return rule

    return declare
