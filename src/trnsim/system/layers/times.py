"""The time of a block on one rank, and where it comes from.

Three kinds of source answer: a user's measured table, compiled layers, and a form of few constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trnsim.system.workload.operators import Block, Pass


@dataclass(frozen=True)
class LayerTime:
    """What one block takes one rank, without its exchanges.

    Attributes:
        time_s: median seconds.
        parts_s: seconds by cause ("products", "HBM", "vector", "fixed"), which add up to `time_s`.
        spread: one sigma of the logarithm of (true / `time_s`).
        source: "measured", "compiled" or "few constants", and of what.
        has_exchanges: whether the spread is of sums of layers and their exchanges.
    """

    time_s: float
    parts_s: Mapping[str, float]
    spread: float
    source: str
    has_exchanges: bool = False


class LayerTimes(Protocol):
    """What knows the time of a block."""

    def of(self, block: Block, given: Pass) -> LayerTime:
        """The forward time of one of the block's layers in a pass."""
        ...

    def backward(self, block: Block, given: Pass) -> LayerTime:
        """The time of both gradients of one of the block's layers."""
        ...
