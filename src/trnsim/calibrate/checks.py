"""Checks for impossible rows, which are refused or left out, each named by its line.

Of a whole log, a wrong unit, two figures with their names exchanged or two machines under one name
are errors: nothing is written until they are mended. Single rows are left out and named: those
faster than any chip of their kind can be, and those that lie apart from all others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from trnsim.calibrate.answers import TIME, TPOT, TTFT
from trnsim.calibrate.fit import Fit, fit
from trnsim.calibrate.machines import check_machines
from trnsim.calibrate.row import Row, grouped
from trnsim.errors import BadInput
from trnsim.facts import assumed
from trnsim.formatting import enumerated
from trnsim.profile.units import time_text
from trnsim.reader import fault

FAR: Final = assumed(20.0, "factor beyond which a unit is in doubt, not the model; no source")
MOST_OUTLIERS: Final = assumed(0.25, "part of the rows that may be left out; no source")
MOST_APART: Final = assumed(0.15, "part of the rows up to which they are outliers; no source")
"""Rows that lie apart from the model; a larger part of all rows may be those of another chip."""
SCATTER: Final = assumed(0.18, "one sigma of rows beyond which they may be of two chips; no source")
APART_SIGMAS: Final = 4.0
"""Sigmas beyond which a row is left out; of normal errors one in 16,000 lies there."""
LEAST_APART: Final = math.log(1.3)
"""Minimum logarithm of a factor at which a row is left out."""
_UNITS: Final = {
    1e3: "milliseconds",
    1e6: "microseconds",
    1e9: "nanoseconds",
    1 / 60: "minutes",
    1 / 3600: "hours",
}
"""Number in a unit over the same time in seconds -> the unit."""
_NEAR_UNIT: Final = math.log(4.0)


@dataclass(frozen=True)
class LeftOut:
    """A row that is left out."""

    row: Row
    reason: str


def usable(rows: Sequence[Row]) -> tuple[list[Row], list[LeftOut]]:
    """Rows that can be fitted, and those that are left out.

    Raises:
        BadInput: a log is in another unit, has two figures exchanged or two machines under one
            name, or more rows than `MOST_OUTLIERS` cannot be.
    """
    _check_units(rows)
    _check_exchanged(rows)
    possible_rows, left_out = _possible_rows(rows)
    if not possible_rows:
        raise _too_many(rows, left_out)
    robust = fit(possible_rows, is_robust=True)
    outlier_reasons = {id(row): reason for row, reason in _outliers(possible_rows, robust)}
    other_rows = [row for row in possible_rows if id(row) not in outlier_reasons]
    check_machines(other_rows)
    has_many_outliers = len(outlier_reasons) > float(MOST_APART) * len(possible_rows)
    if has_many_outliers or fit(other_rows).error > float(SCATTER):
        check_machines(possible_rows)
    left_out += [
        LeftOut(row, outlier_reasons[id(row)])
        for row in possible_rows
        if id(row) in outlier_reasons
    ]
    if len(left_out) > max(float(MOST_OUTLIERS) * len(rows), 1):
        raise _too_many(rows, left_out)
    return other_rows, left_out


def _check_units(rows: Sequence[Row]) -> None:
    """Refuse a log whose times are all far from their estimates.

    Raises:
        BadInput: naming the unit that would fit.
    """
    for file, file_rows in grouped(rows, lambda row: row.measurement.line.file).items():
        ratio = math.exp(median(row.log_ratio for row in file_rows))
        if not 1 / FAR <= ratio <= FAR:
            unit = _unit(math.log(ratio))
            first = min(file_rows, key=lambda row: row.measurement.line.line)
            raise fault(
                file,
                f"{_count(file_rows)} {_times(ratio)} the estimates"
                + (f", as if they were in {unit}" if unit else "")
                + f": {time_text(first.measured_s)} for {first.measurement.question}; legal: "
                f"seconds, up to {float(FAR):g} times more or less",
                fix=f"write {unit} as seconds" if unit else "look at units, model and machine",
                line=first.measurement.line.line,
            )


def _check_exchanged(rows: Sequence[Row]) -> None:
    """Refuse two figures of one question that fit the estimates of each other.

    Raises:
        BadInput: naming both.
    """
    pairs: dict[tuple[str, int, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        measurement = row.measurement
        figure = TPOT if measurement.figure == TIME else measurement.figure
        pairs[measurement.line.file, measurement.line.line, measurement.question][figure] = row
    for pair in pairs.values():
        if TTFT in pair and TPOT in pair:
            ttft_row, tpot_row = pair[TTFT], pair[TPOT]
            own_distance = abs(ttft_row.log_ratio) + abs(tpot_row.log_ratio)
            crossed_distance = abs(math.log(tpot_row.measured_s / ttft_row.estimated.time_s)) + abs(
                math.log(ttft_row.measured_s / tpot_row.estimated.time_s)
            )
            if own_distance > math.log(FAR) and crossed_distance < own_distance / 2:
                raise fault(
                    ttft_row.measurement.line.file,
                    f"TTFT is {time_text(ttft_row.measured_s)} and TPOT "
                    f"{time_text(tpot_row.measured_s)}; estimates are "
                    f"{time_text(ttft_row.estimated.time_s)} and "
                    f"{time_text(tpot_row.estimated.time_s)}: as if the columns were swapped",
                    fix="exchange ttft and tpot",
                    line=ttft_row.measurement.line.line,
                )


def _possible_rows(rows: Sequence[Row]) -> tuple[list[Row], list[LeftOut]]:
    """Rows that physics and their neighbours' units allow, and the others."""
    groups = grouped(rows, lambda row: row.group)
    medians = {
        group: median(row.log_ratio for row in group_rows) for group, group_rows in groups.items()
    }
    possible_rows: list[Row] = []
    left_out: list[LeftOut] = []
    for row in rows:
        bound_s, distance = row.estimated.bound_s, row.log_ratio - medians[row.group]
        if row.measured_s < bound_s:
            reason = (
                f"{time_text(row.measured_s)} is faster than {time_text(bound_s)}, which the "
                f"published peak and bandwidth of {row.chip} allow"
            )
            left_out.append(LeftOut(row, reason))
        elif abs(distance) > math.log(FAR):
            unit = _unit(distance)
            reason = f"{_times(math.exp(distance))} rows of its kind"
            reason += f", as if it were in {unit}" if unit else ""
            left_out.append(LeftOut(row, reason))
        else:
            possible_rows.append(row)
    return possible_rows, left_out


def _outliers(rows: Sequence[Row], fitted: Fit) -> list[tuple[Row, str]]:
    """Rows that lie apart from the model of all rows, with the reason."""
    residuals = [fitted.residual(row) for row in rows]
    sigma = max(1.4826 * median(abs(residual) for residual in residuals), fitted.error / 2)
    limit = max(APART_SIGMAS * sigma, LEAST_APART)
    return [
        (row, f"{_times(math.exp(residual))} what rows of its kind give")
        for row, residual in zip(rows, residuals, strict=True)
        if abs(residual) > limit
    ]


def _too_many(rows: Sequence[Row], left_out: Sequence[LeftOut]) -> BadInput:
    """The error that too many rows cannot be."""
    reasons = [f"line {each.row.measurement.line.line}: {each.reason}" for each in left_out]
    first = left_out[0].row.measurement.line
    return fault(
        first.file,
        f"{len(left_out)} of {len(rows)} rows cannot be, at most "
        f"{float(MOST_OUTLIERS):.0%} may: {enumerated(reasons[:3], 'and')}",
        fix="look at units, models and machines of the questions",
        line=first.line,
    )


def _unit(log_ratio: float) -> str:
    """The unit whose numbers are exp(`log_ratio`) times those in seconds; "" for none."""
    nearest_factor = min(_UNITS, key=lambda factor: abs(log_ratio - math.log(factor)))
    return _UNITS[nearest_factor] if abs(log_ratio - math.log(nearest_factor)) < _NEAR_UNIT else ""


def _times(ratio: float) -> str:
    """A ratio in words: ``3.1 times`` or ``1/9.5e+02 of``."""
    return f"{ratio:.2g} times" if ratio >= 1 else f"1/{1 / ratio:.2g} of"


def _count(rows: Sequence[Row]) -> str:
    return "its time is" if len(rows) == 1 else f"its {len(rows)} times are"
