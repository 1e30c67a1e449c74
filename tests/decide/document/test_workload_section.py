from dataclasses import replace

import pytest
from decision_cases import decision
from shown_pages import Shown

from trnsim.decide.document.figures import figures
from trnsim.decide.document.workload_section import (
    PriceSources,
    sources_items,
    verdict_mark,
    workload_section,
)
from trnsim.document.answer import Document, Items, Mark, Note
from trnsim.document.figure import Figures
from trnsim.document.html import html


def made(found, number=0):
    sources = PriceSources()
    values = Figures(figures(found))
    section = workload_section(found.workloads[number], values, number, 12.0, sources)
    return html(Document("", None, [section])), sources


def test_rules_findings_and_assumptions_are_there():
    text = Shown(made(decision())[0]).text
    words = ("transformer", "32 layers of attention", "train.py:3", "my_kernel", "no room")
    for each in (*words, "on demand, as none is named", "1 instance cannot run it"):
        assert each in text
    assert "pilot, close call" in text


def test_prices_name_their_sources_by_number():
    markup, sources = made(decision())
    assert list(sources.numbers) == ["a table"]
    assert "on_demand, us-east-1, 2026-07-20 [1]" in Shown(markup).text
    assert sources_items(sources) == Items(["a table"], is_numbered=True, kind="small")
    assert sources_items(PriceSources()) == Note("No price was found.")


def test_what_has_no_price_says_why():
    found = decision()
    one = found.workloads[0]
    bare = replace(one.candidates[0], price=None, no_price="no <public> price")
    markup, _ = made(replace(found, workloads=(replace(one, candidates=(bare,)),)))
    assert "no <public> price" in Shown(markup).text
    assert ">26.00</data>" in markup  # the price up to which it would pay back


def test_a_stale_price_and_a_refusal_of_today_are_said():
    found = decision()
    one = found.workloads[0]
    old = replace(one.candidates[0], price=replace(one.candidates[0].price, is_stale=True))
    today = replace(one.today, price=None, hours=None, paid_hours=None, refused="no <way>")
    text, _ = made(replace(found, workloads=(replace(one, candidates=(old,), today=today),)))
    assert "more than 90 days old" in text
    assert "Today is not predicted: no &lt;way&gt;." in text


def test_a_workload_that_nothing_can_run_says_so():
    found = decision()
    one = replace(found.workloads[0], candidates=(), rules=(), findings=(), assumptions=())
    text = Shown(made(replace(found, workloads=(one,)))[0]).text
    assert "No instance can run it." in text
    assert "Found in its programs" not in text


@pytest.mark.parametrize(
    ("is_neuron", "chips"), [(False, "AWS's chips"), (True, "other AWS chips")]
)
def test_a_move_of_programs_on_aws_chips_is_to_other_ones(is_neuron, chips):
    found = decision()
    (one,) = found.workloads
    current = replace(one.candidates[0], instance=one.today.instance, is_neuron=is_neuron)
    text = Shown(made(replace(found, workloads=(replace(one, candidates=(current,)),)))[0]).text
    assert f"A move to {chips}: " in text


def test_a_verdict_is_a_mark():
    (one,) = decision().workloads
    assert verdict_mark(one) == Mark("pilot, close call", "verdict pilot")
