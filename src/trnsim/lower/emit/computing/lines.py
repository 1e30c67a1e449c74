"""Long lines: tensors of one dimension, computed as rows that lie along the partitions.

A dimension runs along partitions or along columns, not along both: a line such as an optimizer's
parameters is seen as a matrix of its parts. One whose length no row divides goes by its kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Kind, Node, Value
from trnsim.graph.types import Shape
from trnsim.lower.emit.places.placed import Placed, in_hbm
from trnsim.lower.fusion import Group
from trnsim.lower.kernels.tiles import P

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_LONG: Final = 1 << 15
"""Elements of a line from which on it is cut into rows."""
_LONGEST_ROW: Final = 1024
"""Elements of a row: many operands of as many elements lie in SBUF at once."""
_SHORTEST_ROW: Final = 128
"""Elements of a row below which transfers are slow (nki-dma-overview.rst: 512 bytes)."""
_TOGETHER: Final = 24
"""Operations of one kernel of a long line."""


def is_line(shape: Shape, leaves: Collection[Placed]) -> bool:
    """Whether a value is a long line of operands that lie in order, or are one number."""
    is_long = len(shape) == 1 and shape[0] >= _LONG
    return is_long and all(_is_in_order(one) for one in leaves)


def _is_in_order(placed: Placed) -> bool:
    if placed.is_pending or placed.is_on_chip:
        return False
    return placed == in_hbm(placed.storage, placed.shape) or not any(map(any, placed.steps))


def rows(shape: Shape) -> Shape | None:
    """The rows of a line, [rows, elements], at least one to a partition."""
    (length,) = shape
    most = min(_LONGEST_ROW, length // P)
    found = (one for one in range(most, _SHORTEST_ROW - 1, -1) if length % one == 0)
    row = next(found, 0)
    return (length // row, row) if row else None


def as_rows(leaves: Mapping[Any, Placed], shape: Shape) -> dict[Any, Placed]:
    """Operands as rows of a line."""
    found = {key: placed.reshaped(shape) for key, placed in leaves.items()}
    return {key: placed for key, placed in found.items() if placed is not None}


def by_kernel(emission: Emission, value: Value, numbers: Collection[int]) -> Placed | None:
    """A line by a kernel of its own, from operands of these numbers; None where it has none."""
    nodes: dict[int, Node] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if one.number not in {*numbers, *nodes} and one.number in emission.facts.maker:
            nodes[one.number] = emission.facts.maker[one.number]
            waiting += nodes[one.number].values
    if {node.kind for node in nodes.values()} != {Kind.ELEMENTWISE} or len(nodes) > _TOGETHER:
        return None
    order = [nodes[number] for number in sorted(nodes)]
    return emission.by_group(Group(order, value.shape, outputs=[value], is_fused=True))
