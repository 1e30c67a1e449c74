"""Rules by which operations can be split over two cores.

A rule gives the splits of an operation's operands and results. Every operation has the rule by
which both cores do all of it; others come from functions that `declares_splits` declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from trnsim.compiler.sharding.splits import SUM, WHOLE, Split, splittable_dims
from trnsim.graph import Kind, Node, Value
from trnsim.graph.operation import Operation
from trnsim.graph.types import ITEM_BYTES


@dataclass(frozen=True, slots=True)
class SplitRule:
    """A way in which an operation is split.

    Attributes:
        operands: the split of each operand that is a tensor.
        results: the split of each result.
    """

    operands: tuple[Split, ...]
    results: tuple[Split, ...]


SplitRules = Callable[[Node], Iterator[SplitRule]]
"""A function that lists the rules of a node."""
_SPLIT_RULES: Final[dict[type[Operation], SplitRules]] = {}
"""The function that lists the rules, by class of operation."""


def declares_splits(*operations: type[Operation]) -> Callable[[SplitRules], SplitRules]:
    """Declare the function that lists the splits of operations of these classes."""

    def declare(list_rules: SplitRules) -> SplitRules:
        _SPLIT_RULES.update(dict.fromkeys(operations, list_rules))
        return list_rules

    return declare


def split_rules(node: Node) -> tuple[SplitRule, ...]:
    """All rules by which a node can be split; the first leaves it whole."""
    rules = [SplitRule((WHOLE,) * len(node.values), (WHOLE,) * len(node.results))]
    list_rules = _SPLIT_RULES.get(type(node.operation), _elementwise)
    if list_rules is not _elementwise or node.kind is Kind.ELEMENTWISE:
        rules += [rule for rule in list_rules(node) if _fits(node, rule)]
    return tuple(dict.fromkeys(rules))


def _fits(node: Node, rule: SplitRule) -> bool:
    """True if every dimension that is split has two halves."""
    values = (*node.values, *node.results)
    return all(
        split in (WHOLE, SUM) or split in splittable_dims(value.shape)
        for value, split in zip(values, (*rule.operands, *rule.results), strict=True)
    )


_LINEAR_IN_ALL: Final = ("add", "subtract")
"""Operations that are linear in all operands together."""
_LINEAR_IN_FIRST: Final = ("multiply", "divide", "negate", "convert")
"""Operations that are linear in the first operand."""


def _elementwise(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension; also of partial sums if the operation is linear in them."""
    count = len(node.values)
    for dim in splittable_dims(node.result.shape):
        yield SplitRule((dim,) * count, (dim,))
    if _is_linear(node):
        yield SplitRule((SUM,) * count, (SUM,))


def _is_linear(node: Node) -> bool:
    """True if f(a + b) = f(a) + f(b) for a node f, and its result has no shorter format."""
    operands, sizes = node.values, [ITEM_BYTES[value.dtype] for value in node.values]
    if not all(value.type.is_floating for value in (*operands, node.result)):
        return False
    if ITEM_BYTES[node.result.dtype] < max(sizes):
        return False
    if node.name in _LINEAR_IN_ALL:
        return len(operands) == len(node.operands)
    return (
        node.name in _LINEAR_IN_FIRST and len(operands) == 1 and isinstance(node.operands[0], Value)
    )


def equal_splits(node: Node, dims: Iterator[Split]) -> Iterator[SplitRule]:
    """Rules by which all operands and results are split along the same dimension."""
    for dim in dims:
        yield SplitRule((dim,) * len(node.values), (dim,) * len(node.results))
