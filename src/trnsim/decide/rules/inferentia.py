"""Ideal conditions for Inferentia: volume, latency, architecture, and two sums a month."""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence

LEAST_USD: Final = 10_000
"""USD a month below which engineering costs more than is saved."""
LARGE_USD: Final = 100_000
"""USD a month above which 40 to 50 % saved is much money."""
HIGH_VOLUME: Final = 1e8
"""Items a month above which volume is high, 40 a second; the source names no number."""
TOLERANT_S: Final = 0.5
"""Seconds above which a latency limit is tolerant; the source names no number."""
FAMILIES: Final = ("encoders and ViT", "CLIP", "TPOT", "TTFT")
"""BERT, GPT and vision models, by the family that their plans are judged by."""
_GROUP: Final = "inferentia"


def inferentia(facts: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Rules for inference; none for training."""
    if facts.workload.kind == "train":
        return ()
    return _volume(facts), _latency(facts), _standard(facts), _least(facts), _large(facts)


def _volume(facts: WorkloadEvidence) -> Ruling:
    name, work = "high volume", facts.workload
    if work.volume_unit == "gpu_hours":
        return Ruling(name, _GROUP, None, "none", f"{work.volume:,.0f} hours of GPUs a month")
    applies = work.volume >= HIGH_VOLUME
    unit = work.volume_unit.partition("_")[0]
    text = f"{work.volume:,.0f} {unit} a month, high from {HIGH_VOLUME:,.0f}"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _latency(facts: WorkloadEvidence) -> Ruling:
    name, slo = "latency-tolerant batch", facts.workload.slo
    limits = [limit for limit in (slo.ttft_s, slo.tpot_s, slo.latency_s) if limit is not None]
    if not limits:
        return Ruling(name, _GROUP, True, "for a move", "no latency is promised")
    applies = min(limits) >= TOLERANT_S
    text = f"{min(limits):g} s promised, tolerant from {TOLERANT_S:g}"
    effect = "for a move" if applies else "larger batches are ruled out"
    return Ruling(name, _GROUP, applies, effect, text)


def _standard(facts: WorkloadEvidence) -> Ruling:
    name, best = "standard architecture", facts.best
    if best is None:
        return Ruling(name, _GROUP, None, "none", "no instance with AWS's chips")
    applies = best.family in FAMILIES
    text = f"{facts.workload.model.name}: plans of {best.family}"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _least(facts: WorkloadEvidence) -> Ruling:
    usd = facts.workload.current.usd_per_month
    applies = usd >= LEAST_USD
    effect = "for a move" if applies else "against: engineering costs more than is saved"
    return Ruling("10,000 USD a month", _GROUP, applies, effect, f"{usd:,.0f} USD a month")


def _large(facts: WorkloadEvidence) -> Ruling:
    usd = facts.workload.current.usd_per_month
    applies = usd >= LARGE_USD
    return Ruling(
        "100,000 USD a month",
        _GROUP,
        applies,
        "for a move: much money" if applies else "none",
        f"{usd:,.0f} USD a month",
    )
