"""Predictions after a pilot: corrected by its measured factors, on all instances.

    factor = measured time / predicted time, of one workload on one instance

The error of a prediction has causes (`Speed.sigmas`), each an independent standard normal z:
``log factor = sum of sigma z``. The two measured factors give each z a posterior mean and variance
(a Gaussian update). Other instances have some of the causes too: a GPU that is slower than
predicted makes slower GPUs likelier. A measured speed keeps only the error of its runs.

The update is that of `trnsim.calibrate.shrinkage`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trnsim.calibrate.shrinkage import shrink
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times import Predictor, Speed, SpeedAnswer

FAMILY: Final = "the pilot's measurement"
"""Family of a measured speed, in place of a family of published times."""
_MEDIAN_ERROR_SIGMAS: Final = 0.6744897501960817
P90_ERROR_SIGMAS: Final = 1.6448536269514722
"""Median and P90 of the absolute value of a standard normal error."""


@dataclass(frozen=True)
class Factor:
    """Measured over predicted time on one instance.

    Attributes:
        value: measured time over predicted time.
        sigma: one sigma of the logarithm of `value`: the error of the runs.
        is_met: True if the latency SLO was met; None if that was not measured.
    """

    value: float
    sigma: float
    is_met: bool | None = None


class PilotPredictor(Predictor):
    """Predictor that corrects the speeds of a pilot's workload; other workloads are unchanged.

    Args:
        base: predictor of the speeds before correction.
        workload: name of the pilot's workload.
        factors: measured factors, by instance type.
    """

    def __init__(self, base: Predictor, workload: str, factors: Mapping[str, Factor]) -> None:
        super().__init__()
        self._base = base
        self._name = workload
        self._factors = factors
        self._update: _Update | None = None

    def speed(
        self, workload: Workload, name: str, instances: int = 1, *, is_brief: bool = False
    ) -> SpeedAnswer:
        """The speed of `workload` on the type `name`, with at least `instances` of it."""
        answer = self._base.speed(workload, name, instances, is_brief=is_brief)
        if workload.name != self._name or answer.speed is None:
            return answer
        if name in self._factors:
            return SpeedAnswer(_measured_speed(answer.speed, name, self._factors[name]))
        if self._update is None:
            self._update = self._updated_causes(workload)
        return SpeedAnswer(self._update.updated_speed(answer.speed))

    def _updated_causes(self, workload: Workload) -> _Update:
        speeds = {name: self._base.speed(workload, name).speed for name in self._factors}
        return update(
            [
                (speed.sigmas, self._factors[name])
                for name, speed in speeds.items()
                if speed is not None
            ]
        )


def _measured_speed(speed: Speed, name: str, factor: Factor) -> Speed:
    """A speed with its measured factor, whose only uncertainty is the error of the runs."""
    slower_speed = _scaled_speed(speed, factor.value)
    error = {"median": _MEDIAN_ERROR_SIGMAS * factor.sigma, "p90": P90_ERROR_SIGMAS * factor.sigma}
    return replace(
        slower_speed,
        sigmas={f"pilot on {name}": factor.sigma} if factor.sigma else {},
        family=FAMILY,
        is_validated=True,
        error=error,
        is_met=speed.is_met if factor.is_met is None else factor.is_met,
    )


def _scaled_speed(speed: Speed, factor: float) -> Speed:
    """A speed whose times are `factor` x as long."""
    return replace(
        speed,
        units_per_s=speed.units_per_s / factor,
        ms={cause: factor * ms for cause, ms in speed.ms.items()},
    )


@dataclass(frozen=True)
class _Update:
    """Causes after an update; a cause that is missing keeps mean 0 and variance 1.

    Attributes:
        z: posterior mean of each cause's z.
        variance: posterior variance of each cause's z.
    """

    z: dict[str, float]
    variance: dict[str, float]

    def updated_speed(self, speed: Speed) -> Speed:
        """A speed that was not measured, corrected by the updated causes of its error."""
        shift = sum(sigma * self.z.get(cause, 0.0) for cause, sigma in speed.sigmas.items())
        sigmas = {
            cause: sigma * math.sqrt(self.variance.get(cause, 1.0))
            for cause, sigma in speed.sigmas.items()
        }
        return replace(_scaled_speed(speed, math.exp(shift)), sigmas=sigmas)


def update(runs: list[tuple[Mapping[str, float], Factor]]) -> _Update:
    """Gaussian update of the causes by measured factors, as in `trnsim calibrate`.

    It is a linear model of the factors' logarithms, whose design matrix has the sigmas of each
    run's causes. Only the diagonal of the posterior covariance is kept.

    Args:
        runs: for each measured instance, its sigmas by cause and its factor.
    """
    causes = list(dict.fromkeys(cause for sigmas, _ in runs for cause in sigmas))
    if not causes:
        return _Update({}, {})
    design = np.array([[sigmas.get(cause, 0.0) for cause in causes] for sigmas, _ in runs])
    logs = np.array([math.log(factor.value) for _, factor in runs])
    errors = np.array([factor.sigma**2 for _, factor in runs])
    posterior = shrink(design, logs, errors, np.ones(len(causes)))
    variance = np.clip(np.diag(posterior.covariance), 0.0, 1.0)
    return _Update(
        dict(zip(causes, posterior.mean.tolist(), strict=True)),
        dict(zip(causes, variance.tolist(), strict=True)),
    )
