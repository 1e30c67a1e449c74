"""Constants of collectives besides links: latencies, and the rate of one rank's DMA engines.

Source: aws-neuron-sdk, intranode-collective-comm.rst, internode-collective-comm.rst,
nccom-test.rst.
"""

from __future__ import annotations

from typing import Final

from trnsim.arch import TARGETS, Target
from trnsim.facts import Evidence, Provenance, Rate, assumed, derived, documented, measured

EFA_HOP_S: Final = documented(
    15e-6, "about 15 us per hop (aws-neuron-sdk, internode-collective-comm.rst)"
)
_HOP_S: Final = documented(
    1.5e-6, "middle of 1-2 us per hop (aws-neuron-sdk, intranode-collective-comm.rst)"
)
_NO_HOP_S: Final = derived(0.0, "hops are part of the latency of a whole collective")
_START_FIRST_S: Final = derived(
    37e-6,
    "latency of a small all-reduce inside an instance, fitted to 56 published Trn1 and Inf2 decode "
    "rows, 5.7 % error (docs/generated/accuracy-models.md)",
)
_START_S: Final = derived(
    6.16e-6 - 2 * _HOP_S,
    "32-rank all-gather of 1 KiB in 6.16 us, instance unnamed (aws-neuron-sdk, nccom-test.rst), "
    "less the two hops of a mesh",
)
_PASSED_ON: Final = measured(
    (1 << 30) / 18_930e-6,
    "1 GiB all-reduced by two ranks in 18,930 us, taken to be the two cores of a chip of the first "
    "generation; for any number of ranks (aws-neuron-sdk, nccom-test.rst)",
)


def has_described_algorithms(chip: str) -> bool:
    """True if AWS describes more than a ring for a chip: its pages are about Trn2.

    Chips whose timing is fitted to published models are earlier ones.
    """
    target = _target(chip)
    return target is not None and not target.is_fitted


def hop_s(chip: str) -> Rate:
    """Latency of a transfer inside an instance, in seconds."""
    return _HOP_S if has_described_algorithms(chip) else _NO_HOP_S


def start_s(chip: str) -> Rate:
    """Seconds before the first transfer of a collective."""
    if not has_described_algorithms(chip):
        return _START_FIRST_S
    target = _target(chip)
    return assumed(_START_S, "as on Trn2") if target and target.link_doubt else _START_S


def rank_bytes_per_s(chip: str, cores: int, fallback: Rate) -> Rate:
    """Bytes per second that the DMA engines of a rank of `cores` cores pass on.

    On the first generation this is measured, a fifth of the engines' rate of copies. For later
    ones no large message is published, so the engines' own rate is taken. `fallback` is for chips
    without a model of their cores.
    """
    target = _target(chip)
    if target is None:
        return Rate(fallback, Provenance(Evidence.ASSUMED, "as its memory"))
    if target.is_fitted:
        return _PASSED_ON
    alone, paired = target.core.dma_bytes_per_s, target.core.dma_paired_bytes_per_s
    rate = paired if cores > 1 else alone
    return Rate(cores * rate, rate.provenance)


def _target(chip: str) -> Target | None:
    return next((target for target in TARGETS.values() if target.chip == chip), None)
