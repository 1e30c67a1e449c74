import csv
import json
from dataclasses import replace

import pytest
from decision_cases import decision
from page_cases import dollars

from trnsim.decide.document.figures import candidate_rows, figures
from trnsim.document.answer import Document
from trnsim.document.spreadsheet import spreadsheet


def table(found):
    text = spreadsheet(Document("", None, (), rows=candidate_rows(found)))
    return list(csv.reader(text.splitlines()))


def test_figures_are_those_of_the_decision_and_what_follows_from_them(assessed):
    values = json.loads(json.dumps(figures(assessed), allow_nan=False))
    stored = json.loads(assessed.text())
    assert values["page"] == 1
    assert values["assumptions"] == stored["assumptions"]
    for one, own in zip(values["workloads"], stored["workloads"], strict=True):
        for each in one["candidates"]:
            assert each.pop("migration_usd") >= 0
            time = each.pop("time")
            assert time is None or time["value"] > 0
        assert one == own


def test_the_total_has_moved_what_is_go_and_nothing_else(assessed):
    totals = figures(assessed)["totals"]
    assert totals["today_usd_per_month"] == sum(
        one.today.usd_per_month for one in assessed.workloads
    )
    moved = [one for one in assessed.workloads if one.verdict.value == "go"]
    assert len(moved) == 2
    saved = sum(
        one.today.usd_per_month - one.candidate(one.best).usd_per_month.p50 for one in moved
    )
    assert totals["after_usd_per_month"] == pytest.approx(totals["today_usd_per_month"] - saved)
    assert totals["migration_usd"] == 2 * 60_000


@pytest.mark.parametrize(
    ("today", "usd"), [("inf1.xlarge", 60_000), ("trn2.48xlarge", 10_000), ("inf2.xlarge", 10_000)]
)
def test_a_move_from_inf1_is_to_another_framework(today, usd):
    found = decision()
    (one,) = found.workloads
    here = replace(one.candidates[0], instance=today)
    one = replace(
        one, today=replace(one.today, instance=today), candidates=(here, one.candidates[0])
    )
    (shown,) = figures(replace(found, workloads=(one,)))["workloads"]
    assert [each["migration_usd"] for each in shown["candidates"]] == [0, usd]


def test_time_is_hours_of_a_months_training_and_ms_of_a_token_or_an_item(assessed):
    for one, values in zip(assessed.workloads, figures(assessed)["workloads"], strict=True):
        time = values["candidates"][0]["time"]
        unit = {"train": "hours that a month's work takes", "infer": "ms an item"}[one.kind]
        assert time["unit"] == unit
        here = one.candidate(one.today.instance)
        expected = (
            here.paid_hours / here.instances if one.kind == "train" else sum(here.ms.values())
        )
        assert time["value"] == expected


def test_a_row_for_each_candidate_has_the_decisions_figures(assessed):
    header, *rows = table(assessed)
    candidates = [(one, each) for one in assessed.workloads for each in one.candidates]
    assert len(rows) == len(candidates)
    for row, (one, each) in zip(rows, candidates, strict=True):
        cells = dict(zip(header, row, strict=True))
        assert (cells["workload"], cells["instance"]) == (one.name, each.instance)
        assert cells["best"] == ("yes" if each.instance == one.best else "no")
        known = "" if each.usd_per_month is None else str(each.usd_per_month.p50)
        assert cells["usd_per_month_p50"] == known
        assert cells["refused"] == (each.refused or "")


def test_without_workloads_or_candidates_there_is_a_header_and_a_row(assessed):
    header, *rows = table(replace(assessed, workloads=()))
    assert not rows
    assert figures(replace(assessed, workloads=()))["totals"]["today_usd_per_month"] == 0.0
    bare = replace(decision().workloads[0], candidates=())
    _, row = table(replace(assessed, workloads=(bare,)))
    assert row[:5] == ["chat", "pilot", "yes", "p5.48xlarge", "80000.0"]
    assert row[5:] == [""] * (len(header) - 5)
    assert bare.candidate(bare.best) is bare.candidate(bare.today.instance) is None


def test_every_dollar_follows_from_inputs(assessed):
    values = json.loads(json.dumps(figures(assessed)))
    found = dollars(values)
    from shown_pages import at  # noqa: PLC0415

    for place, usd in found.items():
        assert at(values, place) == pytest.approx(usd, rel=1e-9), place
