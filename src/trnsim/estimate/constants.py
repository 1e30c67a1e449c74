"""The few constants by which layers are priced, of each family of workloads.

Fitted by ``bench/system/page.py`` to published rows of Trn1 and Inf2 (NeuronCore-v2) alone; a
spread is one sigma of the logarithm of the errors of rows whose architecture was left out of the
fit (docs/generated/accuracy-models.md). Later generations take the same shares of their own peak,
clock and bandwidth, marked as extrapolated, except for prompts: times of half layers (an attention,
or an MLP) on Trn2 are published. The formulas were chosen with all rows in sight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.facts import Rate, assumed, derived, documented, measured
from trnsim.workload.operators import Phase

_NO_TERM: Final = assumed(0.0, "left out of this family's form")
_ROWS_SOURCE: Final = "aws-neuron-sdk, about-neuron/benchmarks"
_ENCODERS_FIT: Final = f"fitted to 25 rows of encoders and ViT ({_ROWS_SOURCE}, trn1 and inf2)"
_STEPS_FIT: Final = f"fitted to 56 TPOT rows ({_ROWS_SOURCE}, trn1 and inf2), exchanges taken off"
_PROMPTS_FIT: Final = f"fitted to 56 TTFT rows ({_ROWS_SOURCE}, trn1 and inf2), exchanges taken off"
_TRAINING_FIT: Final = (
    f"fitted to the medians over releases of 28 Trn1 configurations ({_ROWS_SOURCE}/trn1)"
)

HBM_BYTES_PER_S: Final = measured(
    294e9, "the best of NKIBench's SiLU kernels on Trn1: bytes read and written by one core"
)
HOST_BYTES_PER_S: Final = measured(
    6e9, f"xlm-roberta-base gives 128 MB of scores a sequence at its throughput ({_ROWS_SOURCE})"
)
PRODUCTS: Final = derived(0.690, _ENCODERS_FIT)
"""Part of the BF16 peak that products reach on a NeuronCore-v2."""
INF2_PRODUCTS: Final = derived(0.765, _ENCODERS_FIT)
"""Share of `PRODUCTS` that Inferentia2 reaches."""
_ON_INF2: Final = f"({_ROWS_SOURCE}/inf2)"
_ONE_PASS: Final = assumed(1.0, "each element passes once")
_PLAIN_SOFTMAX_WEIGHT: Final = assumed(1.0, "an element of a softmax takes what others do")
_LONGER_SOFTMAX_WEIGHT: Final = documented(
    2.0,
    "two tensors of FP32, in which training takes a softmax, are combined at half the rate of two "
    "of BF16 (tensor_tensor, ISA of SDK 2.26)",
)
KERNEL_PASSES: Final = assumed(
    1.0, "an element of a softmax passes the Vector Engine once in one kernel of attention"
)


@dataclass(frozen=True)
class FamilyConstants:
    """The constants of a family of workloads.

    Attributes:
        half_s: fixed seconds of half a layer (an attention, or an MLP).
        spread: one sigma of the logarithm of (true / estimate) of rows left out.
        rows: the rows behind the spread.
        products: part of the BF16 peak that products reach on a NeuronCore.
        inf2_products: share of `products` that is reached on Inferentia2.
        bytes_per_s: bytes per second that are reached with a NeuronCore-v2's HBM.
        cache_passes: how often keys and values of a query head cross HBM in a step.
        inf2_half_s: `half_s` on Inferentia2, if it differs.
        sequence_s: further seconds of a half for each sequence.
        score_s: seconds of a score of a query and a key, on a NeuronCore-v2.
        element_passes: how often norms, residuals, softmax and activations pass the Vector Engine.
        softmax_weight: time of an element of a softmax over that of any other element.
        host_bytes_per_s: bytes per second of results to the host; 0 where they stay.
        call_s: fixed seconds of a call of a program.
        kernel_passes: how often an unmasked score passes the Vector Engine in one kernel of
            attention or in a denoiser, where its products take no further time; 0 elsewhere.
        attention_halves: halves of a layer that each attention of a captured graph counts as.
    """

    half_s: Rate
    spread: float
    rows: str
    products: Rate = PRODUCTS
    inf2_products: Rate = INF2_PRODUCTS
    bytes_per_s: Rate = HBM_BYTES_PER_S
    cache_passes: Rate = _NO_TERM
    inf2_half_s: Rate = _NO_TERM
    sequence_s: Rate = _NO_TERM
    score_s: Rate = _NO_TERM
    element_passes: Rate = _ONE_PASS
    softmax_weight: Rate = _PLAIN_SOFTMAX_WEIGHT
    host_bytes_per_s: Rate = _NO_TERM
    call_s: Rate = _NO_TERM
    kernel_passes: Rate = _NO_TERM
    attention_halves: Rate = _NO_TERM


NEURON: Final = {
    Phase.DECODE: FamilyConstants(
        half_s=derived(33.3e-6, _STEPS_FIT),
        cache_passes=derived(1.17, _STEPS_FIT),
        spread=0.07,
        rows="56 TPOT rows of 3 architectures",
    ),
    Phase.PREFILL: FamilyConstants(
        half_s=derived(51.9e-6, _PROMPTS_FIT),
        inf2_half_s=derived(169e-6, _PROMPTS_FIT),
        sequence_s=derived(43.0e-6, _PROMPTS_FIT),
        score_s=derived(164e-12, _PROMPTS_FIT),
        spread=0.37,
        rows="56 TTFT rows of 3 architectures",
    ),
    Phase.ENCODE: FamilyConstants(
        half_s=derived(5.8e-6, _ENCODERS_FIT),
        host_bytes_per_s=HOST_BYTES_PER_S,
        spread=0.07,
        rows="25 rows of encoders and ViT, 3 architectures",
    ),
    Phase.TRAIN: FamilyConstants(
        half_s=derived(5.8e-6, _ENCODERS_FIT),
        element_passes=derived(3.96, _TRAINING_FIT),
        softmax_weight=_LONGER_SOFTMAX_WEIGHT,
        spread=0.14,
        rows="28 training configurations of 8 architectures",
    ),
}
"""Constants on NeuronCore-v2 by phase."""
_HALVES_FIT: Final = (
    "fitted to 79 halves of prompts: nki-library's MLP and attention on Trn2, limits of its "
    "regression tests (docs/generated/accuracy-halves.md); NxD Inference takes these kernels for "
    "prompts"
)
KERNEL_PROMPTS: Final = FamilyConstants(
    half_s=derived(58.2e-6, _HALVES_FIT),
    kernel_passes=assumed(2.0, "a softmax's exponential and what it scales, as elements count"),
    spread=0.41,
    rows="56 TTFT rows of 3 architectures, and 79 halves of prompts on Trn2",
)
"""Constants of prompts on chips for which NxD Inference has kernels, fitted to half layers.

The squared spread is the sum of 0.17^2 and the squared spread of TTFT rows. 0.17 is the sigma of
the halves of one size (hidden x intermediate, or queries x keys) when all of that size are left out
of the fit.
"""
NETWORKS: Final = FamilyConstants(
    half_s=_NO_TERM,
    products=derived(0.359, f"fitted to 12 rows of CNNs and Perceivers {_ON_INF2}"),
    inf2_products=assumed(1.0, "all rows are of Inferentia2"),
    call_s=derived(0.42e-3, f"fitted to 12 rows of CNNs and Perceivers {_ON_INF2}"),
    spread=0.20,
    rows="12 rows of CNNs and Perceivers, 10 networks",
)
"""Constants of models of the transformers library that have no formula, so that their graph is
read."""
DIFFUSION: Final = FamilyConstants(
    half_s=NEURON[Phase.PREFILL].half_s,
    inf2_half_s=NEURON[Phase.PREFILL].inf2_half_s,
    attention_halves=assumed(1.5, "a block of a denoiser has two attentions and an MLP"),
    kernel_passes=assumed(
        2.0 * float(_LONGER_SOFTMAX_WEIGHT),
        "a softmax's exponential and what it scales, both in FP32, as --auto-cast matmult casts "
        "products alone; two tensors of FP32 are combined at half the rate",
    ),
    spread=0.18,
    rows="8 rows of diffusion, 6 networks",
)
"""Constants of denoisers and decoders of latents, none of which is fitted to their rows.

Products reach the part of the peak that encoders' reach, and a half of a block takes the time of
prompts'.
"""


@dataclass(frozen=True)
class FamilyFactor:
    """A factor on the times of another family's constants, with the spread of rows left out."""

    factor: Rate
    spread: float
    rows: str


PAIRS: Final = FamilyFactor(
    derived(1.52, f"fitted to 4 rows of CLIP, two architectures {_ON_INF2}"),
    0.24,
    "4 rows of CLIP, 2 architectures",
)
"""The time of a pair of an image and texts over that of its two towers."""

PROGRAM_SPREAD: Final = derived(
    0.29,
    "156 rows of models and their compiled programs, nothing fitted "
    "(docs/generated/accuracy-models.md)",
)
"""One sigma of the logarithm of the errors of compiled programs."""

V2_PEAK: Final = 95e12
"""BF16 FLOP per second of a NeuronCore-v2, half of the chip's, on which `score_s` is stated."""
V2_MEMORY: Final = assumed(
    294 / 440, "part of a core's share of memory that NeuronCore-v2 reaches, taken for Inferentia1"
)
V1_VECTOR_HZ: Final = assumed(0.96e9, "no clock of NeuronCore-v1 is published: the slowest known")
EXTRAPOLATED_SPREAD: Final = assumed(
    0.30, "one sigma that is added, in squares, on chips without published rows"
)

GPU_MEMORY: Final = assumed(0.80, "part of a GPU's memory bandwidth that long reads reach")
