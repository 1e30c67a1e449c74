"""Which tile kernel, or which instructions on tiles, an operation becomes: one table of each.

    @kernel(Transpose)
    def transpose(op: Transpose, node: Node, source: Tensor) -> Tensor: ...

A kernel takes the operation, its place in the graph and its operands in HBM. A rule on tiles takes
the operation, its place and the tiles, or numbers, of its operands, and is fused with others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from trnsim.graph import Operation

Rule = TypeVar("Rule", bound=Callable[..., Any])

KERNELS: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What runs an operation that is not fused with others."""
ON_TILES: Final[dict[type[Operation], Callable[..., Any]]] = {}
"""What computes an elementwise operation that takes more than one instruction."""


def kernel(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the kernel of operations."""
    return _into(KERNELS, operations)


def on_tiles(*operations: type[Operation]) -> Callable[[Rule], Rule]:
    """Declare the instructions of elementwise operations."""
    return _into(ON_TILES, operations)


def _into(
    table: dict[type[Operation], Callable[..., Any]], operations: tuple[type[Operation], ...]
) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        table.update(dict.fromkeys(operations, rule))
        return rule

    return declare
