"""Demand file: a demand curve as a CSV or YAML table, with evenly spaced times and no gaps.

Either all times have an offset from UTC, or no time has one. A local time that exists twice, or not
at all, because clocks change is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from trnsim.formatting import counted
from trnsim.reader import FileRecord, between, declared, fault, read_rows
from trnsim.system.fleet.demand import STEP_S, Curve

_STEPS_MIN: Final = (5, 10, 15, 20, 30, 60)
YEARS: Final = range(1970, 2101)
_MOST_REQUESTS_PER_S: Final = 1e12
"""Requests a second above which a row is refused."""
_FIX: Final = (
    "write the first line time,requests_per_s and rows such as 2026-03-02T08:00,120; "
    "docs/generated/user-files.md, Demand of a service, has all fields"
)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.year not in YEARS:
        raise ValueError(text)
    return time


@dataclass(frozen=True, kw_only=True)
class DemandRow(FileRecord):
    """The demand from one time until the time of the next row."""

    time: datetime = declared(
        help="its beginning, local or with an offset from UTC",
        parse=_time,
        legal="2026-03-02T08:00 or 2026-03-02T08:00-05:00",
    )
    requests_per_s: float = between("the median", 0, _MOST_REQUESTS_PER_S, unit="requests/s")
    p10: float | None = between(
        "the tenth percentile, with p90 or not at all",
        0,
        _MOST_REQUESTS_PER_S,
        None,
        unit="requests/s",
    )
    p90: float | None = between(
        "the ninetieth percentile", 0, _MOST_REQUESTS_PER_S, None, unit="requests/s"
    )


def read(path: Path, zone: ZoneInfo, start: datetime, steps: int) -> Curve:
    """The curve of `steps` steps from `start` on; a row holds until the next.

    Args:
        path: a file with the columns time, requests_per_s (the median), and p10 and p90 or neither.
        zone: the zone of times without an offset; the offsets of other times must agree with it.
        start: the first step, with its time zone.
        steps: number of steps.

    Raises:
        BadInput: gaps, rows twice or out of order, mixed or wrong time zones, local times that
            clocks leap over or pass twice, numbers out of range, or a span that is not covered.
    """
    rows = read_rows(DemandRow, path, _FIX)
    if len(rows) < 2:  # noqa: PLR2004  a step lies between two
        raise fault(path, f"{counted(len(rows), 'row')}; legal: at least 2, evenly apart")
    times = _times(rows, zone)
    row_spacing = _row_spacing(rows, times)
    _check_span(path, times, row_spacing, (start.astimezone(UTC), steps))
    values = np.array([_values(row) for row in rows])
    step_times = [start.astimezone(UTC) + timedelta(seconds=STEP_S * step) for step in range(steps)]
    step_values = values[[(time - times[0]) // row_spacing for time in step_times]]
    return Curve(step_values[:, 0], step_values[:, 1], step_values[:, 2])


def _times(rows: Sequence[DemandRow], zone: ZoneInfo) -> list[datetime]:
    """Each row's time in UTC.

    Raises:
        BadInput: mixed time zones, or an ambiguous local time.
    """
    times = [row.time for row in rows]
    has_offset = times[0].tzinfo is not None
    for row, time in zip(rows, times, strict=True):
        if (time.tzinfo is not None) != has_offset:
            raise row.refused(
                "time",
                f"mixed time zones: line {rows[0].line.line} has "
                f"{'an' if has_offset else 'no'} offset",
                "give all times an offset from UTC, or none",
            )
    return [_instant(row, time, zone) for row, time in zip(rows, times, strict=True)]


def _instant(row: DemandRow, time: datetime, zone: ZoneInfo) -> datetime:
    if time.tzinfo is not None:
        zone_offset = time.astimezone(zone).utcoffset()
        if time.utcoffset() not in (zone_offset, timedelta(0)):
            raise row.refused(
                "time",
                f"mixed time zones: {zone.key} is then {_offset(zone_offset)} from UTC",
                f"legal offsets: {_offset(zone_offset)}, or Z for UTC",
            )
        return time.astimezone(UTC)
    first_time, second_time = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first_time.utcoffset() != second_time.utcoffset():
        is_leapt = first_time.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != time
        raise row.refused(
            "time",
            f"clocks of {zone.key} {'leap over it' if is_leapt else 'pass it twice'}",
            "give all times an offset from UTC: 2026-03-02T08:00-05:00",
        )
    return first_time.astimezone(UTC)


def _offset(offset: timedelta | None) -> str:
    minutes = int((offset or timedelta(0)).total_seconds()) // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _row_spacing(rows: Sequence[DemandRow], times: Sequence[datetime]) -> timedelta:
    """The time between consecutive rows.

    Raises:
        BadInput: for rows that are not sorted and evenly spaced, or whose spacing is not one of
            `_STEPS_MIN`.
    """
    step = times[1] - times[0]
    for index in range(1, len(rows)):
        gap = times[index] - times[index - 1]
        if not gap:
            raise rows[index].refused("time", f"twice: line {rows[index - 1].line.line} has it too")
        if gap < timedelta(0):
            raise rows[index].refused(
                "time", f"earlier than line {rows[index - 1].line.line}", "sort rows"
            )
        if gap != step:
            raise rows[index].refused(
                "time",
                f"{gap} after line {rows[index - 1].line.line}, and rows before are {step} apart: "
                "a gap",
                "give a row for every step; a gap is not filled",
            )
    if step not in [timedelta(minutes=minutes) for minutes in _STEPS_MIN]:
        raise rows[1].refused(
            "time",
            f"{step} after line {rows[0].line.line}; "
            f"legal: {', '.join(map(str, _STEPS_MIN))} minutes",
        )
    return step


def _check_span(
    path: Path, times: Sequence[datetime], row_spacing: timedelta, span: tuple[datetime, int]
) -> None:
    start, steps = span
    end = start + timedelta(seconds=STEP_S * steps)
    if times[0] > start or times[-1] + row_spacing < end:
        raise fault(
            path,
            f"rows from {times[0]:%Y-%m-%dT%H:%MZ} to {times[-1] + row_spacing:%Y-%m-%dT%H:%MZ}; "
            f"the scenario asks for {start:%Y-%m-%dT%H:%MZ} to {end:%Y-%m-%dT%H:%MZ}",
            fix="change start or days of the scenario, or give more rows",
        )


def _values(row: DemandRow) -> tuple[float, float, float]:
    """P10, P50 and P90 of a row, in this order.

    Raises:
        BadInput: only one of P10 and P90 is given, or the three are not in order.
    """
    p10, p50, p90 = row.p10, row.requests_per_s, row.p90
    if p10 is None and p90 is None:
        return p50, p50, p50
    if p10 is None or p90 is None:
        raise row.refused("p10" if p10 is None else "p90", "give both p10 and p90, or neither")
    if not p10 <= p50 <= p90:
        raise row.refused("p10", f"legal: p10 <= requests_per_s <= p90, not {p10}, {p50}, {p90}")
    return p10, p50, p90
