"""Charts: sizes are values on one scale, every shape has its number, text is escaped."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.document.drawing import (
    WIDTH,
    Bar,
    BarPart,
    ColumnBar,
    CurveLine,
    Dot,
    Parts,
    RangeBar,
    bars,
    chart,
    charts,
    colour,
    columns,
    curves,
    dots,
    front,
    legend,
    parts_chart,
    spans,
)

HOSTILE = '<script>"&'


def numbers(markup, shape, name):
    return [
        float(one) for one in re.findall(rf'<{shape} class="[^"]*"[^>]* {name}="([-\d.]+)"', markup)
    ]


def plain(value):
    return f"{value:g}"


def test_bars_are_as_long_as_their_values_on_one_scale():
    made = bars([Bar("a", (BarPart("x", 3.0, "c0", "/a"), BarPart("y", 1.0, "c1", "/b"))),
                 Bar("b", (BarPart("x", 2.0, "c0", "/c"),))])  # fmt: skip
    assert numbers(made, "rect", "width") == pytest.approx([300, 100, 200])
    assert re.findall(r'data-of="([^"]*)" data-value="([^"]*)"', made) == [
        ("/a", "3.0"), ("/b", "1.0"), ("/c", "2.0"),
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [[], [Bar("a", ())], [Bar("a", (BarPart("x", 0.0, "c0", "/a"),))]])
def test_bars_without_values_are_drawn(rows):
    assert bars(rows).startswith("<svg ")


def test_a_range_without_end_goes_to_the_edge_and_says_so():
    rows = [RangeBar("a", 1.0, 2.0, None, "/a"), RangeBar("b", 1.0, None, 3.0, "/b")]
    made = spans(rows, plain, limit=12.0)
    assert made.count('class="far"') == 1
    assert made.count('class="mid"') == 1
    assert made.count('class="limit"') == 2
    left, right = (numbers(made, "rect", name)[0] for name in ("x", "width"))
    assert left + right == pytest.approx(WIDTH - 6)


def test_a_range_beyond_the_largest_value_shown_ends_there():
    made = spans([RangeBar("a", 1.0, 900.0, 1000.0, "/a")], plain, limit=12.0, axis_limit=30.0)
    assert made.count('class="far"') == 1
    assert "1000" not in re.sub(r"<title>.*?</title>", "", made)


def test_ranges_of_either_sign_have_a_line_at_zero():
    made = spans([RangeBar("a", 0.2, None, -0.1, "/a")], plain)
    assert made.count('class="zero"') == 1
    assert numbers(made, "rect", "width")[0] > 0


def dot(name, x, y, kind="other"):
    return Dot(name, x, y, kind, f"/{name}")


def test_the_front_has_what_nothing_beats_in_both():
    found = [dot("a", 1, 9), dot("b", 2, 5), dot("c", 3, 6), dot("d", 4, 1), dot("e", 0, 0, "out")]
    assert [one.name for one in front(found)] == ["a", "b", "d"]
    assert front([]) == []


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=12))
def test_no_point_is_better_in_both_than_one_of_the_front(pairs):
    found = [dot(str(n), x, y) for n, (x, y) in enumerate(pairs)]
    for one in front(found):
        assert not any(other.x < one.x and other.y < one.y for other in found)
    made = dots(found, "USD", "ms", plain)
    assert all(0 <= at <= WIDTH for at in numbers(made, "circle", "cx"))
    assert all(0 <= at <= 250 for at in numbers(made, "circle", "cy"))


def test_a_mark_of_an_axis_stays_within_the_drawing():
    made = dots([dot("a", 400_000, 650), dot("b", 472_000, 420)], "USD", "h", "{:,.0f}".format)
    marks = re.findall(r'data-axis="x" x="([\d.]+)" y="[\d.]+" text-anchor="(\w+)">([^<]*)<', made)
    assert [words for _, _, words in marks][-1] == "480,000"
    for at, anchor, words in marks:
        right = float(at) + {"end": 0, "middle": 3.5, "start": 7}[anchor] * len(words)
        assert right <= WIDTH


def test_names_of_near_points_do_not_overlap():
    found = [Dot(f"n{at}", 1.0, 5.0, "ours", "/", is_named=True) for at in range(4)]
    tops = [
        float(y)
        for y in re.findall(r'class="name" x="[\d.]+" y="([\d.]+)"', dots(found, "", "", plain))
    ]
    assert all(below - above >= 12 for above, below in pairwise(tops))


def test_columns_are_as_high_as_their_values_beside_the_largest():
    first = ColumnBar("00", (BarPart("x", 50.0, "c0", "/a"), BarPart("y", 25.0, "c1", "")))
    made = columns(
        [first, ColumnBar("01", ())],
        "chips", plain, [("outer", [100.0, 80.0])],
    )  # fmt: skip
    whole = 250 - 36 - 12
    assert numbers(made, "rect", "height") == pytest.approx([whole / 2, whole / 4], abs=0.01)
    assert made.count("data-of=") == 1
    assert made.count('class="line outer"') == 1
    assert columns([], "chips", plain).startswith("<svg ")


def test_text_is_escaped():
    part = BarPart(HOSTILE, 1.0, "c0", HOSTILE)
    made = charts(
        chart(HOSTILE, bars([Bar(HOSTILE, (part,), HOSTILE)])),
        spans([RangeBar(HOSTILE, 1, 2, 3, HOSTILE, HOSTILE)], plain),
        dots([Dot(HOSTILE, 1, 2, "ours", HOSTILE, is_named=True)], HOSTILE, HOSTILE, plain),
        columns([ColumnBar(HOSTILE, (part,))], HOSTILE, plain),
        legend([("c0", HOSTILE)]),
    )
    assert "<script" not in made
    assert HOSTILE not in made
    assert made.count("&lt;script&gt;&quot;&amp;") >= 12


def test_colours_come_round():
    assert colour(0) == colour(8) == "c0"


def test_a_curve_has_its_points_its_limit_and_its_marks():
    line = CurveLine(HOSTILE, ((0.0, 1.0), (5.0, 2.0), (10.0, 4.0)), ("/a", "/b", "/c"))
    drawn = curves([line], "x", "y", plain, limit=3.0, marks=[("most", 8.0), (HOSTILE, 2.0)])
    assert HOSTILE not in drawn
    assert drawn.count('class="limit"') == 1
    assert drawn.count('class="mid"') == 2
    assert re.findall(r'data-of="([^"]*)" data-value="([^"]*)"', drawn) == [
        ("/a", "1.0"), ("/b", "2.0"), ("/c", "4.0"),
    ]  # fmt: skip
    places = numbers(drawn, "circle", "cx")
    assert places == sorted(places)
    heights = numbers(drawn, "circle", "cy")
    assert heights == sorted(heights, reverse=True)
    assert ">10</text>" in drawn


def test_equal_parts_have_equal_colours_and_parts_of_nothing_have_none():
    rows = [
        Parts("x <", {"a": 3.0, "none": 0.0, "b": 1.0}, "4 s", "/0/parts"),
        Parts("y", {"b": 2.0, "none": 0.0}, "2 s", "/1/parts"),
    ]
    made = parts_chart("where", rows)
    bar = re.findall(r'class="bar (c\d)".*? width="([\d.]+)".*? data-of="([^"]*)"', made)
    assert bar == [("c0", "300.00", "/0/parts/a"), ("c1", "100.00", "/0/parts/b"),
                   ("c1", "200.00", "/1/parts/b")]  # fmt: skip
    assert re.findall(r'<i class="(c\d)"></i>(\w+)', made) == [("c0", "a"), ("c1", "b")]
    assert "x &lt;" in made
    assert re.findall("<title>(.*?)</title>", made) == [
        "x &lt;, a: 3 s",
        "x &lt;, b: 1 s",
        "y, b: 2 s",
    ]


def test_a_part_of_a_bar_without_a_name_has_its_own_and_its_unit():
    drawn = parts_chart("where", [Parts("", {"host": 2.5e-4}, "250 us", "/parts")])
    assert re.findall("<title>(.*?)</title>", drawn) == ["host: 250 us"]
