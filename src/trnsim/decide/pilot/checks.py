"""What a pilot measured, beside what was predicted and what it had to show."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.decide.decision import WorkloadDecision


@dataclass(frozen=True)
class Log:
    """A log that was read.

    Attributes:
        side: "today" or "there".
        count: steps, requests or passes in it.
        rate_per_s: tokens or items of the side.
        loss: at its end; None without one, or where it is no number.
    """

    path: str
    side: str
    format: str
    count: int
    rate_per_s: float
    loss: float | None = None


@dataclass(frozen=True)
class Measurement:
    """A side.

    Attributes:
        predicted_per_s: tokens or items, at P50.
        measured_per_s: the geometric mean of its logs.
        factor: measured time over predicted time.
        sigma: one sigma of the factor's logarithm: the error of the runs.
        old_error: P90 of the prediction's errors before.
        new_error: P90 of them now.
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
    """A threshold beside what was measured.

    Attributes:
        figure: None where nothing was measured.
        is_met: None where nothing was measured.
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
    """A pilot that ran.

    Attributes:
        renewed: the decision with the factors that were measured.
    """

    logs: tuple[Log, ...]
    today: Measurement
    there: Measurement
    checks: tuple[Check, ...]
    renewed: WorkloadDecision

    @property
    def failed(self) -> tuple[Check, ...]:
        """Thresholds that were not met."""
        return tuple(check for check in self.checks if check.is_met is False)

    @property
    def open(self) -> tuple[Check, ...]:
        """Thresholds about which nothing was measured."""
        return tuple(check for check in self.checks if check.is_met is None)
