"""Groups of channels in the gradient of a kernel.

Neighbouring groups share the array: the product of all of their kernels and channels has their
gradients on its diagonal, which is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.layout import Reshape, Transpose
from trnsim.lower.emit.graph_facts import GraphFacts
from trnsim.lower.kernels.instructions import copied, keep_groups
from trnsim.lower.kernels.tiles import P, Tensor
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_SUMS_BYTES: Final = 40 * 1024
"""Bytes of a partition for the sums of the groups that share the array."""


@dataclass(frozen=True, slots=True)
class GradientGroups:
    """The groups of a kernel's gradient: images ``[C, G * N, *D]``, kernels ``[G * O, N, *W]``.

    Attributes:
        count: number of groups.
        channels: channels of a group, C.
        kernels: kernels of a group, O.
        taps: elements of a kernel for each channel.
    """

    count: int
    channels: int
    kernels: int
    taps: int

    @classmethod
    def of(cls, node: Node) -> GradientGroups:
        """The groups of a convolution that is a kernel's gradient."""
        operation: Any = node.operation
        image, kernel = node.values
        count = operation.groups
        return cls(count, image.shape[0], kernel.shape[0] // count, prod(node.result.shape[2:]))

    @property
    def groups_at_once(self) -> int:
        """The number of groups that share the array.

        0 if the array is too small for one group, or SBUF for its sums.
        """
        of_sums: int = _SUMS_BYTES // (self.channels * self.taps * nl.float32.itemsize)
        return min(P // max(self.channels, self.kernels), of_sums, self.count)

    def write_own_sums(self, sums: Tensor, target: Tensor) -> None:
        """Write each kernel's sums over the channels of its own group to `target`.

        Args:
            sums: sums of neighbouring groups, [kernels, 1, groups * channels * taps]; overwritten.
            target: [kernels, 1, channels * taps].
        """
        rows, _, columns = target.shape
        groups = sums.shape[2] // columns
        if groups == 1:
            copied(sums, target.dtype, target)
            return
        by_group = sums.reshape((rows, groups, columns))
        keep_groups(by_group, self.kernels)
        matrix = target.reshape((rows, columns))
        nisa.tensor_reduce(dst=matrix, op=nl.add, data=by_group.permute((0, 2, 1)), axis=2)


def without_groups(facts: GraphFacts, value: Value, groups: int) -> Value:
    """The images ``[G * C, N, *D]`` from which a graph made the images ``[C, G * N, *D]``.

    They are the operand of the graph's reshapes and transpose, or a new view if it has none.
    """
    channels, rows, *lengths = value.shape
    images = rows // groups
    split, grouped = (channels, groups, images, *lengths), (groups, channels, images, *lengths)
    result_shape = (groups * channels, images, *lengths)
    order = (1, 0, *range(2, len(split)))
    source, is_by_group = value, channels == 1
    while source.shape != result_shape or not is_by_group:
        node = facts.producers.get(source.number)
        operation = None if node is None else node.operation
        if isinstance(operation, Transpose) and not is_by_group and source.shape == split:
            if operation.permutation != order:
                break
            is_by_group = True
        elif not isinstance(operation, Reshape):
            break
        source = node.values[0] if node is not None else source
    else:
        return source
    view = facts.add_view(value, Reshape(split), split)
    view = facts.add_view(view, Transpose(order), grouped)
    return facts.add_view(view, Reshape(result_shape), result_shape)
