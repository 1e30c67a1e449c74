"""Measurements of a pilot beside predictions and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.decide.decision import WorkloadDecision


@dataclass(frozen=True)
class Log:
    """Figures of a run's log.

    Attributes:
        side: "today" or "there", the instances of the candidate.
        format: format of the log, one of `trnsim.calibrate.logs.FORMATS`.
        count: steps, requests or passes in the log.
        rate_per_s: tokens or items a second of all instances of the side.
        loss: loss at the end of the run; None without a loss, or if it is not a number.
    """

    path: str
    side: str
    format: str
    count: int
    rate_per_s: float
    loss: float | None = None


@dataclass(frozen=True)
class RateMeasurement:
    """A side's measured rate beside its prediction.

    Attributes:
        side: "today" or "there".
        predicted_per_s: tokens or items a second, at P50.
        measured_per_s: geometric mean of the rates in the side's logs.
        factor: measured time over predicted time.
        sigma: one sigma of the factor's logarithm, from the spread of the runs.
        old_error: P90 of the relative error of the prediction before the pilot.
        new_error: P90 of the relative error of the corrected prediction.
    """

    side: str
    instance: str
    predicted_per_s: float
    measured_per_s: float
    factor: float
    sigma: float
    old_error: float
    new_error: float


@dataclass(frozen=True)
class Check:
    """A threshold beside its measured figure.

    Attributes:
        limit: limit in `unit`.
        is_least: True if the figure must be at or above the limit, else at or below it.
        figure: measured figure in `unit`; None if it was not measured.
        is_met: True if the figure keeps the limit; None if it was not measured.
        note: remark, such as the reason for a missing figure.
    """

    name: str
    unit: str
    limit: float
    is_least: bool
    figure: float | None
    is_met: bool | None
    note: str = ""


@dataclass(frozen=True)
class PilotResult:
    """Result of a finished pilot.

    Attributes:
        today: measured rate of today's instances.
        there: measured rate of the candidate's instances.
        checks: thresholds beside their figures.
        renewed: decision about the workload with the measured factors.
    """

    logs: tuple[Log, ...]
    today: RateMeasurement
    there: RateMeasurement
    checks: tuple[Check, ...]
    renewed: WorkloadDecision

    @property
    def failed(self) -> tuple[Check, ...]:
        """Thresholds that were missed."""
        return tuple(check for check in self.checks if check.is_met is False)

    @property
    def unmeasured(self) -> tuple[Check, ...]:
        """Thresholds whose figures were not measured."""
        return tuple(check for check in self.checks if check.is_met is None)
