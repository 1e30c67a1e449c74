"""Savings on one basis: staying saves nothing, shared errors cancel, dollars are found by hand."""

from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from place_cases import places
from workload_cases import workload

from trnsim.decide.compare import WorkloadComparison, origin_price
from trnsim.decide.decision import Migration
from trnsim.decide.draws import Draws
from trnsim.decide.inventory.workload import CurrentDeployment

P5, TRN1, TRN2 = "p5.48xlarge", "trn1.32xlarge", "trn2.48xlarge"
COST = Migration(12.0, 5000.0, 60_000.0)
DOUBTS = {P5: {"train on GPUs": 0.08, "train on h100": 0.29}, TRN1: {"train on trn": 0.14}}
BLOCK = CurrentDeployment(P5, 4, "capacity_block", 85_000.0, None)


def compared(speeds, doubts=None, name=TRN1, **changes):
    """A comparison, and the place that is compared."""
    given = workload(current=BLOCK, **changes)
    destination = places(speeds, doubts or DOUBTS)
    origin = destination.origin(given)
    return WorkloadComparison(given, origin, Draws("a"), 12.0), destination.destination(
        given, name, origin
    )


@settings(max_examples=25, deadline=None)
@drawn(st.floats(1e3, 1e6), st.sampled_from(["train", "serve"]), st.floats(1e8, 1e13))
def test_staying_saves_nothing(speed, kind, volume):
    given = workload(kind, volume=volume, current=replace(BLOCK, kind="on_demand"))
    origin = places({P5: speed}, DOUBTS).origin(given)
    found = WorkloadComparison(given, origin, Draws("a"), 12.0).candidate(origin, COST)
    assert found.saving.p10 == found.saving.p50 == found.saving.p90 == 0
    assert found.usd_per_month.p50 == given.current.usd_per_month


def test_dollars_are_found_again_by_hand():
    case, destination = compared({P5: 76_728.0, TRN1: 22_681.0})
    found, today = case.candidate(destination, COST), case.today()
    cost = 85_000 * (found.paid_hours * 9.532) / (today.paid_hours * 41.528)
    assert found.usd_per_month.p50 == pytest.approx(cost)
    assert found.saving.p50 == pytest.approx(1 - cost / 85_000)
    assert found.pays_back_months.p50 == pytest.approx(60_000 / (85_000 - cost))
    assert sum(found.usd.values()) == pytest.approx(cost)


def test_the_bill_is_compared_with_what_is_predicted():
    case, _ = compared({P5: 76_728.0, TRN1: 22_681.0})
    hours = 4e11 / 76_728 / 3600
    assert case.bill_ratio == pytest.approx(85_000 / (hours * 41.528), rel=1e-3)
    assert replace(case, origin=replace(case.origin, speed=None)).bill_ratio is None
    spot = replace(case.workload, current=replace(BLOCK, kind="spot"))
    assert replace(case, workload=spot).bill_ratio is None


def test_at_the_break_even_price_it_pays_back_in_time():
    case, destination = compared({P5: 76_728.0, TRN1: 22_681.0})
    usd = case.break_even(destination, COST)
    ratio = destination.hours * usd / (case.origin.hours * case.price.usd_per_hour)
    assert 60_000 / (85_000 * (1 - ratio)) == pytest.approx(12)


def test_no_price_pays_back_a_small_bill():
    case, destination = compared({P5: 76_728.0, TRN1: 22_681.0})
    small = replace(case.workload, current=replace(BLOCK, usd_per_month=4_999.0))
    assert replace(case, workload=small).break_even(destination, COST) is None


def test_an_error_of_both_sides_cancels():
    shared = {P5: {"the same": 0.5}, TRN1: {"the same": 0.5}}
    case, destination = compared({P5: 76_728.0, TRN1: 22_681.0}, shared)
    found = case.candidate(destination, COST)
    assert found.saving.p90 - found.saving.p10 < 0.15  # prices alone
    apart, destination = compared(
        {P5: 76_728.0, TRN1: 22_681.0}, {P5: {"a": 0.5}, TRN1: {"b": 0.5}}
    )
    found = apart.candidate(destination, COST)
    assert found.saving.p90 - found.saving.p10 > 0.5


def test_the_widest_input_comes_first_in_a_tornado():
    case, destination = compared({P5: 76_728.0, TRN1: 22_681.0})
    swings = case.tornado(destination, COST)
    assert swings[0].input == "performance"
    assert {one.input for one in swings} == {"performance", "price", "effort", "demand"}
    by_name = {one.input: one for one in swings}
    assert by_name["performance"].low > by_name["performance"].high  # slower there saves less
    assert by_name["demand"].low < by_name["demand"].high


def test_without_a_price_there_is_a_break_even_alone():
    given = workload("serve", current=CurrentDeployment(P5, 8, "on_demand", 321_000.0, None))
    destination = places({P5: 37_461.0, TRN2: 29_615.0})
    origin = destination.origin(given)
    found = WorkloadComparison(given, origin, Draws("a"), 12.0).candidate(
        destination.destination(given, TRN2, origin), COST
    )
    assert found.saving is None
    assert found.usd_per_month is None
    assert found.break_even_usd_per_hour > 0


def test_a_negotiated_rate_is_that_of_the_bill():
    given = workload(current=CurrentDeployment(P5, 1000, "private", 30e6, None))
    origin = places({P5: 8e4}).origin(given)
    assert origin_price(given, origin).usd_per_hour == pytest.approx(30e6 / 1000 / 730)
    hours = workload(
        volume=5_840_000.0,
        volume_unit="gpu_hours",
        current=CurrentDeployment(P5, None, "private", 30e6, None),
    )
    assert origin_price(hours, places({P5: 8e4}).origin(hours)).usd_per_hour == pytest.approx(
        41.1, rel=0.01
    )


def test_a_place_that_is_refused_says_why():
    case, _ = compared({P5: 8e4})
    destination = places({P5: 8e4}).destination(case.workload, TRN1, case.origin)
    found = case.candidate(destination, COST)
    assert found.refused == "no room"
    assert found.saving is None
