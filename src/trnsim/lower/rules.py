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
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trnsim.graph import Node, Operation

Rule = TypeVar("Rule", bound=Callable[..., Any])

KERNELS: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What runs an operation that is not fused with others."""
ON_TILES: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What computes an elementwise operation that takes more than one instruction."""


@dataclass(frozen=True, slots=True)
class LegalForm:
    """Operations that have kernels, in the place of one that has none.

    Attributes:
        build: what adds them to a graph.
        has_kernel: whether an operation, as it stands in a graph, has a kernel all the same.
    """

    build: Callable[..., Any]
    has_kernel: Callable[[Node], bool]


LEGAL: Final[dict[type[Operation], LegalForm]] = {}
"""What builds an operation from others."""


def kernel(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the kernel of operations."""
    return _into(KERNELS, operations)


def on_tiles(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the instructions of elementwise operations."""
    return _into(ON_TILES, operations)


def legal(
    *operations: type[Operation], unless: Callable[[Node], bool] = lambda _: False
) -> Callable[[Rule], Rule]:
    """Declare what operations become that have no kernel, unless a node of one has."""

    def declare(rule: Rule) -> Rule:
        LEGAL.update(dict.fromkeys(operations, LegalForm(rule, unless)))
        return rule

    return declare


def _into(
    table: dict[type[Operation], Callable[..., Any]], operations: tuple[type[Operation], ...]
) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        table.update(dict.fromkeys(operations, rule))
        return rule

    return declare
