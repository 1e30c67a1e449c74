import math
import re

import pytest
from row_cases import drawn_rows, estimated, row

from trnsim.calibrate.checks import usable
from trnsim.errors import BadInput


def steady(count, factor=2.0, **of):
    """Rows that are all slower by a factor, with noise."""
    return [
        row(factor * 0.01 * math.exp(0.03 * math.sin(7 * at)), line=at + 2, **of)
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("factor", "unit"),
    [(1600, "milliseconds"), (1.6e6, "microseconds"), (1 / 40, "minutes"), (1 / 2300, "hours")],
)
def test_a_log_in_another_unit_is_refused_with_it(factor, unit):
    with pytest.raises(
        BadInput, match=rf"^log\.csv:2: its 8 times are .*as if they were in {unit}:"
    ):
        usable(steady(8, factor))


def test_a_log_far_from_its_estimates_in_no_known_unit_is_refused():
    with pytest.raises(
        BadInput, match=r"its time is 1\.1e\+02 times the estimates: .*; legal: seconds"
    ):
        usable([row(1.1)])


def test_a_row_in_another_unit_is_left_out_and_named():
    rows, left_out = usable([*steady(12), row(20.0, line=40)])
    assert len(rows) == 12
    (one,) = left_out
    assert one.row.measurement.line.line == 40
    assert one.reason == "9.9e+02 times rows of its kind, as if it were in milliseconds"


def test_one_outlier_in_ten_is_left_out_and_no_other_row():
    for seed in range(5):
        rows = drawn_rows(40, seed)
        bad = set(range(3, 40, 10))
        rows = [
            row((4.0 if at % 20 < 10 else 0.3) * one.measured_s, one.estimated, line=at + 2)
            if at in bad
            else one
            for at, one in enumerate(rows)
        ]
        kept, left_out = usable(rows)
        assert {each.row.measurement.line.line - 2 for each in left_out} == bad
        assert len(kept) == 36


def test_a_row_faster_than_its_bound_is_left_out_with_the_bound():
    own = estimated(bound_s=0.005)
    rows, (one,) = usable([*steady(8), row(0.004, own, line=12)])
    assert len(rows) == 8
    assert one.reason == (
        "4 ms is faster than 5 ms, which the published peak and bandwidth of trainium1 allow"
    )


def test_too_many_rows_that_cannot_be_are_refused():
    own = estimated(bound_s=0.5)
    with pytest.raises(
        BadInput, match=r"log\.csv:9: 4 of 9 rows cannot be, at most 25% may: line 9"
    ):
        usable([*steady(5), *(row(0.02, own, line=line) for line in (9, 10, 11, 12))])


def test_two_chips_in_one_file_are_refused_and_not_called_outliers():
    fast = [
        row(0.3 * one.measured_s, one.estimated, line=20 + at) for at, one in enumerate(steady(6))
    ]
    with pytest.raises(BadInput, match="as if two chips were mixed"):
        usable([*steady(10), *fast])


def test_one_world_of_many_causes_is_not_two_chips():
    for seed in range(20):
        kept, left_out = usable(drawn_rows(20, seed))
        assert len(kept) + len(left_out) == 20
        assert len(left_out) <= 1


def test_swapped_ttft_and_tpot_are_named():
    first, other = estimated("trainium1", "encode", 0.5), estimated(time_s=0.02)
    rows = [row(0.03, first, figure="ttft"), row(0.7, other, figure="tpot")]
    with pytest.raises(BadInput, match=re.escape("as if the columns were swapped")):
        usable(rows)
