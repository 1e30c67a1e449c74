"""Measurements of a pilot beside predictions and thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.decide.decision import WorkloadDecision


@dataclass(frozen=True)
class Log:
    """A log of a run, as figures.

    Attributes:
        side: "today" or "there".
        count: steps, requests or passes in it.
        rate_per_s: tokens or items a second of the side.
        loss: loss at its end; None without a loss, or if it is not a number.
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
        predicted_per_s: tokens or items a second, at P50.
        measured_per_s: geometric mean of its logs.
        factor: measured time over predicted time.
        sigma: one sigma of the factor's logarithm: the error of the runs.
        old_error: P90 of the prediction's errors before the pilot.
        new_error: P90 of its errors after the pilot.
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
        figure: measured figure; None if it was not measured.
        is_met: True if the figure is legal; None if it was not measured.
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
        renewed: decision with the measured factors.
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
    def open(self) -> tuple[Check, ...]:
        """Thresholds whose figures were not measured."""
        return tuple(check for check in self.checks if check.is_met is None)
