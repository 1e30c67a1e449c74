"""Ideal conditions for Inferentia: volume, latency, architecture, and two sizes of the bill."""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence

LEAST_USD_PER_MONTH: Final = 10_000
"""USD a month below which engineering costs more than is saved."""
LARGE_USD_PER_MONTH: Final = 100_000
"""USD a month above which a saving of 40 to 50 % is much money."""
HIGH_VOLUME_PER_MONTH: Final = 1e8
"""Items or tokens a month (40 a second) above which volume is high; the source names no number."""
TOLERANT_S: Final = 0.5
"""Minimum latency limit in seconds of a tolerant workload; the source names no number."""
STANDARD_FAMILIES: Final = ("encoders and ViT", "CLIP", "TPOT", "TTFT")
"""Families of published times to which BERT, GPT and vision models belong."""
_GROUP: Final = "inferentia"


def inferentia(evidence: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Rulings for inference; none for training."""
    if evidence.workload.kind == "train":
        return ()
    return (
        _volume(evidence),
        _latency(evidence),
        _architecture(evidence),
        _least_bill(evidence),
        _large_bill(evidence),
    )


def _volume(evidence: WorkloadEvidence) -> Ruling:
    name, workload = "high volume", evidence.workload
    if workload.volume_unit == "gpu_hours":
        return Ruling(
            name, _GROUP, None, "none", f"{workload.volume:,.0f} accelerator-hours a month"
        )
    applies = workload.volume >= HIGH_VOLUME_PER_MONTH
    unit = workload.volume_unit.partition("_")[0]
    text = f"{workload.volume:,.0f} {unit} a month, high from {HIGH_VOLUME_PER_MONTH:,.0f}"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _latency(evidence: WorkloadEvidence) -> Ruling:
    name, all_limits = "latency-tolerant batch", evidence.workload.limits
    limits = [limit for field, limit in all_limits.items() if field != "deadline_hours"]
    if not limits:
        return Ruling(name, _GROUP, True, "for a move", "no latency is promised")
    applies = min(limits) >= TOLERANT_S
    text = f"{min(limits):g} s promised, tolerant from {TOLERANT_S:g}"
    effect = "for a move" if applies else "larger batches are ruled out"
    return Ruling(name, _GROUP, applies, effect, text)


def _architecture(evidence: WorkloadEvidence) -> Ruling:
    name, best = "standard architecture", evidence.best
    if best is None:
        return Ruling(name, _GROUP, None, "none", "no instance with AWS's chips")
    applies = best.family in STANDARD_FAMILIES
    text = f"{evidence.workload.model.name}: plans of {best.family}"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _least_bill(evidence: WorkloadEvidence) -> Ruling:
    usd = evidence.workload.current.usd_per_month
    applies = usd >= LEAST_USD_PER_MONTH
    effect = "for a move" if applies else "against: engineering costs more than is saved"
    return Ruling("10,000 USD a month", _GROUP, applies, effect, f"{usd:,.0f} USD a month")


def _large_bill(evidence: WorkloadEvidence) -> Ruling:
    usd = evidence.workload.current.usd_per_month
    applies = usd >= LARGE_USD_PER_MONTH
    return Ruling(
        "100,000 USD a month",
        _GROUP,
        applies,
        "for a move: much money" if applies else "none",
        f"{usd:,.0f} USD a month",
    )
