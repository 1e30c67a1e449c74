"""The few constants by which layers are priced, of each family of workloads.

Fitted by ``make plans`` on published rows of Trn1 and Inf2 (NeuronCore-v2) alone; the spread is one
sigma of the logarithm of the errors of rows whose architecture was left out of the fit. Later
generations take the same shares of their own peak and bandwidth: extrapolated, and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.facts import Rate, assumed, derived, measured
from trnsim.system.workload.operators import Phase

_ROWS: Final = "aws-neuron-sdk, about-neuron/benchmarks"


@dataclass(frozen=True)
class Constants:
    """The constants of a family of workloads.

    Attributes:
        products: part of the BF16 peak that products reach.
        bytes_per_s: bytes per second of a NeuronCore-v2's HBM, reached.
        cache_passes: how often keys and values of a query head cross HBM in a step.
        half_s: seconds of half a layer (an attention, or an MLP) that nothing else explains.
        score_s: seconds of a score of a query and a key.
        spread: one sigma of the logarithm of (true / estimate) of rows left out.
        rows: what the spread is of.
    """

    products: Rate
    bytes_per_s: Rate
    cache_passes: Rate
    half_s: Rate
    score_s: Rate
    spread: float
    rows: str


HBM_BYTES_PER_S: Final = measured(
    294e9, "the best of NKIBench's SiLU kernels on Trn1: bytes read and written by one core"
)
OLD_HBM: Final = assumed(
    294 / 440, "part of a core's share of memory that NeuronCore-v2 reaches, taken for Inferentia1"
)
EXTRAPOLATED_SPREAD: Final = assumed(
    0.30, "one sigma that is added, in squares, on chips without published rows"
)
_NONE: Final = assumed(0.0, "left out of this family's form")

NEURON: Final = {
    Phase.DECODE: Constants(
        products=assumed(0.41, "as of encoders: products do not bind a step"),
        bytes_per_s=HBM_BYTES_PER_S,
        cache_passes=derived(1.3, f"fitted to 56 TPOT rows ({_ROWS}/trn1, inf2)"),
        half_s=derived(33e-6, f"fitted to 56 TPOT rows ({_ROWS}/trn1, inf2), exchanges taken off"),
        score_s=_NONE,
        spread=0.06,
        rows="56 TPOT rows, 3 architectures",
    ),
    Phase.PREFILL: Constants(
        products=derived(0.45, f"fitted to 59 TTFT rows ({_ROWS}/trn1, inf2)"),
        bytes_per_s=HBM_BYTES_PER_S,
        cache_passes=_NONE,
        half_s=derived(33e-6, f"fitted to 59 TTFT rows ({_ROWS}/trn1, inf2)"),
        score_s=derived(200e-12, f"fitted to 59 TTFT rows ({_ROWS}/trn1, inf2)"),
        spread=0.35,
        rows="59 TTFT rows, 3 architectures",
    ),
    Phase.ENCODE: Constants(
        products=derived(0.41, f"fitted to encoder rows ({_ROWS}/trn1, inf2)"),
        bytes_per_s=HBM_BYTES_PER_S,
        cache_passes=_NONE,
        half_s=derived(15.5e-6, f"fitted to encoder rows ({_ROWS}/trn1, inf2)"),
        score_s=_NONE,
        spread=0.12,
        rows="encoder rows",
    ),
    Phase.TRAIN: Constants(
        products=derived(0.40, f"fitted to Trn1 training rows ({_ROWS}/trn1)"),
        bytes_per_s=HBM_BYTES_PER_S,
        cache_passes=_NONE,
        half_s=_NONE,
        score_s=_NONE,
        spread=0.2,
        rows="training rows",
    ),
}
"""By what a pass is for, on NeuronCore-v2."""

GPU_HBM: Final = assumed(0.80, "part of a GPU's memory bandwidth that long reads reach")
