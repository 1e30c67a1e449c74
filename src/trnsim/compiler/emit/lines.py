"""Long lines, which a kernel cuts into rows: a dimension runs along partitions or columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from trnsim.compiler.emit.placed import Placed, in_hbm
from trnsim.graph import Kind, Node, Value
from trnsim.lower.fusion import Group

if TYPE_CHECKING:
    from trnsim.compiler.emit.emission import Emission

_TOGETHER: Final = 24
"""Operations of one kernel of a long line."""
_LONG: Final = 1 << 15
"""Elements of a line from which on it is cut into rows by a kernel of its own."""


def by_rows(emission: Emission, value: Value, leaves: Mapping[int, Placed]) -> Placed | None:
    """A long line of elementwise operations by a kernel from HBM to HBM, if it is one.

    Args:
        emission: the program.
        value: what is computed.
        leaves: where the operands lie, by their values' numbers.
    """
    shape = value.shape
    is_long = len(shape) == 1 and shape[0] >= _LONG
    if not is_long or not all(map(_is_in_order, leaves.values())):
        return None
    nodes: dict[int, Node] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.number not in leaves and one.number in emission.maker:
            nodes[one.number] = emission.maker[one.number]
            waiting += nodes[one.number].values
    kinds = {node.kind for node in nodes.values()}
    if kinds != {Kind.ELEMENTWISE} or len(nodes) > _TOGETHER:
        return None
    order = [nodes[number] for number in sorted(nodes)]
    return emission.by_group(Group(order, shape, outputs=[value], is_fused=True))


def _is_in_order(placed: Placed) -> bool:
    dense = not placed.is_pending and not placed.is_on_chip
    return dense and placed == in_hbm(placed.storage, placed.shape)
