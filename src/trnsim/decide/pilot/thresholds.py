"""Thresholds that a pilot must meet before a move, fixed before it runs.

    logits      largest difference / largest logit       <=  u sqrt(2 layers)
    loss        relative difference at the end           <=  u + 3 sqrt(2) noise
    throughput  of an instance there                     >=  P10 of the prediction
    throughput  of an instance there / of one of today   >=  predicted quotient x ratio / budget
    USD         a month there                            <=  today's bill x budget

    budget = 1 - migration / (payback limit x today's bill), ratio = cost there / cost today

There is the candidate's side. u is half the distance from 1 to the next number of the dtype. Every
layer adds to the residual stream twice, and independent roundings add in squares. The noise is the
spread of the last losses over today's own runs, or a default if there are too few runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.decide.pilot.sides import PilotRun, PilotSides, Side
from trnsim.dtypes.formats import BFLOAT16, FLOAT8_E4M3, FLOAT16, FLOAT32
from trnsim.facts import assumed
from trnsim.system.serve.demand import Slo

NOISE: Final = assumed(
    0.003, "relative spread of the last loss over runs that differ in nothing but machines"
)
SIGMAS: Final = 3
"""Standard deviations that a difference by mere chance rarely exceeds."""
FAILED: Final = assumed(0.01, "part of requests that may fail")
_MANTISSA_BITS: Final = {
    "fp32": FLOAT32.mantissa_bits,
    "fp16": FLOAT16.mantissa_bits,
    "bf16": BFLOAT16.mantissa_bits,
    "fp8": FLOAT8_E4M3.mantissa_bits,
}
DTYPES: Final = tuple(_MANTISSA_BITS)
"""Dtypes of matrix products whose thresholds are known."""
LOSS, LOGITS, SLOWEST, BREAK_EVEN, USD, FAILURES = (
    "loss",
    "logits",
    "throughput P10",
    "throughput break-even",
    "USD a month",
    "failed requests",
)
"""Names of thresholds; names of latencies end in their percentile, such as "TTFT P99"."""


@dataclass(frozen=True)
class Threshold:
    """A threshold of one figure.

    Attributes:
        limit: limit in `unit`.
        is_least: True if the figure must be at or above the limit, else at or below it.
        source: ground of the limit, in words.
    """

    name: str
    unit: str
    limit: float
    is_least: bool
    source: str


@dataclass(frozen=True)
class Money:
    """Figures from which thresholds in USD follow.

    Attributes:
        bill: today's bill in USD a month.
        limit_months: months within which the move must pay back.
        ratio: predicted cost of the candidate / predicted cost of today's instance.
    """

    bill: float
    migration_usd: float
    limit_months: float
    ratio: float

    @property
    def budget(self) -> float:
        """Share of the bill that the candidate may cost; at most 0 if the move never pays back."""
        return 1 - self.migration_usd / (self.limit_months * self.bill)


def unit_roundoff(dtype: str) -> float:
    """Half the distance from 1 to the next number of a dtype."""
    return 2.0 ** -(_MANTISSA_BITS[dtype] + 1)


def loss_band(dtype: str, noise: float) -> float:
    """Largest relative difference of two losses that the dtype and chance explain.

    Args:
        dtype: dtype of matrix products.
        noise: relative spread of the last loss between equal runs.
    """
    return unit_roundoff(dtype) + SIGMAS * math.sqrt(2) * noise


def thresholds(runs: PilotSides, money: Money, slo: Slo) -> tuple[Threshold, ...]:
    """All thresholds of a pilot."""
    return (*_correctness(runs.run), *_speed(runs, money), *_promises(runs.run, slo))


def _correctness(run: PilotRun) -> list[Threshold]:
    limit = unit_roundoff(run.dtype) * math.sqrt(2 * run.depth)
    source = f"{run.dtype}, {run.depth} layers"
    limits = [Threshold(LOGITS, "of the largest", limit, is_least=False, source=source)]
    if run.kind == "train":
        band = loss_band(run.dtype, float(NOISE))
        source = f"{run.dtype}, noise {float(NOISE):g} assumed unless today has several logs"
        limits.insert(0, Threshold(LOSS, "relative", band, is_least=False, source=source))
    return limits


def _speed(runs: PilotSides, money: Money) -> list[Threshold]:
    there, today, unit = runs.there, runs.today, f"{runs.run.unit}/s"
    slowest_per_s = there.rate_per_s.p10 / there.instances
    source = "P10 of the prediction, an instance"
    limits = [Threshold(SLOWEST, unit, slowest_per_s, is_least=True, source=source)]
    break_even_ratio = break_even(today, there, money)
    if break_even_ratio is not None:
        source = "an instance there over one of today's, from which it pays back in time"
        limits.append(
            Threshold(BREAK_EVEN, "there / today", break_even_ratio, is_least=True, source=source)
        )
    if money.budget > 0:
        source = f"today's bill less the move's cost over {money.limit_months:.0f} months"
        usd = money.budget * money.bill
        limits.append(Threshold(USD, "USD a month", usd, is_least=False, source=source))
    return limits


def break_even(today: Side, there: Side, money: Money) -> float | None:
    """Rate of an instance there over one of today at which the move just pays back; None: never.

    `money.ratio` is of paid hours: where groups are on all month, it includes their idle time.
    """
    if money.budget <= 0:
        return None
    predicted_ratio = (
        there.rate_per_s.p50 / there.instances / (today.rate_per_s.p50 / today.instances)
    )
    return predicted_ratio * money.ratio / money.budget


def _promises(run: PilotRun, slo: Slo) -> list[Threshold]:
    """Thresholds of the latency SLO and of failed requests; none for training."""
    limits_by_kind: dict[str, dict[str, float | None]] = {
        "serve": {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s},
        "infer": {"latency": slo.latency_s},
    }
    rank, source = slo.reported_percentile, "the inventory's promise"
    promises = [
        Threshold(f"{name} P{rank}", "s", limit, is_least=False, source=source)
        for name, limit in limits_by_kind.get(run.kind, {}).items()
        if limit is not None
    ]
    if run.kind != "train":
        source = FAILED.provenance.source
        promises.append(Threshold(FAILURES, "of all", float(FAILED), is_least=False, source=source))
    return promises
