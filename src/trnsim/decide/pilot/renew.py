"""Result of a pilot: factors, thresholds, and the decision renewed by the measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.calibrate.logs.measured import Load
from trnsim.decide import inventory
from trnsim.decide.assess import AssessmentOptions, Scan, decide
from trnsim.decide.decision import Decision, Verdict, WorkloadDecision
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.pilot.checks import Check, PilotResult, RateMeasurement
from trnsim.decide.pilot.measure import Logs
from trnsim.decide.pilot.plan import Pilot
from trnsim.decide.pilot.refit import P90_ERROR_SIGMAS, Factor, PilotPredictor
from trnsim.decide.pilot.sides import SIDES, THERE, TODAY
from trnsim.decide.pilot.thresholds import (
    BREAK_EVEN,
    FAILURES,
    LOGITS,
    LOSS,
    SLOWEST,
    USD,
    Threshold,
    loss_band,
)
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput
from trnsim.facts import P90_SIGMAS

LEAST_RUNS: Final = 3
"""Logs of today that are needed to measure the noise of its loss."""


def measurement(pilot: Pilot, logs: Logs, side: str) -> RateMeasurement:
    """Measured rate of a side beside its prediction."""
    predicted_side = pilot.sides[side]
    sigma = logs.sigmas[side]
    old_sigma = math.log(predicted_side.rate_per_s.p90 / predicted_side.rate_per_s.p50) / P90_SIGMAS
    return RateMeasurement(
        side=side,
        instance=predicted_side.instance,
        predicted_per_s=predicted_side.rate_per_s.p50,
        measured_per_s=logs.rates[side],
        factor=predicted_side.rate_per_s.p50 / logs.rates[side],
        sigma=sigma,
        old_error=P90_ERROR_SIGMAS * old_sigma,
        new_error=P90_ERROR_SIGMAS * sigma,
    )


def result(
    pilot: Pilot,
    folder: Path,
    logs: Logs,
    *,
    rows: Catalogue | None = None,
    predictor: Predictor | None = None,
    scan: Scan | None = None,
) -> PilotResult:
    """Result of `pilot`, which lies in `folder`, from its logs.

    Raises:
        BadInput: the inventory can no longer be used.
    """
    measurements = {side: measurement(pilot, logs, side) for side in SIDES}
    checks = [_check(threshold, pilot, logs, measurements) for threshold in pilot.thresholds]
    rows = rows or catalogue()
    workloads = inventory.read(folder / pilot.inventory, rows)
    workload = next((entry for entry in workloads if entry.name == pilot.workload), None)
    if workload is None:
        raise BadInput(f"{pilot.inventory} has no workload {pilot.workload!r} any more")
    factors = instance_factors(measurements, checks)
    renewed_decision = workload_decision(
        pilot, workload, factors, rows, predictor or Predictor(rows), scan
    )
    there = renewed_decision.candidate(pilot.there.instance)
    usd = None if there is None or there.usd_per_month is None else there.usd_per_month.p50
    reason = None if there is None else there.no_price
    note = "" if usd is not None else reason or "no price of today's kind"
    checks = [_with_figure(check, usd, note) if check.name == USD else check for check in checks]
    return PilotResult(
        logs.logs,
        measurements[TODAY],
        measurements[THERE],
        tuple(checks),
        _held_back(renewed_decision, [check for check in checks if check.is_met is False]),
    )


def instance_factors(
    measurements: dict[str, RateMeasurement], checks: list[Check]
) -> dict[str, Factor]:
    """Factor of each instance type; the candidate's also has whether its latency SLO was met."""
    latency_results = [
        check.is_met
        for check in checks
        if check.is_met is not None and check.name.startswith(("TTFT", "TPOT", "latency"))
    ]
    is_met = all(latency_results) if latency_results else None
    return {
        outcome.instance: Factor(outcome.factor, outcome.sigma, is_met if side == THERE else None)
        for side, outcome in measurements.items()
    }


def workload_decision(
    pilot: Pilot,
    workload: Workload,
    factors: dict[str, Factor],
    rows: Catalogue,
    predictor: Predictor,
    scan: Scan | None = None,
) -> WorkloadDecision:
    """Decision about the pilot's workload with measured factors, among the same candidates."""
    old_decision: Decision = pilot.decision
    options = AssessmentOptions(
        kind=old_decision.kind,
        as_of=date.fromisoformat(old_decision.as_of),
        seed=old_decision.seed,
        draws=old_decision.draws,
        is_mixed=pilot.is_mixed,
    )
    names = [option.instance for option in pilot.workload_decision.candidates]
    places = options.placements(PilotPredictor(predictor, workload.name, factors), rows)
    findings = None if scan is None else scan(workload)
    return decide(workload, names, places, options, findings)


def _held_back(decision: WorkloadDecision, failed_checks: list[Check]) -> WorkloadDecision:
    """The decision, but "pilot" in place of "go" if losses or logits missed their thresholds."""
    missed_names = [check.name for check in failed_checks if check.name in (LOSS, LOGITS)]
    if decision.verdict is not Verdict.GO or not missed_names:
        return decision
    reason = f"{' and '.join(missed_names)} left the band, and why must be known first"
    return replace(decision, verdict=Verdict.PILOT, reason=f"{reason}; {decision.reason}")


def _check(
    threshold: Threshold, pilot: Pilot, logs: Logs, measurements: dict[str, RateMeasurement]
) -> Check:
    """Check of a threshold by its measured figure; USD a month is not known yet."""
    if threshold.name == LOSS:
        return _loss_check(threshold, pilot, logs)
    per_instance = {
        side: measurements[side].measured_per_s / pilot.sides[side].instances for side in SIDES
    }
    figures: dict[str, Callable[[], float | None]] = {
        LOGITS: lambda: logs.logits,
        SLOWEST: lambda: per_instance[THERE],
        BREAK_EVEN: lambda: per_instance[THERE] / per_instance[TODAY],
        FAILURES: lambda: _failures(logs),
        USD: lambda: None,
    }
    figure = figures.get(threshold.name, lambda: _latency(threshold.name, logs))()
    return _with_figure(
        _unmeasured_check(threshold), figure, "" if figure is not None else "not measured"
    )


def _unmeasured_check(threshold: Threshold) -> Check:
    return Check(
        threshold.name,
        threshold.unit,
        threshold.limit,
        threshold.is_least,
        figure=None,
        is_met=None,
    )


def _with_figure(check: Check, figure: float | None, note: str = "") -> Check:
    if figure is None:
        return replace(check, figure=None, is_met=None, note=note)
    is_met = figure >= check.limit if check.is_least else figure <= check.limit
    is_number = math.isfinite(figure)
    return replace(check, figure=figure if is_number else None, is_met=is_met, note=note)


def _loss_check(threshold: Threshold, pilot: Pilot, logs: Logs) -> Check:
    """Check of the losses at the end of the runs; a loss that is not a number fails it."""
    today, there = (
        [loss for loss in logs.losses(side) if loss is not None] for side in (TODAY, THERE)
    )
    check = _unmeasured_check(threshold)
    if None in (*logs.losses(TODAY), *logs.losses(THERE)):
        return replace(check, is_met=False, note="a loss is no number")
    mean, note = abs(fmean(today)), ""
    if not mean:
        return _with_figure(check, math.nan, "today's loss is 0 on average")
    if len(today) >= LEAST_RUNS:
        noise = stdev(today) / mean
        check = replace(check, limit=loss_band(pilot.run.dtype, noise))
        note = f"noise {noise:.2g} of {len(today)} runs of today"
    return _with_figure(check, abs(fmean(there) - fmean(today)) / mean, note)


def _latency(name: str, logs: Logs) -> float | None:
    """Largest latency in seconds over the candidate's logs, at a threshold's percentile.

    Args:
        name: name of the threshold, such as "TTFT P99".
        logs: figures from the logs.
    """
    metric, _, rank = name.partition(" P")
    if not rank.isdecimal():  # the name of no threshold of trnsim
        return None
    latencies = [
        (log.run.tpot_s if metric == "TPOT" else log.run.ttft_s).get(int(rank))
        for log in logs.runs[THERE]
        if isinstance(log.run, Load)
    ]
    values = [latency for latency in latencies if latency is not None]
    return max(values) if values and len(values) == len(latencies) else None


def _failures(logs: Logs) -> float | None:
    """Largest share of failed requests over the candidate's load tests; None without one."""
    loads = [log.run for log in logs.runs[THERE] if isinstance(log.run, Load)]
    return max((load.failed / (load.failed + load.requests) for load in loads), default=None)
