"""Constants of collectives besides links: latencies, the host's start, and a rank's DMA engines.

Published times are those of docs/generated/accuracy-collectives.md, which a table of nccom-test.rst
left out of the fit judges too.

Source: aws-neuron-sdk, intranode-collective-comm.rst, internode-collective-comm.rst,
nccom-test.rst.
"""

from __future__ import annotations

from math import hypot
from typing import Final

from trnsim.arch import target_of_chip
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
    "generation; the middle of the rates of three tables (46, 57, 67 GB/s); for any number of "
    "ranks (aws-neuron-sdk, nccom-test.rst)",
)
_HOST_FIT: Final = (
    "least sum of absolute errors of logarithms over the least times of five tables of nccom-test "
    "(58 to 520 us), each table counting once; instances unnamed but for one "
    "(bench/collectives.py, docs/generated/accuracy-collectives.md)"
)
_HOST_FIRST_SPREAD: Final = 0.10
_HOST_LATER_SPREAD: Final = 0.86
HOST_STEP_S: Final = derived(3.207e-6, _HOST_FIT)
"""Seconds of the host's start for each step of a ring of all ranks."""
_HOST_BASE_S: Final = 51.6e-6
LEAST_CHUNK_BYTES: Final = assumed(
    512, "a ring's message is cut into chunks that DMA engines move efficiently, of 512 bytes"
)
LATENCIES: Final = Rate(
    1.0,
    Provenance(
        Evidence.ASSUMED,
        "latencies inside a program are known from whole models of the first generation, and from "
        "one table of an unnamed instance, whose three smallest messages are 0 to 19 % off",
        own_spread=0.35,
    ),
)
"""The factor of the latencies inside a program: 1, with its spread."""
BANDWIDTHS: Final = Rate(
    1.0,
    Provenance(
        Evidence.DERIVED,
        "slopes of three tables of the first generation, each left out, are within 20 % "
        "(docs/generated/accuracy-collectives.md)",
        own_spread=0.2,
    ),
)
"""The factor of the time of an exchange's bytes: 1, with its spread."""
UNMEASURED: Final = Rate(
    1.0,
    Provenance(
        Evidence.ASSUMED,
        "0.3 are added in squares where no slope was published of a named instance "
        "(docs/generated/accuracy-collectives.md)",
        own_spread=0.36,
    ),
)
"""The same on chips whose links are known from documents alone."""


def has_described_algorithms(chip: str) -> bool:
    """True if AWS describes more than a ring for a chip: its pages are about Trn2.

    Chips whose timing is fitted to published models are earlier ones.
    """
    target = target_of_chip(chip)
    return target is not None and not target.is_fitted


def hop_s(chip: str) -> Rate:
    """Latency of a transfer inside an instance, in seconds."""
    return _HOP_S if has_described_algorithms(chip) else _NO_HOP_S


def start_s(chip: str) -> Rate:
    """Seconds before the first transfer of a collective."""
    if not has_described_algorithms(chip):
        return _START_FIRST_S
    target = target_of_chip(chip)
    return assumed(_START_S, "as on Trn2") if target and target.link_doubt else _START_S


def host_base_s(chip: str, nodes: int = 1) -> Rate:
    """Seconds that the host takes at least to start a collective as a program of its own.

    Its spread is that of the whole start: of tables of the first generation, which agree, or of
    others, which are a factor of 2 to 3 away in either direction. Over several instances the
    spread of an assumption is added in squares: only one table has them.
    """
    is_first = not has_described_algorithms(chip) and target_of_chip(chip) is not None
    spread = _HOST_FIRST_SPREAD if is_first else _HOST_LATER_SPREAD
    if nodes > 1:
        spread = hypot(spread, Evidence.ASSUMED.spread)
    return derived(_HOST_BASE_S, _HOST_FIT, spread)


def bandwidths(chip: str) -> Rate:
    """The factor of the time of bytes on a chip: 1, with its spread."""
    return UNMEASURED if has_described_algorithms(chip) else BANDWIDTHS


def rank_bytes_per_s(chip: str, cores: int, fallback: Rate) -> Rate:
    """Bytes per second that the DMA engines of a rank of `cores` cores pass on.

    On the first generation this is measured, a fifth of the engines' rate of copies. For later
    ones no large message is published, so the engines' own rate is taken. `fallback` is for chips
    without a model of their cores.
    """
    target = target_of_chip(chip)
    if target is None:
        return Rate(fallback, Provenance(Evidence.ASSUMED, "as its memory"))
    if target.is_fitted:
        return _PASSED_ON
    alone, paired = target.core.dma_bytes_per_s, target.core.dma_paired_bytes_per_s
    rate = paired if cores > 1 else alone
    return Rate(cores * rate, rate.provenance)
