import pytest

from trnsim.facts import Evidence
from trnsim.price import payback


def test_the_threshold_pays_back_exactly_in_time():
    spend = payback.threshold_usd_per_month(0.4)
    months = payback.MIGRATION_USD / (spend * 0.4)
    assert months == pytest.approx(payback.PAYBACK_LIMIT_MONTHS)


def test_a_dearer_migration_needs_a_larger_bill():
    assert payback.threshold_usd_per_month(0.4, 1e6) > payback.threshold_usd_per_month(0.4, 1e5)


def test_the_inputs_admit_that_they_are_assumed():
    facts = (payback.ENGINEER_WEEKS, payback.USD_PER_ENGINEER_WEEK, payback.PAYBACK_LIMIT_MONTHS)
    assert {fact.provenance.kind for fact in facts} == {Evidence.ASSUMED}


@pytest.mark.parametrize("saving", [0.0, -0.1])
def test_no_spend_pays_back_where_nothing_is_saved(saving):
    assert payback.threshold_usd_per_month(saving) == float("inf")
