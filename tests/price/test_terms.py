"""What can be bought: the edges of every duration and size that is sold."""

from dataclasses import replace
from datetime import date

import pytest

from trnsim.errors import BadInput
from trnsim.price import purchase, quote, why_not

DAY = date(2026, 10, 15)


def block():
    return quote("trn2.48xlarge", "capacity_block", as_of=DAY)


def test_a_block_is_sold_up_to_182_days_and_never_all_year_round():
    assert why_not(block(), days=182, instances=1) is None
    assert why_not(block(), days=182.01, instances=1) == (
        "capacity_block is sold for 182 days at most, not for 182.01 days"
    )
    assert why_not(block(), days=None, instances=1) == (
        "capacity_block is sold for 182 days at most, not for all year round"
    )


@pytest.mark.parametrize(("longest", "is_sold"), [(364, False), (365, True), (3650, True)])
def test_what_is_sold_for_a_year_is_for_all_year_round(longest, is_sold):
    found = block()
    terms = replace(found.row.terms, longest_days=longest)
    long = replace(found, row=replace(found.row, terms=terms))
    assert (why_not(long, days=None, instances=1) is None) is is_sold


def test_a_block_has_64_instances_at_most_and_an_account_256():
    assert why_not(block(), days=1, instances=64) is None
    assert why_not(block(), days=1, instances=65) == (
        "capacity_block is sold in sizes of 64 instances at most, not 65"
    )
    assert why_not(block(), days=1, instances=256, is_together=False) is None
    assert why_not(block(), days=1, instances=257, is_together=False) == (
        "capacity_block is sold up to 256 instances in all, not 257"
    )


@pytest.mark.parametrize(
    ("days", "paid"),
    [(0.1, 1), (1, 1), (1.5, 2), (14, 14), (14.5, 21), (15, 21), (21, 21), (176, 182)],
)
def test_a_block_is_paid_for_in_days_and_then_in_weeks(days, paid):
    assert purchase(block(), days=days, instances=1).days == paid


@pytest.mark.parametrize(
    ("days", "paid"), [(1, 30), (20, 30), (30, 30), (30.5, 35), (35.5, 42), (41, 42), (42.5, 45)]
)
def test_a_users_own_terms_bound_what_is_paid_for(days, paid):
    """Blocks in weeks, of a user who has agreed on 30 days at least and 45 at most."""
    listed = block()
    terms = replace(listed.row.terms, shortest_days=30, longest_days=45)
    own = replace(listed, row=replace(listed.row, terms=terms))
    assert purchase(own, days=days, instances=1).days == paid


@pytest.mark.parametrize(("instances", "paid"), [(1, 1), (3, 4), (4, 4), (33, 64), (64, 64)])
def test_a_block_is_paid_for_in_powers_of_two(instances, paid):
    bought = purchase(block(), days=2, instances=instances)
    assert bought.instances == paid
    assert bought.usd == pytest.approx(2 * 24 * paid * 35.7608)


def test_on_demand_is_paid_for_as_it_is_used():
    found = quote("trn1.32xlarge", "on_demand", as_of=DAY)
    assert why_not(found, days=None, instances=1000) is None
    bought = purchase(found, days=1.5, instances=3)
    assert (bought.days, bought.instances) == (1.5, 3)
    assert bought.usd == pytest.approx(1.5 * 24 * 3 * 21.5)


def test_a_reserved_year_is_paid_for_a_year():
    found = quote("p4d.24xlarge", "ri_1y", as_of=DAY)
    assert why_not(found, days=None, instances=1) is None
    assert why_not(found, days=365, instances=1) is None
    assert (
        why_not(found, days=364, instances=1) == "ri_1y is paid for 365 days at least, not for 364"
    )


def test_without_a_public_price_nothing_can_be_bought():
    found = quote("Trn3 Gen2 UltraServer", "on_demand", as_of=DAY)
    assert why_not(found, days=1, instances=1) == "no public price (on_demand)"
    with pytest.raises(
        BadInput,
        match=r"^Trn3 Gen2 UltraServer cannot be bought for 1 day x 1 instance: no public price",
    ):
        purchase(found, days=1, instances=1)


def test_a_block_longer_than_sold_is_refused():
    with pytest.raises(
        BadInput,
        match=r"^trn2\.48xlarge cannot be bought for 183 days x 1 instance: capacity_block is "
        r"sold for 182 days at most, not for 183 days(\n|$)",
    ):
        purchase(block(), days=183, instances=1)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf")])
def test_days_are_positive_and_finite(days):
    with pytest.raises(BadInput, match=r"^days is .*; legal: above 0, and finite"):
        why_not(block(), days=days, instances=1)


def test_there_is_at_least_one_instance():
    with pytest.raises(BadInput, match=r"^instances is 0; legal: from 1 on(\n|$)"):
        why_not(block(), days=1, instances=0)
