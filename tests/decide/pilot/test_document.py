"""The migration document says what was found, and every dollar of it stands in pilot.json."""

import json
import re
from dataclasses import replace

import pytest
from decision_cases import decision
from pilot_cases import pilot_of

from trnsim.decide import decision as decisions
from trnsim.decide.decision import Verdict
from trnsim.decide.pilot.checks import Check, Log, PilotResult, RateMeasurement
from trnsim.decide.pilot.document import document, renewed_decision, write
from trnsim.decide.pilot.plan import read
from trnsim.formatting import amount


def ran(**changes):
    """A result of the pilot: the new decision has other dollars than the old one."""
    (before,) = decision().workloads
    places = tuple(
        one
        if one.usd_per_month is None
        else replace(one, usd_per_month=one.usd_per_month.scaled(1.1))
        for one in before.candidates
    )
    after = replace(before, verdict=Verdict.GO, reason="it pays back", candidates=places)
    sides = [
        RateMeasurement(side, name, 1e5, 9e4, 1.111, 0.01, 0.3, 0.02)
        for side, name in (("today", "p5.48xlarge"), ("there", "trn1.32xlarge"))
    ]
    checks = (
        Check("loss", "relative", 0.02, is_least=False, figure=0.03, is_met=False),
        Check("logits", "of the largest", 0.03, is_least=False, figure=None, is_met=None),
        Check("USD a month", "USD a month", 75_000.0, is_least=False, figure=68_750.0, is_met=True),
    )
    logs = (Log("today.csv", "today", "csv", 100, 9e4, 2.0),)
    return PilotResult(logs, *sides, checks, replace(after, **changes))


def leaves(value):
    """All numbers of a JSON value."""
    if isinstance(value, dict):
        return [one for each in value.values() for one in leaves(each)]
    if isinstance(value, list):
        return [one for each in value for one in leaves(each)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def dollars(text):
    """Every figure of the text that is in USD: behind it, or by the head of its column."""
    found = re.findall(r"([\d,.]*\d) USD", text)
    columns = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if "|" in line else []
        if not cells:
            columns = []
        elif not columns:
            columns = [at for at, cell in enumerate(cells) if re.search("USD|^there$", cell)]
            if cells[:2] == ["side", "instance"] or "threshold" in cells:
                columns = []
        else:
            found += [one for at in columns for one in re.findall(r"[\d,.]*\d", cells[at])]
    return found


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_dollar_is_found_again_in_the_file(verdict, tmp_path):
    made, found = pilot_of("train"), ran(verdict=verdict)
    write(made, found, tmp_path)
    known = {amount(one) for one in leaves(json.loads((tmp_path / "pilot.json").read_text()))}
    text = (tmp_path / "migration.md").read_text()
    shown = dollars(text)
    assert len(shown) >= 8
    assert [one for one in shown if one not in known] == []


def test_the_three_files_are_written_and_come_back(tmp_path):
    made, found = pilot_of("train"), ran()
    paths = write(made, found, tmp_path)
    assert [one.name for one in paths] == ["decision.json", "migration.md", "pilot.json"]
    assert decisions.read(tmp_path / "decision.json").workload("chat") == found.renewed
    assert read(tmp_path).result == found


def test_other_workloads_of_the_decision_stay_as_they_were():
    made = pilot_of("train")
    other = replace(made.decision.workloads[0], name="other")
    both = replace(made.decision, workloads=(*made.decision.workloads, other))
    found = renewed_decision(replace(made, decision=both), ran())
    assert found.workload("other") == other
    assert found.workload("chat").verdict == "go"


def test_what_failed_and_what_was_not_measured_is_said():
    text = document(pilot_of("train"), ran())
    assert "Not met: loss." in text
    assert "Not measured: logits." in text
    assert re.search(r"\| loss +\| <= 0.02 +\| 0.03 +\| relative +\| NO ", text)
    met = replace(ran(), checks=ran().checks[2:])
    assert "All thresholds are met." in document(pilot_of("train"), met)


def test_both_decisions_stand_beside_each_other():
    text = document(pilot_of("train"), ran())
    assert text.startswith(
        "# Migration: chat, p5.48xlarge to trn1.32xlarge\n\n**go** (a close call). it"
    )
    assert "Before the pilot: pilot. trn1.32xlarge pays back in most draws." in text
    assert "1.111" in text
    assert "30.0%" in text


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict.GO, "1. Plan the work: 60,000 USD"),
        (Verdict.PILOT, "1. Settle first what makes this a pilot: it pays back."),
        (Verdict.NO_GO, "None: stay on p5.48xlarge."),
        (Verdict.STAY, "None: stay on p5.48xlarge."),
        (Verdict.NEEDS_QUOTE, "ask AWS for a price of trn1.32xlarge. It pays back below 26 USD"),
    ],
)
def test_the_steps_are_those_of_the_verdict(verdict, text):
    made = document(pilot_of("train"), ran(verdict=verdict))
    assert text in made
    assert ("trnsim guard write decision.json" in made) == (verdict in ("go", "pilot"))


def test_text_of_the_inventory_is_no_markdown():
    text = document(
        pilot_of("train"), ran(reason="<b>CUDA</b>", split=("aten::a", "<i>", "aten::a"))
    )
    assert r"\<b\>CUDA\</b\>." in text
    assert r"do not run: aten::a, \<i\>." in text


def test_operators_that_stay_on_a_gpu_are_a_step():
    assert "Keep a GPU for what AWS's chips do not run: aten::fft." in document(
        pilot_of("train"), ran()
    )
