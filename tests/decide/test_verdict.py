"""Verdicts: rules that forbid, shares of draws, quotes, and close calls."""

import pytest
from place_cases import places
from workload_cases import workload

from trnsim.decide.compare import WorkloadComparison
from trnsim.decide.decision import Migration, Ruling, Verdict
from trnsim.decide.draws import DRAWS, Draws
from trnsim.decide.inventory.workload import CurrentDeployment
from trnsim.decide.rules import FORBIDS
from trnsim.decide.verdict import best, judge, quotable

P5, P5EN, TRN1, TRN2 = "p5.48xlarge", "p5en.48xlarge", "trn1.32xlarge", "trn2.48xlarge"
COST = Migration(12.0, 5000.0, 60_000.0)
DOUBTS = {P5: {"here": 0.2}, TRN1: {"there": 0.14}, TRN2: {"there": 0.3}, P5EN: {"here": 0.2}}
EQUAL_COST = 8e4 * 9.532 / 41.528
"""Tokens a second of a trn1 that cost what they cost on a p5 of 80,000."""


def pairs(speeds, usd=1e5, kind="capacity_block", told="train", **given):
    work = workload(told, current=CurrentDeployment(P5, 4, kind, usd, None))
    found = places({P5: 8e4, **speeds}, DOUBTS, **given)
    origin = found.origin(work)
    case = WorkloadComparison(work, origin, Draws("a"), 12.0)
    made = [found.destination(work, name, origin) for name in speeds]
    return [(destination, case.candidate(destination, COST)) for destination in made]


def judged(found, rules=(), *, is_neuron_today=False, refused=None, bill_ratio=None):
    return judge(
        found,
        rules,
        is_neuron_today=is_neuron_today,
        refused=refused,
        draws=DRAWS,
        limit_months=12.0,
        bill_ratio=bill_ratio,
    )


def test_half_the_cost_on_a_validated_family_is_a_go():
    found = judged(pairs({TRN1: 2 * EQUAL_COST}))
    assert (found.verdict, found.best) == (Verdict.GO, TRN1)
    assert "trn1.32xlarge saves 50% at P50" in found.reason
    assert "training is validated there" in found.reason


@pytest.mark.parametrize(
    ("times", "verdict"), [(None, "go"), (1 / 3, "go"), (3, "go"), (0.33, "pilot"), (3.01, "pilot")]
)
def test_a_bill_that_does_not_belong_to_its_volume_is_no_go_ahead(times, verdict):
    found = judged(pairs({TRN1: 2 * EQUAL_COST}), bill_ratio=times)
    assert found.verdict == verdict
    assert ("check both" in found.reason) == (verdict == "pilot")


def test_where_no_move_pays_a_cheaper_gpu_is_named():
    found = pairs({TRN1: EQUAL_COST / 2, P5EN: 4e5})
    assert judged(found).reason.endswith("; p5en.48xlarge saves 70% with the same programs")
    assert "with the same programs" not in judged(found, is_neuron_today=True).reason
    assert "with the same programs" not in judged(pairs({TRN1: EQUAL_COST / 2})).reason


def test_half_the_cost_on_another_family_is_a_pilot():
    found = judged(pairs({TRN1: 2 * EQUAL_COST}, is_validated=False))
    assert found.verdict is Verdict.PILOT
    assert found.reason.endswith("plans of training are not validated there")


def test_a_fifth_saved_with_doubt_is_a_pilot():
    found = judged(pairs({TRN1: 1.2 * EQUAL_COST}))
    assert found.verdict is Verdict.PILOT
    assert "less than the 90% of a move" in found.reason


@pytest.mark.parametrize(("is_neuron_today", "verdict"), [(False, "no-go"), (True, "stay")])
def test_what_costs_more_is_left_where_it_is(is_neuron_today, verdict):
    found = judged(pairs({TRN1: 0.5 * EQUAL_COST}), is_neuron_today=is_neuron_today)
    assert found.verdict == verdict
    assert found.reason == "trn1.32xlarge, the cheapest, costs 100% more than today at P50"
    assert found.best is None


def test_a_rule_that_forbids_comes_first():
    rule = Ruling("several clouds", "not-recommended", True, FORBIDS, "portability_needed is yes")
    found = judged(pairs({TRN1: 2 * EQUAL_COST}), [rule])
    assert found.verdict is Verdict.NO_GO
    assert found.reason == "several clouds: portability_needed is yes"


def test_a_rule_that_does_not_hold_forbids_nothing():
    rule = Ruling("several clouds", "not-recommended", False, FORBIDS, "")
    assert judged(pairs({TRN1: 2 * EQUAL_COST}), [rule]).verdict is Verdict.GO


def test_a_share_that_errors_cover_is_a_close_call_and_stays():
    """A bill at which the migration pays back in time in half of the draws."""
    found = judged(pairs({TRN1: EQUAL_COST / 0.774}, usd=23_800.0))
    assert found.verdict is Verdict.NO_GO
    assert found.is_close_call


def test_without_an_equal_kind_a_quote_is_asked_for():
    found = judged(pairs({TRN2: 8e4}, kind="on_demand", told="serve"))
    assert (found.verdict, found.best) == (Verdict.NEEDS_QUOTE, TRN2)
    assert "no public price (on_demand); a capacity_block costs 35.76 USD/h: ask" in found.reason


def test_no_quote_is_asked_for_where_public_prices_are_higher():
    found = judged(pairs({TRN2: 3e4}, kind="on_demand", told="serve"))
    assert found.verdict is Verdict.NO_GO


def test_no_quote_is_asked_for_where_no_price_pays_back():
    found = pairs({TRN2: 8e4}, usd=3000.0, kind="on_demand", told="serve")
    assert quotable(found) is None
    assert judged(found).verdict is Verdict.NO_GO


def test_of_equal_savings_the_validated_one_is_taken():
    found = pairs({TRN1: 2 * EQUAL_COST, TRN2: 2.02 * 8e4 * 35.7608 / 41.528})
    place, one = found[1]
    doubtful = (place, type(one)(**{**vars(one), "is_validated": False}))
    assert best([found[0], doubtful])[1].instance == TRN1


def test_a_gpu_that_saves_more_is_told_and_forbids_a_go():
    found = judged(pairs({TRN1: 2 * EQUAL_COST, P5EN: 8e4 * 63.158 / 41.528 * 3}))
    assert found.verdict is Verdict.PILOT
    assert "p5en.48xlarge saves 67% with the same programs" in found.reason


def test_a_missed_promise_is_no_place_to_move_to():
    assert best(pairs({TRN1: 2 * EQUAL_COST}, is_met=False)) is None


def test_an_instance_that_is_not_predicted_today_is_left():
    found = judged([], refused="no room")
    assert found.verdict is Verdict.NO_GO
    assert found.reason == "today's instance is not predicted: no room"


def test_chips_without_new_software_are_named_as_no_place_to_move_to():
    found = pairs({"inf1.6xlarge": 8e4, "inf1.24xlarge": 8e4}, kind="on_demand", told="serve")
    assert all(move.saving is not None for _, move in found)
    assert judged(found).reason == (
        "no instance with AWS's chips can run it at a price of the same kind, except inf1.6xlarge, "
        "which is no place to move to: inferentia1 gets no new software"
    )
    without = judged(pairs({}))
    assert without.reason == "no instance with AWS's chips can run it at a price of the same kind"
