"""The split of a value over two cores: along a dimension, whole on both, or as partial sums.

A value that is split along a dimension has its first half on core 0 and its second half on core 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from trnsim.graph.types import Shape, TensorType

CORES: Final = 2
"""Physical cores of a logical core that is split (logical-neuroncore-config.rst: 1 or 2)."""

Split = int
"""The dimension along which a value is split, or `WHOLE` or `SUM`."""
WHOLE: Final = -1
"""The split of a value that both cores have as a whole."""
SUM: Final = -2
"""The split of a value that is the sum of the two cores' tensors."""


def splittable_dims(shape: Shape) -> Iterator[Split]:
    """The dimensions that can be split."""
    return (dim for dim, length in enumerate(shape) if length and length % CORES == 0)


def half_shape(shape: Shape, split: Split) -> Shape:
    """One core's part of a shape."""
    return tuple(n // CORES if dim == split else n for dim, n in enumerate(shape))


def half_type(tensor: TensorType, split: Split) -> TensorType:
    """The type of one core's part of a tensor."""
    return TensorType(half_shape(tensor.shape, split), tensor.dtype)


def matching_dims(before: Shape, after: Shape) -> Iterator[tuple[Split, Split]]:
    """Pairs of dimensions of two shapes of the same elements whose halves are the same elements."""
    for dim in splittable_dims(before):
        for after_dim in splittable_dims(after):
            if prod(before[dim:]) == prod(after[after_dim:]):
                yield dim, after_dim
