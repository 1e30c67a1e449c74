"""Mixtures of experts on AWS's chips whose port is not tuned: experts as general modules run them.

step   = the tuned form, with the experts that the module reads, and for each layer with experts a
         fixed time + copies of matrices that are gathered or widened, written and read back
prompt = the tuned form, with the blocks that the module multiplies, and for each layer with experts
         the same fixed time + blocks x passes of the sum over all tokens, which each block writes
         anew

Which experts a module reads is documented. In a step of T tokens that take k of E experts it
gathers T k of them while T k < E, and reads all otherwise. Tokens of prompts are sorted into blocks
of 512 rows, each of one expert, of which there are ceil(T k / 512) + E - 1 whatever the router
chooses; with fewer rows than a block all experts take all tokens.

Source: neuronx_distributed, modules/moe/expert_mlps_v2.py, ExpertMLPsV2.forward and
torch_blockwise_matmul_inference; aws-neuron-sdk, moe-arch-deep-dive.rst, Blockwise Matrix
Multiplication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.facts import Rate, assumed, count, derived
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Pass, Phase, Product, Split, bytes_of
from trnsim.workload.summary import PartSummary

ROUTING: Final = "routing"
COPIES: Final = "copies of experts"
SUMS: Final = "sums of blocks"
"""Causes of time that a tuned form has not."""
_EXPERT: Final = "expert "
"""Beginning of the names of experts' products."""
_COPY_PASSES: Final = 2
"""Passes over HBM of a copy of a matrix: written, and read back."""


class Port(StrEnum):
    """The state of a model's port to AWS's chips."""

    TUNED = "tuned"
    """One kernel, written for the chip, runs the experts, and reads those that the router chose."""
    AS_PORTED = "as-ported"
    """A general module runs the experts, and one bucket holds all lengths."""


BLOCK_ROWS: Final = count(512, "moe-arch-deep-dive.rst, BlockwiseMatmulConfig: block_size")
_FITTED_ON: Final = "fitted to 9 rows of 3 mixtures of experts"
_FIT: Final = "fitted to {} of ports (bench/serving_rows.py; docs/generated/accuracy-serving.md)"
ROUTED_S: Final = derived(220e-6, _FIT.format("7 TPOT rows"), spread=0.2)
"""Fixed seconds of a layer with experts beside a tuned one: a router in float32, masks and sums,
operation by operation."""
SUM_PASSES: Final = assumed(
    6.0,
    "a block's rows of the sum over all tokens are gathered, added to and put back, each time as a "
    "new tensor, as XLA's operations have no side effects: three reads and three writes",
)
"""Passes over HBM of the sum over all tokens for each block that is added to it."""


@dataclass(frozen=True)
class PortedConstants:
    """The constants of ports that are not tuned.

    Attributes:
        routed_s: fixed seconds of a layer with experts.
        sum_passes: passes of the sum over all tokens for each block.
    """

    routed_s: float = ROUTED_S
    sum_passes: float = SUM_PASSES


FITTED: Final = PortedConstants()


@dataclass(frozen=True)
class PortedTimes:
    """Times of layers of a port that is not tuned.

    Attributes:
        experts: experts to choose from, on a rank.
        bytes_per_s: bytes per second that are reached with a rank's HBM.
        hidden: elements of a hidden state.
        bits: bits of such an element.
    """

    tuned: LayerTimes
    experts: int
    bytes_per_s: float
    hidden: int
    bits: float
    constants: PortedConstants = FITTED

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        expert_products = [
            product for product in summary.products if product.name.startswith(_EXPERT)
        ]
        if not expert_products:
            return self.tuned.forward(summary, model_pass)
        run = self._run(expert_products[0].m * expert_products[0].times, model_pass)
        products = tuple(
            replace(product, m=run.rows, times=run.matrices)
            if product in expert_products
            else product
            for product in summary.products
        )
        tuned = self.tuned.forward(replace(summary, products=products), model_pass)
        copied_bytes = sum(self._copied_bytes(product, run) for product in expert_products)
        summed_bytes = bytes_of(run.sums * model_pass.rows * self.hidden, self.bits)
        parts = {
            **tuned.parts_s,
            ROUTING: float(self.constants.routed_s),
            COPIES: copied_bytes / self.bytes_per_s,
            SUMS: self.constants.sum_passes * summed_bytes / self.bytes_per_s,
        }
        return replace(
            tuned,
            time_s=sum(parts.values()),
            parts_s=parts,
            source=f"{tuned.source}; as ported: {_FITTED_ON}",
        )

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients, as of the tuned form: ports of servers have none."""
        return self.tuned.backward(summary, model_pass)

    def _copied_bytes(self, product: Product, run: _ExpertRun) -> float:
        """Bytes of copies of a product's matrices: as they are gathered, and as they are widened.

        Quantized weights are dequantized to the width of hidden states before a product (NxD,
        quantization/quantized_layers).
        """
        elements = _COPY_PASSES * product.k * product.n
        gathered = bytes_of(elements * run.gathered, product.weight_bits)
        is_widened = product.weight_bits < self.bits
        return gathered + is_widened * bytes_of(elements * run.matrices, self.bits)

    def _run(self, rows: float, model_pass: Pass) -> _ExpertRun:
        """The run of the experts for `rows` pairs of a token and an expert."""
        if model_pass.phase is Phase.DECODE:
            is_gathered = rows < self.experts
            matrices = rows if is_gathered else self.experts
            product_rows = 1 if is_gathered else model_pass.rows
            return _ExpertRun(matrices, product_rows, gathered=matrices if is_gathered else 0.0)
        if rows < BLOCK_ROWS:
            return _ExpertRun(self.experts, model_pass.rows)
        blocks = math.ceil(rows / BLOCK_ROWS) + self.experts - 1
        return _ExpertRun(blocks, BLOCK_ROWS, sums=blocks)


@dataclass(frozen=True)
class _ExpertRun:
    """The way in which a module runs the experts of a layer.

    Attributes:
        matrices: products with an expert's matrix; a matrix counts in each.
        rows: rows of each product.
        gathered: matrices that are gathered first.
        sums: times that the sum over all tokens is written anew.
    """

    matrices: float
    rows: float
    gathered: float = 0.0
    sums: int = 0


def facts() -> dict[str, Rate]:
    """The constants of ports, by name."""
    return {
        "a port's layer with experts s": ROUTED_S,
        "passes of a port's sum for each block": SUM_PASSES,
    }


def ported_times(
    tuned: LayerTimes, model: Architecture, split: Split, bytes_per_s: float
) -> LayerTimes:
    """Times of the port of `model`, as `tuned` for a model without experts."""
    if model.experts is None:
        return tuned
    experts = math.ceil(model.experts.count / split.expert)
    return PortedTimes(tuned, experts, bytes_per_s, model.decoder.hidden, model.other_bits)
