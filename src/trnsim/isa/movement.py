"""What an instruction moves without looking at it, and what of a tile has been written then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trnsim.dtypes import Array
    from trnsim.memory import Tile


@dataclass(frozen=True, slots=True)
class Movement:
    """Bits that an instruction moves without looking at them.

    Attributes:
        src: where they come from.
        dst: where they go.
        arrange: the rearrangement, of an array of src's shape into one of dst's size.
    """

    src: Tile
    dst: Tile
    arrange: Callable[[Array], Array]


def whole_rows(flags: Array) -> Array:
    """[P]: whether all flags of a partition are set."""
    return np.asarray(flags.reshape(len(flags), -1).all(axis=1))


def by_partition(tile: Tile, rows: Array) -> Array:
    """A flag for each partition as one for each element of `tile`."""
    return np.broadcast_to(rows.reshape(-1, *[1] * (len(tile.shape) - 1)), tile.shape)


def as_it_is(array: Array) -> Array:
    """No rearrangement."""
    return array


def transposed_rows(array: Array) -> Array:
    """The transpose of an array whose free axes are flattened."""
    return array.reshape(len(array), -1).T
