"""Enlarged images, each row and column of which is repeated, as by nearest-neighbour upsampling.

The nodes stay. If a convolution or a pooling reads the result, the copies are made while the images
are loaded (`trnsim.lower.emit.images.image`).
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.patterns import TensorForm, form_of
from trnsim.graph.rewriting import Match, Pattern

_IMAGE_RANK: Final = 4
"""Rank of images: batch, channels, height, width."""
_COPIED_RANK: Final = 6
"""The rank with a dimension of copies after the rows, and after the columns."""
_IMAGE_DIMS: Final = (0, 1, 2, 4)
"""The dimensions of the images among those of the copies."""


def repeat_counts(match: Match) -> tuple[int, int]:
    """The number of copies of each row and of each column."""
    shape = match["copies"].shape
    return shape[3], shape[5]


def _are_copies(match: Match) -> bool:
    shape, copied_shape = match["images"].shape, match["copies"].shape
    operation: Any = match.operation("copies")
    ranks = len(copied_shape), len(match.node.result.shape)
    if ranks != (_COPIED_RANK, _IMAGE_RANK) or tuple(operation.dims) != _IMAGE_DIMS:
        return False
    pairs = zip(shape[2:], repeat_counts(match), match.node.result.shape[2:], strict=True)
    return shape == (*copied_shape[:3], copied_shape[4]) and all(n * k == m for n, k, m in pairs)


IMAGE_ENLARGEMENT = Pattern(
    "enlarging",
    "copies of rows and columns are made while a convolution or a pooling loads its images",
    before=form_of(Reshape, form_of(BroadcastInDim, TensorForm("images"), name="copies")),
    when=_are_copies,
)
