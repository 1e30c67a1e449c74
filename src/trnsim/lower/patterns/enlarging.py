"""Images of which each row and column is repeated, as an upsampling to the nearest has it.

The operations stay. Where a convolution or a pooling reads them, the copies are made as the images
are brought (`trnsim.lower.emit.images.image`).
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.patterns import TensorForm, of
from trnsim.graph.rewriting import Match, Pattern

_IMAGES: Final = 4
"""Dimensions of images: their number, channels, height and width."""
_COPIED: Final = 6
"""With a dimension of copies behind the rows, and behind the columns."""
_DIMS: Final = (0, 1, 2, 4)
"""Which of these are the images' own."""


def times(match: Match) -> tuple[int, int]:
    """How often each row and each column is there."""
    wide = match["wide"].shape
    return wide[3], wide[5]


def _are_copies(match: Match) -> bool:
    shape, wide = match["images"].shape, match["wide"].shape
    operation: Any = match.operation("wide")
    ranks = len(wide), len(match.node.result.shape)
    if ranks != (_COPIED, _IMAGES) or tuple(operation.dims) != _DIMS:
        return False
    pairs = zip(shape[2:], times(match), match.node.result.shape[2:], strict=True)
    return shape == (*wide[:3], wide[4]) and all(n * k == m for n, k, m in pairs)


ENLARGING = Pattern(
    "enlarging",
    "copies of rows and columns are made as a convolution or a pooling brings its images",
    before=of(Reshape, of(BroadcastInDim, TensorForm("images"), name="wide")),
    when=_are_copies,
)
