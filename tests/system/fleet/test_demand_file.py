"""Demand curves from a table."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.system.fleet.demand_file import read

INDIANA = ZoneInfo("America/Indiana/Indianapolis")
START = datetime(2026, 3, 2, tzinfo=INDIANA)


def table(tmp_path, *rows, header="time,requests_per_s"):
    path = tmp_path / "chat.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def hours(count, first="2026-03-02T00:00", values=None):
    start = datetime.fromisoformat(first)
    return [
        f"{start + timedelta(hours=at):%Y-%m-%dT%H:%M},{at if values is None else values[at]}"
        for at in range(count)
    ]


def message(path, start=START, steps=24):
    with pytest.raises(BadInput) as error:
        read(path, INDIANA, start, steps)
    return str(error.value).replace(f"{path.parent}/", "")


def test_a_row_holds_until_the_next(tmp_path):
    curve = read(table(tmp_path, *hours(3)), INDIANA, START, 36)
    assert (curve.p50 == np.repeat([0.0, 1.0, 2.0], 12)).all()
    assert (curve.p10 == curve.p50).all()
    assert (curve.p90 == curve.p50).all()


def test_only_what_is_asked_for_is_taken(tmp_path):
    later = START + timedelta(hours=1)
    assert (read(table(tmp_path, *hours(4)), INDIANA, later, 12).p50 == 1.0).all()


def test_percentiles_are_read(tmp_path):
    path = table(
        tmp_path,
        *("2026-03-02T00:00,5,4,9", "2026-03-02T01:00,6,6,6"),
        header="time,requests_per_s,p10,p90",
    )
    curve = read(path, INDIANA, START, 24)
    assert (curve.p10[0], curve.p50[0], curve.p90[0]) == (4, 5, 9)


def test_times_may_be_in_utc_or_have_the_zones_own_offset(tmp_path):
    for rows in (
        ["2026-03-02T05:00Z,1", "2026-03-02T06:00Z,2"],
        ["2026-03-02T00:00-05:00,1", "2026-03-02T01:00-05:00,2"],
    ):
        assert read(table(tmp_path, *rows), INDIANA, START, 24).p50[12] == 2


def test_with_offsets_a_clock_change_is_read(tmp_path):
    start = datetime(2026, 3, 8, tzinfo=INDIANA)
    first = start.astimezone(UTC)
    times = [(first + timedelta(hours=at)).astimezone(INDIANA).isoformat() for at in range(5)]
    path = table(tmp_path, *(f"{time},{at}" for at, time in enumerate(times)))
    assert times[2].startswith("2026-03-08T03:00:00-04:00")
    assert list(read(path, INDIANA, start, 60).p50[::12]) == [0, 1, 2, 3, 4]


def test_a_time_that_clocks_leap_over_is_refused(tmp_path):
    found = message(table(tmp_path, *hours(5, "2026-03-08T00:00")))
    assert "chat.csv:4: time is '2026-03-08T02:00': clocks of" in found
    assert "leap over it" in found
    assert "give all times an offset from UTC" in found


def test_a_time_that_clocks_pass_twice_is_refused(tmp_path):
    found = message(table(tmp_path, *hours(5, "2026-11-01T00:00")))
    assert "chat.csv:3: time is '2026-11-01T01:00': clocks of" in found
    assert "pass it twice" in found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["2026-03-02T00:00,1", "2026-03-02T01:00Z,1"], "chat.csv:3: time is .*mixed time zones"),
        (
            ["2026-03-02T00:00-05:00,1", "2026-03-02T01:00-08:00,1"],
            "chat.csv:3: time is .*mixed time zones: .* is then -05:00",
        ),
        (
            ["2026-03-02T00:00,1", "2026-03-02T01:00,1", "2026-03-02T03:00,1"],
            "chat.csv:4: time is .*2:00:00 after line 3, .*a gap",
        ),
        (["2026-03-02T00:00,1", "2026-03-02T00:00,2"], "chat.csv:3: time is .*twice: line 2"),
        (["2026-03-02T01:00,1", "2026-03-02T00:00,2"], "chat.csv:3: time is .*earlier than line 2"),
        (["2026-03-02T00:00,1", "2026-03-02T02:00,2"], "chat.csv:3: time is .*legal: 5, 10, 15"),
        (["2026-03-02T00:00,1"], "1 row; legal: at least 2"),
        (["noon,1", "2026-03-02T02:00,2"], "chat.csv:2: time is 'noon'; legal: 2026-03-02T08:00"),
        (["0001-01-01T00:00,1", "2026-03-02T02:00,2"], "chat.csv:2: time is '0001-01-01T00:00'"),
        (hours(2, values=["nan", 1]), "chat.csv:2: requests_per_s is 'nan'"),
        (hours(2, values=[1, -1]), "chat.csv:3: requests_per_s is '-1'; legal: a number"),
        (hours(2, values=[1, "1e30"]), "chat.csv:3: requests_per_s is '1e30'"),
        (hours(2, values=[1, "50%"]), "chat.csv:3: requests_per_s is '50%'"),
        (hours(2, values=[1, ""]), "chat.csv:3: requests_per_s is missing"),
        (hours(2, values=[1, "8,000"]), "chat.csv:3: 3 cells, and the first line has 2 fields"),
        (hours(1) * 1 + hours(1, "2026-03-02T01:00"), "rows from 2026-03-02T05:00Z to"),
    ],
)
def test_other_tables_are_refused(tmp_path, rows, said):
    steps = 25 if "rows from" in said else 24
    found = message(table(tmp_path, *rows), steps=steps)
    assert re.search(said, found), found


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("2026-03-02T00:00,5,6,9", "p10 is '6'; legal: p10 <= requests_per_s <= p90"),
        ("2026-03-02T00:00,5,4,", "p90 is missing: give both p10 and p90"),
        ("2026-03-02T00:00,5,,9", "p10 is missing: give both p10 and p90"),
    ],
)
def test_percentiles_are_in_order_and_both_there(tmp_path, row, said):
    path = table(tmp_path, row, "2026-03-02T01:00,5,5,5", header="time,requests_per_s,p10,p90")
    assert f"chat.csv:2: {said}" in message(path)


def test_semicolons_and_utf_16_are_refused(tmp_path):
    path = table(tmp_path, "2026-03-02T00:00;1", header="time;requests_per_s")
    assert "cells are divided by semicolons" in message(path)
    path.write_bytes("time,requests_per_s\n".encode("utf-16"))
    assert "the file is UTF-16" in message(path)
