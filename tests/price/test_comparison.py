"""What is said beside a comparison: two kinds, and days more than 90 apart."""

from dataclasses import replace
from datetime import date

import pytest

from trnsim.arch.catalogue import catalogue, parse, read_rows
from trnsim.arch.prices import Credit
from trnsim.errors import BadInput
from trnsim.facts import assumed
from trnsim.price import caveats, credit_lines, quote

DAY = date(2026, 11, 20)


def priced(*days):
    """Two quotes of one kind whose prices are of `days`."""
    rows = read_rows()
    names = ("p5.48xlarge", "p5en.48xlarge")
    kept = [row for row in rows["prices"] if row["instance"] not in names]
    made = [
        {
            "instance": name,
            "kind": "spot",
            "usd_per_hour": 1.0,
            "region": "US",
            "as_of": day,
            "source": ["kiln"],
        }
        for name, day in zip(names, days, strict=True)
    ]
    catalogue = parse({**rows, "prices": [*kept, *made]})
    return [quote(name, "spot", as_of=DAY, rows=catalogue) for name in names]


def test_equal_kinds_and_near_days_need_no_word():
    assert caveats(priced("2026-08-01", "2026-10-30")) == ()


def test_days_more_than_90_apart_are_said():
    assert caveats(priced("2026-08-01", "2026-10-31")) == (
        "prices of 2026-08-01 (p5.48xlarge) and 2026-10-31 (p5en.48xlarge), 91 days apart",
    )
    assert caveats(priced("2026-10-31", "2026-08-01")) == (
        "prices of 2026-08-01 (p5en.48xlarge) and 2026-10-31 (p5.48xlarge), 91 days apart",
    )


def test_a_price_that_held_for_long_is_near_to_all_of_its_days():
    assert caveats(priced("2024-01-01..2026-10-01", "2026-10-31")) == ()


def test_two_kinds_are_refused_unless_they_are_said():
    two = [
        quote("trn2.48xlarge", "capacity_block", as_of=DAY),
        quote("p5.48xlarge", "on_demand", as_of=DAY),
    ]
    with pytest.raises(
        BadInput,
        match=r"^trn2\.48xlarge capacity_block against p5\.48xlarge on_demand: different purchase",
    ):
        caveats(two)
    assert caveats(two, is_mixed_on_purpose=True) == ("mixed prices: capacity_block, on_demand",)


def test_nothing_is_said_of_what_has_no_price():
    none = quote("Trn3 Gen2 UltraServer", "on_demand", as_of=DAY)
    assert caveats([none, quote("p5.48xlarge", "on_demand", as_of=DAY)]) == ()
    assert caveats([]) == ()


def test_credits_are_said_with_their_last_day_and_note():
    owned = (
        Credit(assumed(1500.0, "own"), DAY, "activate"),
        Credit(assumed(2.5, "own"), None, ""),
    )
    assert credit_lines(replace(catalogue(), credits=owned)) == [
        "credit: 1,500.00 USD until 2026-11-20 (activate)",
        "credit: 2.50 USD",
    ]
    assert credit_lines(catalogue()) == []
