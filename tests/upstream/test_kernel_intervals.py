"""Intervals of published times: quantiles, and what they hold of rows that are left out."""

import json
import sys
from dataclasses import replace
from functools import cache
from math import exp
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.timing.interval import P90_DEVIATIONS, errors

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench" / "accuracy"))
import kernel_intervals as intervals
import publications
import published
from kernel_intervals import ErrorRow

STORED = intervals.stored(ROOT / "bench" / "accuracy" / "errors.json")
FEW = 8
"""Rows from which on a share of them says something."""


def row(kernel, ratio, publication="a", **more):
    """A row whose published time is its estimate times `ratio`."""
    figures = {"estimate_s": 1e-3, "unseen_s": 1e-3, "apart_s": 1e-3, "shares": {"waiting": 1.0}}
    return ErrorRow(
        id=f"{kernel}-{ratio}",
        family=kernel,
        kernel=kernel,
        publication=publication,
        target=more.pop("target", "trn2"),
        is_single=more.pop("is_single", False),
        published_s=1e-3 * ratio,
        **{**figures, **more},
    )


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_a_quantile_is_a_score_with_four_fifths_at_or_below_it(scores):
    found = intervals.quantile(scores)
    assert found in scores
    inside = sum(score <= found for score in scores)
    assert inside >= min(0.8 * (len(scores) + 1), len(scores))


@given(st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=9), min_size=1, max_size=9))
def test_groups_weigh_the_same_and_so_does_the_next_one(groups):
    named = {str(place): scores for place, scores in enumerate(groups)}
    found = intervals.grouped_quantile(named)
    inside = sum(sum(s <= found for s in own) / len(own) for own in groups) / (len(groups) + 1)
    every = [score for own in groups for score in own]
    assert found == max(every) or inside >= 0.8 - 1e-9
    below = [score for score in every if score < found]
    if below:
        next_s = max(below)
        less = sum(sum(s <= next_s for s in own) / len(own) for own in groups) / (len(groups) + 1)
        assert less < 0.8
    repeated = {name: scores * 3 for name, scores in named.items()}
    assert intervals.grouped_quantile(repeated) == found


def test_without_groups_nothing_is_widened():
    assert intervals.grouped_quantile({}) == 0.0


@given(ratio=st.floats(0.2, 5), share=st.floats(0, 0.9))
def test_a_score_brings_the_published_time_to_the_edge_of_its_interval(ratio, share):
    one = row("k", ratio, shares={"launch LNC=1": share, "waiting": 1 - share})
    score = one.score(one.estimate_s)
    launch_s = share * one.core.launch_s.provenance.spread
    half_width = P90_DEVIATIONS * (launch_s + (1 - share) * score)
    edge = max(ratio, 1 / ratio)
    assert exp(half_width) == pytest.approx(max(edge, exp(P90_DEVIATIONS * launch_s)))


def test_a_single_instruction_has_an_interval_of_its_own():
    short, long = (
        row("instr", 1.5, "b", is_single=True, shares={}, estimate_s=t) for t in (1e-7, 1e-3)
    )
    assert short.fixed > 1
    assert long.fixed < 0.001
    found = intervals.calibrate([replace(long, apart_s=1e-3)])
    assert found.half_width(short) > found.half_width(long) > 0.4
    assert found.errors.near == {}


def test_a_library_needs_several_kernels_of_a_generation_to_be_near():
    rows = [row("x", 1.1), row("x", 1.2), row("y", 1.3), row("y", 1.0, target="trn1")]
    near = intervals.calibrate(rows).errors.near
    assert list(near) == ["a"]
    assert list(near["a"]) == ["NeuronCore-v3"]
    assert intervals.calibrate(rows[:2]).errors.near == {}


def test_rows_that_are_judged_have_no_part_in_their_intervals():
    rows = [row(str(place), 1.1, str(place)) for place in range(5)] + [row("far", 9.0, "far")]
    for held in (intervals.held_by_kernel(rows), intervals.held_by_publication(rows)):
        (of_far,) = [h for h in held if h.row.kernel == "far"]
        assert not of_far.is_inside
        assert exp(of_far.half_width) == pytest.approx(1.1)
        assert all(h.is_inside for h in held if h is not of_far)


def test_growth_comes_from_kernels_without_the_part_made_for_them():
    rows = [row(str(place), 1.1, str(place)) for place in range(5)]
    rows.append(row("made", 1.1, "made", shares={"vector scan": 1.0}, without_s=1e-3 / 1.2))
    assert intervals.calibrate(rows[:5]).errors.growth == 0.0
    found = intervals.calibrate(rows)
    h = found.half_width(replace(rows[-1], shares={"vector other": 1.0}))
    assert exp(h) == pytest.approx(1.1 * 1.2, rel=1e-6)


def test_rows_are_stored_and_read_again(tmp_path):
    rows = [row("x", 1.1, shares={"waiting": 0.99999, "issue": 0.00001}), row("y", 1.2)]
    file = tmp_path / "errors.json"
    file.write_text(intervals.lines_of(rows), encoding="utf-8")
    assert intervals.stored(file) == [replace(rows[0], shares={"waiting": 1.0}), rows[1]]


def test_the_stored_rows_are_the_published_ones():
    known = {row["id"]: row for row in published.rows()}
    for found in STORED:
        of_page = known[found.id]
        assert found.kernel == published.kernel_of(of_page)
        assert found.publication == publications.publication_of(of_page)
        assert found.published_s == pytest.approx(published.published_s(of_page))
        assert found.is_single == published.is_single(of_page)


def test_what_is_shipped_is_what_the_stored_rows_say():
    text = (ROOT / "src" / "trnsim" / "timing" / "errors.json").read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(intervals.shipped_text(STORED))
    assert errors().far == intervals.calibrate(STORED).errors.far


@cache
def held_by_kernel():
    """Each stored row beside the interval that it has without the rows of its kernel."""
    return intervals.held_by_kernel(STORED)


def shares_inside(held, name_of):
    """Name -> share inside, of groups with enough rows."""
    groups = intervals.by(held, name_of)
    return {
        name: sum(h.is_inside for h in own) / len(own)
        for name, own in groups.items()
        if len(own) >= FEW
    }


MISSED = {
    "mlp_cte": "it is 14 % too fast, a third of that by a launch longer than the others'",
    "Tensor Engine": "likewise",
    "DMA issue": "attention, which is known better than the other kernels say: 97 %",
}
"""Groups that leave the bounds, and why. A group that returns within them has no place here."""


@pytest.mark.slow_cases("kernel")
@pytest.mark.parametrize(
    "name_of",
    [lambda h: h.row.kernel, lambda h: h.row.bound_by, lambda h: h.row.target],
    ids=["kernel", "bound by", "chip"],
)
def test_of_every_group_of_near_kernels_the_interval_holds_70_to_95_percent(name_of):
    held = [h for h in held_by_kernel() if h.row.publication == "nki-library"]
    shares = shares_inside(held, name_of)
    outside = {name for name, share in shares.items() if not 0.7 <= share <= 0.95}
    assert outside == MISSED.keys() & shares.keys(), shares


def test_over_all_kernels_it_holds_75_to_90_percent_at_a_width_of_some_40_percent():
    held = [h for h in held_by_kernel() if not h.row.is_single]
    assert 0.75 <= sum(h.is_inside for h in held) / len(held) <= 0.9
    near = sorted(h.width for h in held if h.row.publication == "nki-library")
    assert near[len(near) // 2] <= 0.42


@pytest.mark.slow
def test_of_every_publication_left_out_it_holds_70_percent():
    held = intervals.held_by_publication(STORED)
    groups = intervals.by(held, lambda h: h.row.publication)
    for name, own in groups.items():
        assert sum(h.is_inside for h in own) / len(own) >= 0.7, name
    single = [h for h in held if h.row.is_single]
    assert 0.7 <= sum(h.is_inside for h in single) / len(single) <= 0.95
