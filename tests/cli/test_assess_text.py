"""A decision's text: close calls, missed promises and quotes are said, within 100 columns."""

import sys
from dataclasses import replace
from pathlib import Path

from trnsim.cli.assess_text import WIDTH, text

sys.path.append(str(Path(__file__).parents[1] / "decide"))

from decision_cases import decision


def changed(**changes):
    """The text of a decision whose workload has other fields."""
    found = decision()
    return text(replace(found, workloads=(replace(found.workloads[0], **changes),)))


def test_the_verdict_comes_first():
    assert changed().startswith("chat: PILOT (close call). trn1.32xlarge pays back in most draws")


def test_lines_are_no_longer_than_the_page():
    output = changed(reason="because " * 60)
    assert max(map(len, output.splitlines())) <= WIDTH


def test_refused_places_are_counted():
    assert "1 more, refused or dearer: --json" in changed()


def test_a_missed_promise_and_a_missing_price_are_said():
    one = replace(decision().workloads[0].candidates[0], slo="missed", price=None)
    output = changed(candidates=(one,))
    assert "slo missed" in output
    assert "needs a quote" in output


def test_rules_are_marked():
    assert "  yes transformer: 32 layers of attention" in changed()


def test_assumptions_end_the_text():
    assert "  USD per engineer-week: 5,000 USD" in changed()
