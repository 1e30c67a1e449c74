from datetime import date

import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.errors import BadInput
from trnsim.price import history, priced_kinds, quote, today

OCTOBER = date(2026, 10, 15)


def test_the_newest_price_of_the_kind_is_quoted():
    found = quote("p5en.48xlarge", "capacity_block", as_of=OCTOBER)
    assert found.usd_per_hour == 63.158
    assert str(found) == "63.16 USD/h capacity_block US 2026-10-09"


def test_an_earlier_day_sees_the_earlier_price():
    assert quote("p5.48xlarge", "on_demand", as_of=date(2024, 6, 1)).usd_per_hour == 98.32
    assert quote("p5.48xlarge", "on_demand", as_of=OCTOBER).usd_per_hour == 55.04


def test_no_public_price_is_a_value():
    found = quote("trn2.48xlarge", "on_demand", as_of=OCTOBER)
    assert found.usd_per_hour is None
    assert not found.is_stale
    assert str(found) == "no public price (on_demand)"
    assert quote("Trn3 Gen2 UltraServer", "capacity_block", as_of=OCTOBER).usd_per_hour is None


def test_a_kind_is_never_replaced_by_another():
    assert quote("trn2.48xlarge", "ri_3y", as_of=OCTOBER).row is None


def test_a_price_older_than_ninety_days_warns():
    found = quote("trn1.32xlarge", "on_demand", as_of=date(2026, 11, 21))
    assert found.is_stale
    assert str(found).endswith("2026-07-20 (warning: 124 days old)")
    assert not quote("trn1.32xlarge", "on_demand", as_of=OCTOBER).is_stale


def test_a_changed_row_changes_the_quote():
    rows = read_rows()
    for row in rows["prices"]:
        if row["instance"] == "trn2.48xlarge" and row["kind"] == "capacity_block":
            row["usd_per_hour"] = 1.0
    found = quote("trn2.48xlarge", "capacity_block", as_of=OCTOBER, rows=parse(rows))
    assert found.usd_per_hour == 1.0


def test_history_is_newest_first_and_of_one_kind():
    prices = history("p5en.48xlarge", "capacity_block")
    assert [price.last_seen for price in prices] == sorted(
        (price.last_seen for price in prices), reverse=True
    )
    assert {price.kind for price in prices} == {"capacity_block"}


def test_an_unknown_kind_lists_the_legal_ones():
    with pytest.raises(
        BadInput, match=r"^purchase kind 'cheap' is not known; legal: on_demand, capacity_block, "
    ):
        quote("trn2.48xlarge", "cheap")


def test_an_unknown_instance_is_refused():
    with pytest.raises(BadInput, match=r"^instance 'trn9' is not in the catalogue"):
        quote("trn9", "spot")


def test_today_is_never_before_the_catalogue():
    rows = read_rows()
    rows["generated"] = "2999-01-01"
    assert today(parse(rows)) == date(2999, 1, 1)


def test_a_gpu_of_a_block_cost_3_to_4_usd_in_late_2025():
    found = quote("p5.48xlarge", "capacity_block", as_of=date(2025, 12, 11))
    assert found.usd_per_hour / 8 == pytest.approx(3.933)
    assert not found.is_stale


def test_the_price_of_a_day_is_that_of_its_own_time():
    days = {date(2025, 6, 1): 98.32, date(2025, 6, 23): 55.04, date(2025, 12, 11): 55.04}
    assert {day: quote("p5.48xlarge", "on_demand", as_of=day).usd_per_hour for day in days} == days


def test_the_price_of_a_region_is_asked_for():
    def blocks(region):
        return quote(
            "p5.48xlarge", "capacity_block", as_of=date(2026, 8, 1), region=region
        ).usd_per_hour

    assert (blocks("us-east-1"), blocks("eu-west-2"), blocks(None)) == (41.528, 37.76, 41.528)


def test_a_region_without_a_price_has_none():
    found = quote("trn2.48xlarge", "capacity_block", as_of=OCTOBER, region="eu-west-1")
    assert str(found) == "no public price (capacity_block) in eu-west-1"


def test_a_region_that_is_none_is_refused():
    with pytest.raises(BadInput, match=r"^region is 'Mars'; legal: the code of an AWS"):
        quote("trn2.48xlarge", "capacity_block", region="Mars")


def test_a_day_in_the_future_is_refused():
    with pytest.raises(BadInput, match=r"^2999-01-01 is in the future; legal: up to 2\d\d\d-"):
        quote("trn2.48xlarge", "capacity_block", as_of=date(2999, 1, 1))


def test_a_day_before_the_first_price_says_which_day_that_is():
    found = quote("trn2.48xlarge", "capacity_block", as_of=date(2025, 12, 11))
    assert found.usd_per_hour is None
    assert str(found) == (
        "no price known on 2025-12-11 (capacity_block); the first known is of 2026-01-31"
    )


def test_a_row_that_is_gone_changes_only_what_rests_on_it():
    rows = read_rows()
    pairs = {(row["instance"], row["kind"]) for row in rows["prices"]}

    def quoted(prices):
        known = parse({**rows, "prices": prices})
        names = {row["instance"] for row in prices}
        return {
            pair: str(quote(*pair, as_of=OCTOBER, rows=known)) for pair in pairs if pair[0] in names
        }

    before = quoted(rows["prices"])
    for number in range(0, len(rows["prices"]), 7):
        gone = rows["prices"][number]
        after = quoted([*rows["prices"][:number], *rows["prices"][number + 1 :]])
        changed = {pair for pair, said in after.items() if said != before[pair]}
        assert changed <= {(gone["instance"], gone["kind"])}


def test_the_kinds_that_have_a_price_are_those_of_a_day_and_a_region():
    day = date(2026, 11, 20)
    assert priced_kinds("g5.48xlarge", day) == ["on_demand"]
    kinds = priced_kinds("trn2.48xlarge", day)
    assert kinds == ["capacity_block", "capacity_block_paid", "spot", "spot_paid"]
    assert priced_kinds("trn2.48xlarge", day, region="eu-west-2") == []
    assert priced_kinds("trn2u.48xlarge", day) == []
    for kind in kinds:
        assert quote("trn2.48xlarge", kind, as_of=day).usd_per_hour
