"""The partially pooled model of measured over estimated times.

    measured = (fixed + sum over causes of (exp(effects of the cause) x seconds)) x exp(error)
    effects of a cause = site + chip + family + group + cause in family + cause on chip

A group is a family on a chip. Each effect is normal around 0; the variance of a level and that of
the error are found by expectation maximisation, with a few rows' worth of prior, and the effects by
Newton steps of normal shrinkage (`trnsim.calibrate.shrinkage`). So a group with many rows follows
them, one with few is drawn towards its chip and its family, and one without rows has theirs.

Sources: Gelman and Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models, 2007,
chapter 12 (partial pooling); Lange, Little and Taylor, Robust Statistical Modeling Using the t
Distribution, JASA 84, 1989 (weights of rows while outliers are looked for).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from trnsim.calibrate.row import CauseTime, Row
from trnsim.calibrate.shrinkage import Array, Posterior, shrink
from trnsim.facts import Rate, assumed

Level = Literal["site", "chip", "family", "group", "cause", "chip cause"]
Effect = tuple[Level, str, str]
"""The level of an effect, and the one or two names that identify it there."""

_WHY: Final = "no source: wide enough that 20 rows decide, and narrow enough that one does not"
PRIOR_SIGMAS: Final[Mapping[Level, Rate]] = {
    "site": assumed(0.10, _WHY),
    "chip": assumed(0.25, _WHY),
    "family": assumed(0.25, _WHY),
    "group": assumed(0.10, _WHY),
    "cause": assumed(0.20, _WHY),
    "chip cause": assumed(0.05, _WHY),
}
"""One sigma of an effect of each level before the rows."""
PRIOR_ERROR: Final = assumed(0.05, "a run and its repetition on another day; no source")
"""One sigma of a row's error before the rows."""
PRIOR_WEIGHT: Final = 3.0
"""The prior of a level weighs as much as this many effects; that of the error as one row."""
_MAX_NEWTON_STEPS: Final = 60
_STEP_TOLERANCE: Final = 1e-5
"""Largest change of an effect in a step at which the fit ends."""
_FREEDOM: Final = 4.0
"""Degrees of freedom of the t distribution of rows while outliers are looked for."""
_HALVINGS: Final = 12
"""Maximum number of halvings of a Newton step that leads uphill."""
MOST_SIGMA: Final = assumed(0.6, "two sigmas are a factor of 3: more is a unit, or another machine")
"""Largest sigma of a level."""


@dataclass(frozen=True)
class Fit:
    """Effects of all levels, with their covariance.

    Attributes:
        effects: the effects that have rows, in the order of the posterior.
        posterior: their means and covariance.
        sigmas: one sigma of the effects of each level.
        error: one sigma of a row's error.
        group_rows: rows behind it, by chip and family.
    """

    effects: tuple[Effect, ...]
    posterior: Posterior
    sigmas: Mapping[Level, float]
    error: float
    group_rows: Mapping[tuple[str, str], int]

    @property
    def rows(self) -> int:
        """All rows behind it."""
        return sum(self.group_rows.values())

    @cached_property
    def _places(self) -> dict[Effect, int]:
        return {effect: place for place, effect in enumerate(self.effects)}

    def log_factor(self, chip: str, family: str, cause: str) -> float:
        """The logarithm of the factor on the seconds of a cause."""
        mean = self.posterior.mean
        places = self._places
        return float(
            sum(
                mean[places[effect]]
                for effect in effects_of(chip, family, cause)
                if effect in places
            )
        )

    def predicted_s(self, row: Row) -> float:
        """Corrected seconds of a row."""
        return row.fixed_s + sum(
            math.exp(self.log_factor(row.chip, part.family, part.cause)) * part.time_s
            for part in row.parts
        )

    def residual(self, row: Row) -> float:
        """The logarithm of measured over corrected seconds."""
        return math.log(row.measured_s / self.predicted_s(row))

    def sigma(self, row: Row) -> float:
        """One sigma of the logarithm of (measured / corrected) of another row like this one."""
        shares: dict[Effect, float] = {}
        total_s = self.predicted_s(row)
        for part in row.parts:
            factor = math.exp(self.log_factor(row.chip, part.family, part.cause))
            for effect in effects_of(row.chip, part.family, part.cause):
                shares[effect] = shares.get(effect, 0.0) + factor * part.time_s / total_s
        gradient = np.zeros(len(self.effects))
        unseen = 0.0
        for effect, share in shares.items():
            if effect in self._places:
                gradient[self._places[effect]] = share
            else:
                unseen += (share * self.sigmas[effect[0]]) ** 2
        fitted_variance = float(gradient @ self.posterior.covariance @ gradient)
        return math.sqrt(fitted_variance + unseen + self.error**2)


def effects_of(chip: str, family: str, cause: str) -> tuple[Effect, ...]:
    """The effects that the factor of a cause has; without a cause, those of its group."""
    common: tuple[Effect, ...] = (
        ("site", "", ""),
        ("chip", chip, ""),
        ("family", family, ""),
        ("group", chip, family),
    )
    if not cause:
        return common
    return (*common, ("cause", family, cause), ("chip cause", chip, cause))


class _Design:
    """Rows as arrays: the seconds of each cause, and the effects of each."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.measured_logs = np.log([row.measured_s for row in rows])
        self.error_variances = np.array([row.sigma for row in rows]) ** 2
        self._fixed = np.array([row.fixed_s for row in rows])
        kinds: dict[tuple[str, str, str], int] = {}
        for row in rows:
            for part in row.parts:
                kinds.setdefault((row.chip, part.family, part.cause), len(kinds))
        self._seconds = np.zeros((len(rows), len(kinds)))
        for index, row in enumerate(rows):
            for part in row.parts:
                self._seconds[index, kinds[row.chip, part.family, part.cause]] += part.time_s
        self.effects = tuple(
            dict.fromkeys(effect for kind in kinds for effect in effects_of(*kind))
        )
        places = {effect: place for place, effect in enumerate(self.effects)}
        self._membership = np.zeros((len(kinds), len(self.effects)))
        for kind, index in kinds.items():
            for effect in effects_of(*kind):
                self._membership[index, places[effect]] = 1.0

    def evaluate(self, theta: Array) -> tuple[Array, Array]:
        """Logarithms of corrected seconds, and their gradient by the effects."""
        scaled = self._seconds * np.exp(self._membership @ theta)
        total = self._fixed + scaled.sum(axis=1)
        return np.log(total), (scaled / total[:, None]) @ self._membership


def fit(rows: Sequence[Row], *, is_robust: bool = False) -> Fit:
    """The model of rows.

    Args:
        rows: one or more rows.
        is_robust: whether rows that lie apart count for less.
    """
    design = _Design(rows)
    levels: list[Level] = [effect[0] for effect in design.effects]
    sigmas: dict[Level, float] = {level: float(sigma) for level, sigma in PRIOR_SIGMAS.items()}
    error = float(PRIOR_ERROR)
    theta = np.zeros(len(design.effects))
    weights = np.ones(len(rows))
    posterior = Posterior(theta, np.zeros((len(theta), len(theta))))
    for _ in range(_MAX_NEWTON_STEPS):
        corrected_logs, gradient = design.evaluate(theta)
        variances = (error**2 + design.error_variances) / weights
        priors = np.array([sigmas[level] ** 2 for level in levels])
        posterior = shrink(
            gradient, design.measured_logs - corrected_logs + gradient @ theta, variances, priors
        )
        step = _step(design, theta, posterior.mean - theta, variances, priors)
        theta = theta + step
        residuals = design.measured_logs - design.evaluate(theta)[0]
        if is_robust:
            distance = residuals**2 / (error**2 + design.error_variances)
            weights = (_FREEDOM + 1) / (_FREEDOM + distance)
        sigmas = _sigmas(levels, theta, posterior)
        error = _error(residuals, gradient, posterior, weights)
        if float(np.abs(step).max()) < _STEP_TOLERANCE:
            break
    posterior = Posterior(theta, posterior.covariance)
    return Fit(design.effects, posterior, sigmas, error, Counter(row.group for row in rows))


def _step(design: _Design, theta: Array, step: Array, variances: Array, priors: Array) -> Array:
    """The Newton step, halved until it leads downhill; none if no part of it does."""

    def height(effects: Array) -> float:
        residuals = design.measured_logs - design.evaluate(effects)[0]
        return float((residuals**2 / variances).sum() + (effects**2 / priors).sum())

    start_height = height(theta)
    for _ in range(_HALVINGS):
        if height(theta + step) <= start_height:
            return step
        step = step / 2
    return np.zeros_like(step)


def _sigmas(levels: Sequence[Level], theta: Array, posterior: Posterior) -> dict[Level, float]:
    """One sigma of each level, from the squares of its effects and its prior."""
    squares = theta**2 + np.diag(posterior.covariance)
    sigmas: dict[Level, float] = {}
    for level, prior in PRIOR_SIGMAS.items():
        level_squares = [
            squares[index] for index, effect_level in enumerate(levels) if effect_level == level
        ]
        total = PRIOR_WEIGHT * float(prior) ** 2 + float(sum(level_squares))
        sigmas[level] = min(
            math.sqrt(total / (PRIOR_WEIGHT + len(level_squares))), float(MOST_SIGMA)
        )
    return sigmas


def _error(residuals: Array, gradient: Array, posterior: Posterior, weights: Array) -> float:
    """One sigma of a row's error, from residuals, what the effects leave open, and its prior."""
    unexplained = ((gradient @ posterior.covariance) * gradient).sum(axis=1)
    total = float(PRIOR_ERROR) ** 2 + float((weights * residuals**2 + unexplained).sum())
    return math.sqrt(total / (1 + len(residuals)))


def causes(rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """The causes of each family in rows, after "", which is always the first."""
    by_family: dict[str, dict[str, None]] = {}
    for row in rows:
        for part in row.parts:
            by_family.setdefault(part.family, {"": None})[part.cause] = None
    return {family: tuple(names) for family, names in by_family.items()}


def mean_shares(rows: Sequence[Row], family: str) -> tuple[CauseTime, ...]:
    """The causes of a family with their mean shares of its time."""
    shares: dict[str, float] = {}
    for row in rows:
        family_parts = [part for part in row.parts if part.family == family]
        total_s = sum(part.time_s for part in family_parts)
        for part in family_parts:
            shares[part.cause] = shares.get(part.cause, 0.0) + part.time_s / total_s
    rows_of_family = sum(shares.values()) or 1.0  # the shares of each row add up to 1
    return tuple(
        CauseTime(family, cause, share / rows_of_family) for cause, share in shares.items()
    )
