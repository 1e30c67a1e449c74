"""Overviews in words and as values; two of them compared."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "report_page"))  # for modules beside these tests

from schema_checks import assert_both_ways
from shown_pages import Shown, at

from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.document.values import document_json
from trnsim.errors import BadInput
from trnsim.profile.analysis.overview import Action, Overview
from trnsim.profile.analysis.step_program import StepGain
from trnsim.profile.overview_document import machine_pairs, overview_diff, overview_document

STEP = Overview(
    "step", "trn2", 2e-3, (1e-3, 3e-3), "launches", {"forward": 1.5e-3, "a/b": 5e-4},
    (Action("compile", 1e-3),), {"module": {"net": 2e-3}, "launches": {"launches": 3e-3}},
    gains=(StepGain("the host twice as fast", 1.5e-3),), launched_s=3.5e-3,
)  # fmt: skip
RANKS = Overview("ranks", "", 1e-3, None, "", {}, (), {})
FILES = Path("before.json"), Path("after.json")


def values_of(document):
    return json.loads(document_json(document))


def test_the_text_has_total_interval_bound_parts_and_advice():
    shown = text(overview_document([STEP, RANKS]))
    assert "time      2 ms (P10 to P90: 1 ms to 3 ms)" in shown
    assert "bound by  launches" in shown
    assert "compile: -1 ms at most" in shown
    assert "gains, each timed again, of 3.5 ms from the first launch on:" in shown
    assert "the host twice as fast: -1.5 ms\n" in shown
    assert shown.count("gains") == 1  # ranks have none
    assert "launches  3 ms  -" in shown  # no share of the time that they stand beside
    assert "forward  1.5 ms  75 %" in shown


def test_the_page_draws_the_values_of_the_json():
    document = overview_document([STEP, RANKS])
    shown = Shown(html(document))
    assert len(shown.drawn) == 2
    for place, value in shown.drawn:
        assert at(document.values, place) == value


def test_values_are_those_of_the_schema():
    documents = overview_document([STEP]), overview_document([RANKS])
    found = [one for document in documents for one in values_of(document)]
    assert_both_ways(found, "profile-overview/1")


@pytest.mark.parametrize(
    ("machines", "words"),
    [
        ([""], "bert: latency"),
        (["trn1"], "bert: latency on trn1"),
        (["trn1", "trn1"], "bert: latency on trn1"),
        (["trn1", "trn2", "trn3"], "bert: latency on trn1, trn2 and trn3"),
        (["trn1", "trn2", "trn3", "p5"], "bert: latency on trn1, trn2, trn3 and 1 more"),
    ],
)
def test_a_title_says_what_and_where(machines, words):
    each = [replace(STEP, subject="bert: latency", machine=name) for name in machines]
    assert overview_document(each).title == words
    assert overview_diff([(one, one) for one in each]).title == f"What changed: {words}"


def test_a_title_of_two_answers_names_both():
    assert overview_document([STEP, RANKS]).title == "step and ranks on trn2"
    other = replace(STEP, machine="trn3")
    assert overview_diff([(STEP, other)]).title == "What changed: step on trn2, now step on trn3"


def test_a_comparison_names_what_changed_most_first():
    faster = replace(STEP, time_s=1e-3, interval_s=(5e-4, 9e-4), bound="forward",
                     parts_s={"forward": 5e-4, "new": 5e-4})  # fmt: skip
    document = overview_diff([(STEP, faster)])
    shown = text(document)
    assert "2 times as fast; the intervals are apart" in shown
    assert "launches, now forward" in shown
    (values,) = values_of(document)
    assert [row["name"] for row in values["changes"]["part"]] == ["forward", "a/b", "new"]
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith(("a/b", "new"))] == [
        "gone", "new",
    ]  # fmt: skip
    assert_both_ways(
        [values, *values_of(overview_diff([(RANKS, RANKS)]))], "profile-overview-diff/1"
    )


@pytest.mark.parametrize(
    ("time_s", "interval_s", "words"),
    [
        (2e-3, (1e-3, 3e-3), "as fast"),
        (1e-3, (5e-4, 1e-3), "2 times as fast; the intervals overlap"),
        (1e-3, None, "2 times as fast"),
        (0.0, None, "one side has no time"),
    ],
)
def test_a_verdict_says_whether_intervals_overlap(time_s, interval_s, words):
    other = replace(STEP, time_s=time_s, interval_s=interval_s)
    assert f"verdict  {words}\n" in text(overview_diff([(STEP, other)]))


def test_machines_are_paired_by_name_and_single_ones_by_place():
    trn1, trn3 = replace(STEP, machine="trn1"), replace(STEP, machine="trn3")
    assert machine_pairs([trn1], [trn3], FILES) == [(trn1, trn3)]
    assert machine_pairs([trn1, STEP], [trn3, trn1], FILES) == [(trn1, trn1)]
    twice = [replace(trn1, subject="a"), replace(trn1, subject="b")]
    assert machine_pairs(twice, twice, FILES) == [(each, each) for each in twice]
    with pytest.raises(BadInput, match="no machine in common: trn1, trn2 and trn3"):
        machine_pairs([trn1, STEP], [trn3], FILES)


def test_a_comparison_of_two_machines_names_both():
    shown = text(overview_diff([(STEP, replace(STEP, machine="trn3"))]))
    assert shown.startswith("step on trn2, now step on trn3\n")
    assert text(overview_diff([(STEP, STEP)])).startswith("step on trn2\n")
