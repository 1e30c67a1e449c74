"""Detection of logs that mix two chips: two sets of factors explain such rows far better than one.

Two steps alternate until no row changes its set: each set's factors are fitted to its rows, and
each row joins the set whose factors fit it better (Bishop 2006, section 9.1: k-means, here of a
regression). Two sets made of the rows of one chip have six tenths of the scatter of one set, if the
scatter is normal; sets of two chips have only the scatter between runs, which is far less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import numpy as np

from trnsim.calibrate.fit import Fit, fit
from trnsim.calibrate.row import Row, evenly_spaced, grouped
from trnsim.facts import assumed
from trnsim.reader import fault

LEAST_SCATTER: Final = assumed(
    0.12, "one sigma of rows of one chip about their factors, beyond which two sets are looked for"
)
MOST_SHARE: Final = assumed(
    0.45, "most of the scatter that two sets may leave; a halved normal distribution keeps 0.60"
)
_LEAST_ROWS: Final = 3
_LEAST_SHARE: Final = 0.15
"""Minimum number of rows of a set, and minimum share of all rows: a smaller set is outliers."""
_LEAST_FACTOR: Final = math.log(1.6)
"""Minimum factor between two sets; two halves of a dozen rows with 20 % of noise are 1.3 apart."""
_MAX_SPLIT_ROUNDS: Final = 8
"""Maximum number of repetitions of a fit and of the assignment of rows to the two sets."""
_MOST_ROWS: Final = 300
"""Maximum number of rows of a chip that are looked at, at equal distances."""
_MOST_NAMED: Final = 6


@dataclass(frozen=True)
class _Split:
    """Two sets of rows.

    Attributes:
        in_second: for each row, True if it is in the second set.
        scatter: root mean square of the rows' residuals, each in its own set.
        log_factor: logarithm of the second set's times over the first's.
    """

    in_second: tuple[bool, ...]
    scatter: float
    log_factor: float


def check_machines(rows: Sequence[Row]) -> None:
    """Refuse a log whose rows of one chip fall into two sets.

    Raises:
        BadInput: naming the lines of the smaller set, and how far it is from the other.
    """
    by_log = grouped(rows, lambda row: (row.measurement.line.file, row.chip))
    robust = fit(rows, is_robust=True)
    for (file, chip), log_rows in by_log.items():
        tested_rows = evenly_spaced(log_rows, _MOST_ROWS)
        scatter = _scatter([robust.residual(row) for row in tested_rows])
        if scatter < LEAST_SCATTER or len(tested_rows) < 2 * _LEAST_ROWS:
            continue
        single = fit(tested_rows)
        single_scatter = _scatter([single.residual(row) for row in tested_rows])
        split = min(
            (_split(tested_rows, start) for start in _starts(tested_rows, robust)),
            key=lambda each: each.scatter,
        )
        count = sum(split.in_second)
        least_rows = max(_LEAST_ROWS, math.ceil(_LEAST_SHARE * len(tested_rows)))
        is_apart = (
            split.scatter < MOST_SHARE * single_scatter and abs(split.log_factor) > _LEAST_FACTOR
        )
        if not is_apart or not least_rows <= count <= len(tested_rows) - least_rows:
            continue
        is_second_smaller = count <= len(tested_rows) / 2
        smaller_set = [
            row
            for row, in_second in zip(tested_rows, split.in_second, strict=True)
            if in_second == is_second_smaller
        ]
        line_numbers = sorted(row.measurement.line.line for row in smaller_set)
        is_slower = (split.log_factor > 0) == is_second_smaller
        lines_text = ", ".join(map(str, line_numbers[:_MOST_NAMED])) + (
            ", ..." if len(line_numbers) > _MOST_NAMED else ""
        )
        raise fault(
            file,
            f"rows of {chip} fall into two sets: {len(line_numbers)} of {len(tested_rows)} "
            f"(lines {lines_text}) are "
            f"{math.exp(abs(split.log_factor)):.2g} times "
            f"{'slower' if is_slower else 'faster'} than the others, as if two chips were mixed",
            fix="state the chip of each row in its question (--on), or leave one set out",
            line=line_numbers[0],
        )


def _starts(rows: Sequence[Row], robust: Fit) -> list[list[bool]]:
    """First guesses of the second set: the slower rows, within each group or among all rows."""
    groups = grouped(rows, lambda row: row.group)
    ratios = {
        group: [row.log_ratio for row in group_ratios] for group, group_ratios in groups.items()
    }
    middles = {
        group: (max(group_ratios) + min(group_ratios)) / 2 for group, group_ratios in ratios.items()
    }
    residuals = [robust.residual(row) for row in rows]
    middle = (max(residuals) + min(residuals)) / 2
    return [
        [row.log_ratio > middles[row.group] for row in rows],
        [residual > middle for residual in residuals],
        [residual > median(residuals) for residual in residuals],
    ]


def _split(rows: Sequence[Row], start: Sequence[bool]) -> _Split:
    """The sets to which a guess leads."""
    in_second = list(start)
    residuals = [0.0] * len(rows)
    residual_pairs = [(0.0, 0.0)] * len(rows)
    for _ in range(_MAX_SPLIT_ROUNDS):
        fitted = fit(
            [
                _labelled(row) if is_second else row
                for row, is_second in zip(rows, in_second, strict=True)
            ]
        )
        residual_pairs = [(fitted.residual(row), fitted.residual(_labelled(row))) for row in rows]
        nearer_second = [abs(as_second) < abs(as_first) for as_first, as_second in residual_pairs]
        residuals = [
            as_second if is_second else as_first
            for (as_first, as_second), is_second in zip(residual_pairs, nearer_second, strict=True)
        ]
        if nearer_second == in_second:
            break
        in_second = nearer_second
    set_distances = [as_first - as_second for as_first, as_second in residual_pairs]
    return _Split(tuple(in_second), _scatter(residuals), float(np.mean(set_distances)))


def _labelled(row: Row) -> Row:
    """The row as of a second chip."""
    return replace(row, estimated=replace(row.estimated, chip=f"{row.chip}, second"))


def _scatter(residuals: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(residuals))))
