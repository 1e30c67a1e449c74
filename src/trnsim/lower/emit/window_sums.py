"""Sums of padded images, such as the gradient of a pooling.

For each tap of the windows, an image with a number for each window is padded to the size of the
images, with zeros between its elements if windows are apart; the sum has these images as terms.
Adding each number to the element to which padding would move it needs no zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.arithmetic import Add
from trnsim.graph.ops.layout import Pad, Slice
from trnsim.graph.types import ITEM_BYTES, Shape
from trnsim.lower.kernels.tiles import P

if TYPE_CHECKING:
    from trnsim.lower.emit.graph_facts import GraphFacts

IMAGE_RANKS: Final = (3, 4)
"""Ranks of sequences and of images, with batch and channels."""
OUTER_DIMS: Final = 2
"""Dimensions before the spatial ones: batch and channels."""
_MOST_IMAGE_BYTES: Final = 48 * 1024
"""Maximum bytes of an image that is added up on a partition."""


class WindowSums:
    """The sums of padded images of a graph.

    Attributes:
        parts: number of a sum -> the nodes that pad its terms.
        inner: numbers of the padded images, and of their partial sums.
        roots: number of a padded image -> the sum of which it is a term.
        operands: numbers of the images before they are padded, and of the values from which
            elementwise nodes compute these.
    """

    def __init__(
        self, graph: Graph, readers: Mapping[int, Sequence[Node]], outputs: Collection[int]
    ) -> None:
        self.parts: dict[int, list[Node]] = {}
        self.inner: set[int] = set()
        self.roots: dict[int, Value] = {}
        self.operands: set[int] = set()
        producers = {value.number: node for node in graph.nodes for value in node.results}
        self._producers, self._readers, self._outputs = producers, readers, outputs
        if any(isinstance(node.operation, Pad) for node in graph.nodes):
            for node in reversed(graph.nodes):
                self._record_sum(node)

    def _record_sum(self, root: Node) -> None:
        """Record a node if it is the last addition of a sum of padded images."""
        if not isinstance(root.operation, Add) or root.result.number in self.inner:
            return
        parts, inner = list[Node](), set[int]()
        waiting: list[Any] = [*reversed(root.operands)]
        while waiting:
            value = waiting.pop()
            node = self._producers.get(value.number) if isinstance(value, Value) else None
            if node is None or value.number in self._outputs:
                return
            if len(self._readers.get(value.number, ())) != 1 or value.number in inner:
                return
            inner.add(value.number)
            if isinstance(node.operation, Add) and value.type == root.result.type:
                waiting += reversed(node.operands)
            elif is_padded_image(node) and value.type == root.result.type:
                parts.append(node)
            else:
                return
        self.parts[root.result.number] = parts
        self.inner |= inner
        self.roots |= {part.result.number: root.result for part in parts}
        self._add_operands([node.values[0] for node in parts])

    def _add_operands(self, values: list[Value]) -> None:
        """Record values that are padded, and those from which elementwise nodes compute them."""
        while values:
            value = values.pop()
            if value.number in self.operands:
                continue
            self.operands.add(value.number)
            node = self._producers.get(value.number)
            if node is not None and node.kind is Kind.ELEMENTWISE:
                values += [operand for operand in node.values if operand.shape == value.shape]


def is_padded_image(node: Node) -> bool:
    """True if a node pads images with zeros, and an image fits on a partition."""
    operation, shape = node.operation, node.result.shape
    if not isinstance(operation, Pad) or len(shape) not in IMAGE_RANKS or operation.number:
        return False
    outer = slice(0, OUTER_DIMS)
    is_still = not any((*operation.low[outer], *operation.high[outer], *operation.interior[outer]))
    nbytes = prod(shape[OUTER_DIMS:]) * ITEM_BYTES[node.result.dtype]
    is_whole = all((*shape, *node.values[0].shape)) and nbytes <= _MOST_IMAGE_BYTES
    return is_still and is_whole and node.result.type.is_floating


def is_of_windows(facts: GraphFacts, node: Node) -> bool:
    """True if a node pads rows and columns of images, and all its readers are slices."""
    operation: Any = node.operation
    if not isinstance(operation, Pad):
        return False
    (operand,), result = node.values, node.result
    if len(result.shape) not in IMAGE_RANKS or not all((*result.shape, *operand.shape)):
        return False
    outer = slice(0, OUTER_DIMS)
    readers = facts.readers(result)
    return (
        operand.type.is_floating
        and not any((*operation.low[outer], *operation.high[outer], *operation.interior[outer]))
        and not facts.is_output(result)
        and bool(readers)
        and all(isinstance(reader.operation, Slice) for reader in readers)
    )


def image_pair(numbers: Sequence[int], default: int) -> tuple[int, int]:
    """The numbers for rows and columns of images; of a sequence `default` and its only number."""
    first, second = (default, *numbers)[-2:]
    return first, second


def partition_dims(shape: Shape) -> tuple[int, ...]:
    """The dimensions along the partitions: channels, or images and channels if channels are few.

    Products read images by channels; few channels would leave most lanes of engines idle.
    """
    images, channels = shape[:OUTER_DIMS]
    return (1,) if channels * 2 >= min(P, images * channels) else (0, 1)
