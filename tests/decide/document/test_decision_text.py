"""A decision's text: close calls, missed promises and quotes are said, within 100 columns."""

from dataclasses import replace

from decision_cases import decision

from trnsim.decide.document.decision_document import decision_document
from trnsim.decide.document.workload_section import MOST_TEXT_CANDIDATES
from trnsim.document.text import WIDTH
from trnsim.document.text import text as text_of
from trnsim.facts import Interval


def text(found):
    return text_of(decision_document(found))


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
    assert "1 more, refused or dearer: --json lists them" in changed()


def test_a_missed_promise_and_a_missing_price_are_said():
    one = replace(decision().workloads[0].candidates[0], slo="missed", price=None)
    output = changed(candidates=(one,))
    assert "slo missed" in output
    assert "no price" in output


def test_rules_are_marked_below_the_head_of_their_group():
    assert "  ideal for Trainium\n    yes  transformer: 32 layers of attention" in changed()


def test_the_instance_of_the_verdict_is_in_the_table_however_many_save_more():
    found = decision().workloads[0]
    better = [replace(found.candidates[0], instance=f"gpu-{at}.large") for at in range(20)]
    output = changed(candidates=(*better, *found.candidates))
    assert "  trn1.32xlarge" in output
    assert output.count(".large") == MOST_TEXT_CANDIDATES - 1
    assert "14 more, refused or dearer" in output


def test_the_bill_stands_beside_what_is_predicted():
    output = " ".join(changed().split())
    assert (
        "730 instance-hours x 55.04 USD (on_demand) = 40,179 USD; the bill is 1.99 times" in output
    )
    assert "assumed: on demand, as none is named" in output


def test_without_a_price_here_nothing_is_compared_with_the_bill():
    today = replace(decision().workloads[0].today, price=None)
    assert "predicted here" not in changed(today=today)


def test_another_kind_and_notes_are_said_by_instance():
    moved = decision().workloads[0].candidates[0]
    other = replace(moved, kind="capacity_block", notes=("timed on 64 instances",))
    output = changed(candidates=(other,))
    assert "  trn1.32xlarge: timed on 64 instances\n" in output
    assert "  trn1.32xlarge: capacity_block, against on_demand today\n" in output


def test_the_widest_row_fits_the_page():
    moved = decision().workloads[0].candidates[0]
    wide = replace(
        moved,
        instance="Trn2 UltraServer (u-trn2x64)",
        instances=10_000,
        usd_per_month=Interval(1e6, 234_567_890.0, 2e9),
        saving=Interval(-5.92, -3.79, -1.37),
        slo="missed",
        price=None,
        break_even_usd_per_hour=1234.56,
    )
    output = changed(candidates=(wide,))
    assert max(map(len, output.splitlines())) <= WIDTH
    assert "  u-trn2x64  " in output


def test_assumptions_end_the_text():
    assert "  USD per engineer-week:  5,000 USD" in changed()
