"""Dynamic addressing: tiles whose address is computed when the instruction runs.

A scalar index shifts a whole tile, a vector index gives each row of a DMA its own address, a
snake index (tensor indirection, NeuronCore-v4) picks columns on chip.

Source: nki.isa.dma_copy, Indirect addressing; nki.language.NkiTensor.ap and .indirect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from trnsim.dtypes import Array

if TYPE_CHECKING:
    from trnsim.memory.tile import Tile

Indices = npt.NDArray[np.int64]


@runtime_checkable
class Register(Protocol):
    """A register: holds an integer when an instruction runs.

    Attributes:
        origins: the instructions that its value comes from, each as (first serial number of the
            program, index in the program).
    """

    origins: tuple[tuple[int, int], ...]

    @property
    def value(self) -> int:
        """The integer."""
        ...


@dataclass(frozen=True, slots=True)
class ScalarIndex:
    """``address += index * stride_bytes`` for the whole tile.

    Attributes:
        source: a tile of one element, or a register.
        stride_bytes: bytes of one step of the indexed dimension.
        limit: exclusive upper bound of legal indices.
        limit_reason: the reason for a limit below the length of the dimension, or "".
    """

    source: Tile | Register
    stride_bytes: int
    limit: int
    limit_reason: str = ""

    @property
    def value(self) -> int:
        """The current value of the index."""
        if isinstance(self.source, Register):
            return int(self.source.value)
        return int(self.source.array.reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Row i of the tile lies at ``index[i] * stride_bytes``; dimension 0 of the pattern is rows.

    Attributes:
        source: the indices, read column by column ([P, 1], or [P, N] for N * P rows).
        stride_bytes: bytes of one step of the indexed dimension.
        limit: exclusive upper bound of legal indices.
    """

    source: Tile
    stride_bytes: int
    limit: int

    def rows(self, count: int) -> Indices:
        """The first `count` indices; `source` is read column by column."""
        return self.source.array.ravel("F")[:count].astype(np.int64)


@dataclass(frozen=True, slots=True)
class SnakeIndex:
    """Element i of partition p lies at column ``index[g * G + i % G, i // G]``, g = p // G.

    Attributes:
        source: column offsets [P, K], as many partitions as the tile.
        limit: exclusive upper bound of legal columns.
        count: elements of a partition.
        group_partitions: partitions G that share offsets: 16, for the Tensor Engine 32.
    """

    source: Tile
    limit: int
    count: int
    group_partitions: int

    def columns(self, partitions: int) -> Indices:
        """The column of each element, [partitions, count]."""
        offsets = self.source.array.astype(np.int64).reshape(self.source.partitions, -1)
        group = self.group_partitions
        element = np.arange(self.count)
        first = np.arange(partitions)[:, None] // group * group
        columns: Indices = offsets[first + element % group, element // group]
        return columns


Index = ScalarIndex | VectorIndex | SnakeIndex


def is_in_range(indices: Indices, limit: int) -> Array:
    """One boolean per index: whether it lies in [0, limit)."""
    result: Any = (indices >= 0) & (indices < limit)
    return np.asarray(result)
