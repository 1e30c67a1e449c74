"""Lanes: shapes lie where their times are, marks tell times apart, names are text."""

import re

import pytest

from trnsim.document.lanes import CurveLane, Lane, LaneSpan, lanes, mark_texts

HOSTILE = '<script>"&'


def rects(markup):
    found = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"', markup)
    return [(kind, float(x), int(y), float(width)) for kind, x, y, width in found]


def test_spans_lie_where_their_times_are():
    row = Lane("core 0", [LaneSpan(0.0, 0.25, "work", "a"), LaneSpan(0.5, 0.5, "idle", "b")])
    assert rects(lanes("time", [row], 1.0)) == [("work", 0, 1, 300), ("idle", 600, 1, 600)]


def test_halves_lie_above_each_other():
    spans = [LaneSpan(0.0, 1.0, "work", "a")]
    upper, lower = rects(lanes("time", [Lane("rank 0", spans, lower=spans)], 1.0))
    assert (upper[2], lower[2]) == (0, 10)


def test_spans_narrower_than_a_pixel_are_merged_and_those_without_time_left_out():
    few = [LaneSpan(n / 10_000, 1 / 10_000, "work", "a") for n in range(10_000)]
    assert 500 <= len(rects(lanes("time", [Lane("a", few)], 1.0))) <= 1200
    assert rects(lanes("time", [Lane("a", [LaneSpan(0.5, 0.0, "work", "")])], 1.0)) == []


@pytest.mark.parametrize("total_s", [0.0, 1e-9])
def test_no_time_is_drawn_as_well(total_s):
    rows = [Lane("a", []), CurveLane("b", []), CurveLane("c", [(0.0, 0.0)])]
    assert lanes("time", rows, total_s).count('<div class="lane') == 3 + 1


def test_a_curve_is_scaled_to_its_largest_value():
    drawn = lanes("time", [CurveLane("HBM", [(0.0, 1.0), (0.5, 2.0)])], 1.0)
    points = re.search(r'<polygon class="hbm" points="([^"]*)"', drawn)[1].split()
    assert points == ["0,72", "0.0,72", "0.0,37.0", "600.0,37.0", "600.0,2.0", "1200,2.0",
                      "1200,72"]  # fmt: skip


def test_a_span_leads_to_its_page():
    drawn = lanes("t", [Lane("a", [LaneSpan(0, 1, "work", "b", "a kernel.html#select=3")])], 1.0)
    assert '<a href="a%20kernel.html#select=3" aria-label="b"><rect' in drawn


def test_names_are_text():
    rows = [Lane(HOSTILE, [LaneSpan(0, 1, "work", HOSTILE, HOSTILE)], HOSTILE)]
    assert "<script" not in lanes(HOSTILE, [*rows, CurveLane(HOSTILE, [], HOSTILE)], 1.0)


@pytest.mark.parametrize(
    ("values_s", "texts"),
    [
        ([], []),
        ([0.0], ["0"]),
        ([0.0, 5e-4, 1e-3], ["0", "0.5 ms", "1.0 ms"]),
        ([0.0159, 0.01595, 0.016], ["15.90 ms", "15.95 ms", "16.00 ms"]),
        ([1.0, 2.0], ["1 s", "2 s"]),
        ([0.0, 2.5e-10], ["0", "0.25 ns"]),
        ([3.0e-7 * n for n in range(3)], ["0", "300 ns", "600 ns"]),
    ],
)
def test_marks_have_one_unit_and_digits_that_tell_them_apart(values_s, texts):
    assert mark_texts(values_s) == texts
