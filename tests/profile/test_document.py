"""Stored profiles: six lines, all figures, chips side by side, and the same as JSON."""

import pytest
from schema_checks import assert_both_ways

from trnsim.arch import TARGETS
from trnsim.document.text import section_text, text
from trnsim.document.values import with_schema
from trnsim.profile import compare, report_of
from trnsim.profile.analysis.model_estimate import ModelEstimate, Share
from trnsim.profile.document import (
    SUMMARY_SCHEMA,
    brief_rows,
    comparison,
    diff_document,
    profile_blocks,
    profile_document,
    profile_values,
)
from trnsim.profile.measures.parts import PartCost


@pytest.fixture
def profile(kernel, ran):
    """A kernel that loads small tiles, which is advised against."""
    for _ in range(32):
        kernel.store(kernel.copy(kernel.load(128, 64)))
    (profile,) = report_of([ran(kernel.timeline())])["profiles"]
    return profile


def model():
    part = PartCost(4, {"tensor": 6e-6}, {"tensor": 6e-6}, {"weights": 64})
    times = {"launch_s": 1e-6, "device_time_s": 6e-6, "exchanges_s": 0.0, "bound_s": 1e-6}
    sizes = {"flop": 1e9, "hbm_bytes": 1e6, "mfu": 0.2, "mbu": 0.1}
    counts = {"programs": 1, "layers": 0, "compiled": 0}
    shares = (Share("net.up", "dot_general", 1, part),)
    return ModelEstimate(
        binds="HBM", shares=shares, likely_s=(6e-6, 8e-6), **times, **sizes, **counts
    )


def test_brief_rows_are_time_bottleneck_and_the_next_thing_to_do(profile):
    (_, time), (_, bottleneck), (label, action) = brief_rows(profile)
    assert " (P10 to P90: " in time
    assert bottleneck.startswith(profile["summary"]["bound_by"])
    assert label == "try"
    assert " at conftest.py:" in action


def test_without_advice_the_line_with_most_time_is_next(profile, new_kernel, ran):
    label, line = brief_rows({**profile, "advice": []})[-1]
    assert label == "longest"
    assert line.endswith("on the critical path; no known change shortens it")
    (empty,) = report_of([ran(new_kernel().timeline())])["profiles"]
    assert brief_rows(empty)[-1] == ("longest", "no instruction")


def test_in_full_a_profile_has_lines_gains_and_advice(profile):
    shown = section_text("", profile_blocks(profile))
    for words in ("rests on", "critical path  of it waiting", "if   DMA", "try  ", "conftest.py:"):
        assert words in shown, words
    assert "mfu_estimated_percent" not in shown
    assert "mfu_estimated_percent" in section_text("", profile_blocks(profile, has_figures=True))


def test_instructions_without_a_line_save_nothing_by_a_change_without_a_line(profile):
    (first, *rows) = profile["by_line"]
    gains = [{"change": "DMA free", "line": -1, "gain_ns": 7777.0}]
    nowhere = profile | {"by_line": [{**first, "line": -1}, *rows], "gains": gains, "edges": []}
    shown = section_text("", profile_blocks(nowhere))
    (row,) = (line for line in shown.splitlines() if line.startswith("no line"))
    assert "7.78 us" not in row
    assert "DMA free: -7.78 us" in shown


def test_edges_that_were_not_tried_have_no_times_in_json(profile):
    edge = {"form": "wait", "kind": "k", "text": "t", "line": -1, "pairs": [], "edges": 1}
    untried = profile | {"edges": [edge | dict.fromkeys(("with_ns", "without_ns", "gain_ns"))]}
    (row,) = profile_values(untried)["edges"]
    assert (row["with_s"], row["without_s"], row["gain_s"]) == (None, None, None)


@pytest.mark.parametrize("value", ["long", {"low_ns": 1e9}, None])
def test_what_others_add_to_a_report_is_no_time(value, profile):
    (first, *rows) = profile["by_line"]
    foreign = profile | {"by_line": [{**first, "extra_ns": value}, *rows]}
    assert profile_values(foreign)["by_line"][0]["extra_s"] == value


def test_chips_stand_side_by_side(timeline, ran):
    runs = [ran(timeline), ran(timeline, target=TARGETS["trn3"])]
    profiles = report_of(runs)["profiles"]
    brief = section_text("", [comparison(profiles, is_brief=True)]).splitlines()
    assert brief[0].split() == ["trn2", "trn3"]
    assert len(brief) == 4
    full = section_text("", [comparison(profiles)])
    assert "DMA active" in full
    assert "MBU" in full
    assert full in text(profile_document(profiles))


def test_values_are_those_of_the_schema(profile, timeline, ran):
    whole = report_of([ran(timeline, warnings=("a race",))], [model()])["profiles"][0]
    nowhere = {
        name: [{**row, "line": -1} for row in profile[name]] for name in ("by_line", "advice")
    }
    profiles = profile, whole, profile | nowhere
    values = [with_schema(profile_values(each), SUMMARY_SCHEMA) for each in profiles]
    assert values[0]["by_line"][0]["critical_s"] == profile["by_line"][0]["critical_ns"] / 1e9
    assert values[0]["by_line"][0]["text"].startswith("self.context.issue(")
    assert values[1]["model"]["likely_s"] == pytest.approx([6e-6, 8e-6])
    assert_both_ways([values], SUMMARY_SCHEMA)


def test_changes_are_rows_of_a_table(profile):
    document = diff_document([compare(profile, profile)])
    assert document.rows is not None
    assert [column.name for column in document.rows.columns] == [
        *("profile", "table", "name", "before", "after")
    ]
    assert document.values[0]["verdict"] == "verdict  as fast"
