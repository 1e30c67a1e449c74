"""A calibration: groups of rows before and after, and the corrections that estimates take.

New errors and intervals of a group are of rows left out: rows are dealt to five parts, and each
part stands beside factors from the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from trnsim.calibrate.checks import LeftOut, usable
from trnsim.calibrate.fit import Fit, causes, fit, mean_shares
from trnsim.calibrate.row import EstimatedFigure, Row
from trnsim.document.values import plain
from trnsim.estimate.estimate import QUANTILES
from trnsim.site import OTHER, sealed
from trnsim.version import VERSION

FOLDS: Final = 5
_Z: Final = QUANTILES["p90"]
_MOST_SIGMA_ROWS: Final = 200
"""Maximum number of rows of a group over which its sigma is averaged."""
_LEAST_DEGREES_OF_FREEDOM: Final = 3.0
_SEED: Final = 0


@dataclass(frozen=True)
class Group:
    """The rows of a family on a chip, before and after.

    Attributes:
        rows: rows that were fitted.
        ratio: median of measured over estimated time.
        old_error: median of |estimated / measured - 1| before.
        new_error: the same after, rows left out; None of a single row.
        old_inside: part of the rows between P10 and P90 before.
        new_inside: the same after, rows left out; None of a single row.
        old_width: median of (P90 - P10) / P50 before.
        new_width: the same after.
    """

    chip: str
    family: str
    rows: int
    ratio: float
    old_error: float
    new_error: float | None
    old_inside: float
    new_inside: float | None
    old_width: float
    new_width: float


@dataclass(frozen=True)
class LogFile:
    """A log that was read.

    Attributes:
        format: its kind.
    """

    file: str
    format: str
    rows: int


@dataclass(frozen=True)
class Calibration:
    """The result of a calibration.

    Attributes:
        written: its day.
        fitted: the model.
        unasked: rows beyond the most questions that are asked.
    """

    written: date
    fitted: Fit
    rows: tuple[Row, ...]
    groups: tuple[Group, ...]
    left_out: tuple[LeftOut, ...]
    logs: tuple[LogFile, ...]
    unasked: int = 0

    def values(self) -> dict[str, Any]:
        """The calibration as JSON, which estimates read as the file of a site."""
        fields = {
            "version": VERSION,
            "written": self.written,
            "rows": len(self.rows),
            "error": self.fitted.error,
            "groups": self.groups,
            "left_out": [_left_out(each) for each in self.left_out],
            "logs": self.logs,
            "unasked": self.unasked,
        }
        sealed_fields = sealed(plain(fields))
        check = sealed_fields.pop("check")
        corrections = [sealed(plain(each)) for each in corrections_of(self.fitted, self.rows)]
        return {**sealed_fields, "corrections": corrections, "check": check}


def calibrate(
    rows: Sequence[Row], logs: Sequence[LogFile], written: date, unasked: int = 0
) -> Calibration:
    """The calibration by rows.

    Raises:
        BadInput: a log is impossible, such as one in a wrong unit (`trnsim.calibrate.checks`).
    """
    usable_rows, left_out = usable(rows)
    fitted = fit(usable_rows)
    predictions = _left_out_predictions(usable_rows)
    groups = dict.fromkeys(row.group for row in usable_rows)
    return Calibration(
        written,
        fitted,
        tuple(usable_rows),
        tuple(_group(group, usable_rows, fitted, predictions) for group in groups),
        tuple(left_out),
        tuple(logs),
        unasked,
    )


def sigma_of(fitted: Fit, row: Row) -> float:
    """The sigma of a further row like this one, from the number of its group's rows.

    The estimate's own sigma over the rows of the group is added in squares: a single row shows no
    scatter, a dozen do.
    """
    estimate_sigma = math.log(row.estimated.p90_s / row.estimated.p10_s) / (2 * _Z)
    rows = fitted.group_rows.get(row.group, 0)
    return math.hypot(
        _few_rows_factor(fitted) * fitted.sigma(row), estimate_sigma / rows if rows else 0.0
    )


def _few_rows_factor(fitted: Fit) -> float:
    """The factor on a sigma that is known from few rows: P90 of Student's t over the normal's.

    Source: the first term of the Cornish-Fisher expansion, Abramowitz and Stegun, 26.7.5.
    """
    freedom = max(fitted.rows - len(fitted.effects) / 2, _LEAST_DEGREES_OF_FREEDOM)
    return 1 + (_Z**2 + 1) / (4 * freedom)


def _left_out_predictions(rows: Sequence[Row]) -> dict[int, tuple[float, float]]:
    """Seconds and sigma of each row by factors from the others, by its id."""
    if len(rows) == 1:
        return {}
    order = np.random.default_rng(_SEED).permutation(len(rows))
    folds = min(FOLDS, len(rows))
    predictions: dict[int, tuple[float, float]] = {}
    for fold in range(folds):
        fold_places = {int(at) for at in order[fold::folds]}
        fitted = fit([row for at, row in enumerate(rows) if at not in fold_places])
        for at in fold_places:
            predictions[id(rows[at])] = fitted.predicted_s(rows[at]), sigma_of(fitted, rows[at])
    return predictions


def _group(
    group: tuple[str, str],
    rows: Sequence[Row],
    fitted: Fit,
    predictions: Mapping[int, tuple[float, float]],
) -> Group:
    rows_of_group = [row for row in rows if row.group == group]
    predicted_rows = [
        (row.measured_s, *predictions[id(row)]) for row in rows_of_group if id(row) in predictions
    ]
    estimates = [row.estimated for row in rows_of_group]
    return Group(
        chip=group[0],
        family=group[1],
        rows=len(rows_of_group),
        ratio=median(row.measured_s / row.estimated.time_s for row in rows_of_group),
        old_error=median(abs(row.estimated.time_s / row.measured_s - 1) for row in rows_of_group),
        new_error=median(abs(time_s / true_s - 1) for true_s, time_s, _ in predicted_rows)
        if predicted_rows
        else None,
        old_inside=fmean(
            row.estimated.p10_s <= row.measured_s <= row.estimated.p90_s for row in rows_of_group
        ),
        new_inside=fmean(
            abs(math.log(true_s / time_s)) <= _Z * sigma for true_s, time_s, sigma in predicted_rows
        )
        if predicted_rows
        else None,
        old_width=median(
            (estimate.p90_s - estimate.p10_s) / estimate.time_s for estimate in estimates
        ),
        new_width=median(
            2 * math.sinh(_Z * sigma_of(fitted, row)) for row in rows_of_group[:_MOST_SIGMA_ROWS]
        ),
    )


def _left_out(outlier: LeftOut) -> dict[str, Any]:
    measurement = outlier.row.measurement
    return {
        "file": measurement.line.file,
        "line": measurement.line.line,
        "question": measurement.question,
        "measured_s": outlier.row.measured_s,
        "estimated_s": outlier.row.estimated.time_s,
        "reason": outlier.reason,
    }


def corrections_of(fitted: Fit, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The corrections of all chips and families of rows, and of those without rows."""
    causes_by_family = causes(rows)
    chips = [*dict.fromkeys(row.chip for row in rows), OTHER]
    return [
        _correction(fitted, rows, chip, family, causes_by_family.get(family, ("",)))
        for chip in chips
        for family in (*causes_by_family, OTHER)
    ]


def _correction(
    fitted: Fit, rows: Sequence[Row], chip: str, family: str, family_causes: Sequence[str]
) -> dict[str, Any]:
    family_rows = [
        row for row in rows if row.chip == chip and any(part.family == family for part in row.parts)
    ]
    group_rows = [row for row in family_rows if row.group == (chip, family)] or family_rows
    sigma_rows = group_rows[:_MOST_SIGMA_ROWS] or [_typical_row(rows, chip, family)]
    sigma = math.sqrt(fmean(sigma_of(fitted, row) ** 2 for row in sigma_rows))
    return {
        "chip": chip,
        "family": family,
        "parts": {
            cause: math.exp(fitted.log_factor(chip, family, cause))
            for cause in family_causes or ("",)
        },
        "sigma": sigma,
        "rows": len(family_rows),
    }


def _typical_row(rows: Sequence[Row], chip: str, family: str) -> Row:
    """A row of a chip and family without rows, with the causes that the family usually has."""
    parts = mean_shares(rows, family)
    if not parts:
        parts = (replace(rows[0].parts[0], family=family, cause="", time_s=1.0),)
    estimated = EstimatedFigure(chip, family, 1.0, parts, 0.0, 1.0, 1.0)
    return Row(replace(rows[0].measurement, value=1.0, sigma=0.0), estimated)
