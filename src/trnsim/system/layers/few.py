"""The time of a block by few constants.

forward  = max(products at a part of the peak, bytes at a part of HBM's bandwidth) + fixed
backward = the same with twice the products and the weights' gradients written
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsim.system.layers.times import LayerTime

if TYPE_CHECKING:
    from trnsim.system.workload.operators import Block, Pass

_ELEMENT_BYTES = 2


@dataclass(frozen=True)
class FewConstants:
    """Constants of one family of workloads on one machine.

    Attributes:
        flop_per_s: FLOP per second of a rank's products, reached.
        bytes_per_s: bytes per second of a rank's HBM, reached.
        cache_passes: how often keys and values cross HBM in a step.
        fixed_s: seconds of a layer that neither explains.
        spread: one sigma of the logarithm of (true / estimate).
        source: where the constants come from.
    """

    flop_per_s: float
    bytes_per_s: float
    cache_passes: float
    fixed_s: float
    spread: float
    source: str

    def of(self, block: Block, given: Pass) -> LayerTime:
        """The forward time of one of the block's layers."""
        del given
        cache = block.cache.read_bytes * self.cache_passes + block.cache.written_bytes
        return self._time(block.flop, block.weight_bytes + cache + _moved(block))

    def backward(self, block: Block, given: Pass) -> LayerTime:
        """The time of both gradients of one of the block's layers."""
        del given
        return self._time(2 * block.flop, 2 * (block.weight_bytes + _moved(block)))

    def _time(self, flop: float, nbytes: float) -> LayerTime:
        products_s, hbm_s = flop / self.flop_per_s, nbytes / self.bytes_per_s
        parts = {"products": products_s, "HBM": max(hbm_s - products_s, 0.0), "fixed": self.fixed_s}
        return LayerTime(sum(parts.values()), parts, self.spread, self.source)


def _moved(block: Block) -> float:
    """Bytes of a block's input and output: what lies between is taken to stay on the chip."""
    return sum(one.elements for one in block.elementwise if one.name.startswith("norm")) * (
        _ELEMENT_BYTES / 2
    )
