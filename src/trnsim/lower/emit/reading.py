"""Who reads what of a graph, and how it lies best for them."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from trnsim.graph import Graph, Kind
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.layout import Reshape
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.emit.places.paths import is_view, widens
from trnsim.lower.kernels.tiles import P

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission


TURNED_BYTES: Final = 24 * 1024
"""Bytes of a partition for what is turned to be reduced along the columns."""


def uses(graph: Graph) -> dict[int, int]:
    """How many operations read each value, looking through views."""
    found: dict[int, int] = {}
    for value in graph.outputs:
        found[value.number] = found.get(value.number, 0) + 1
    for node in reversed(graph.nodes):
        times = found.get(node.result.number, 0) if is_view(node) or widens(node) else 1
        for value in node.values:
            found[value.number] = found.get(value.number, 0) + times
    return found


def contracted(graph: Graph) -> set[int]:
    """The values whose last dimension a product sums over, as they are or after other operations.

    They lie best with that dimension along the partitions.
    """
    found: set[int] = set()
    for node in reversed(graph.nodes):
        if isinstance(node.operation, DotGeneral):
            found |= {
                value.number
                for value, dim in zip(node.values, node.operation.contracting, strict=True)
                if dim == len(value.shape) - 1
            }
        elif node.result.number in found and (
            node.kind is Kind.ELEMENTWISE or isinstance(node.operation, Reshape)
        ):
            last = node.result.shape[-1:]
            found |= {value.number for value in node.values if value.shape[-1:] == last}
    return found


def of_long_rows(graph: Graph) -> set[int]:
    """The values of a size whose largest elements of each row are sought, too long to be turned.

    Their rows lie best along the partitions, as those of the scores of a vocabulary.
    """
    sizes: set[tuple[int, int]] = set()
    for node in graph.nodes:
        operation = node.operation
        if isinstance(operation, Reduce) and operation.op in ("maximum", "minimum"):
            (value,) = node.values
            nbytes = ceil(value.type.nbytes / P)
            if operation.dims == (len(value.shape) - 1,) and nbytes > TURNED_BYTES:
                sizes.add((value.type.elements, value.shape[-1]))
    values = [value for node in graph.nodes for value in node.results]
    return {
        value.number
        for value in values
        if value.shape and (value.type.elements, value.shape[-1]) in sizes
    }


def standing(emission: Emission) -> set[int]:
    """The products whose rows lie best along the partitions: values of attention, long rows."""
    found: set[int] = {
        node.result.number
        for node in emission.graph.nodes
        if isinstance(node.operation, DotGeneral) and node.result.number in emission.long_rows
    }
    waiting = [
        node.values[2] for node in emission.graph.nodes if isinstance(node.operation, Attention)
    ]
    while waiting:
        value = waiting.pop()
        node = emission.maker.get(value.number)
        if node is None:
            continue
        if isinstance(node.operation, DotGeneral):
            found.add(value.number)
        elif is_view(node) or (
            node.kind is Kind.ELEMENTWISE and emission.uses.get(value.number, 0) <= 1
        ):
            waiting += node.values
    return found
