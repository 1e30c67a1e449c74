"""Stored prices: their days, and the terms of their kind or of their own."""

from datetime import date

import pytest

from trnsim.arch.catalogue import catalogue, parse, read_rows
from trnsim.arch.prices import seen_days
from trnsim.price import KINDS


@pytest.mark.parametrize(
    ("as_of", "days"),
    [
        ("2026-10-09", (date(2026, 10, 9), date(2026, 10, 9))),
        ("2024-12", (date(2024, 12, 1), date(2024, 12, 1))),
        ("2023-10-09..2025-06", (date(2023, 10, 9), date(2025, 6, 1))),
        ("until 2025-12", (date(2025, 12, 1), date(2025, 12, 1))),
        ("2026 (v8 snapshot)", (date(2026, 1, 1), date(2026, 1, 1))),
    ],
)
def test_a_sources_date_becomes_days(as_of, days):
    assert seen_days(as_of) == days


def test_every_kind_has_terms_and_every_price_has_those_of_its_kind():
    rows = catalogue()
    assert set(rows.terms) == set(KINDS)
    assert all(price.terms == rows.terms[price.kind] for price in rows.prices)


def test_a_capacity_block_is_as_its_documentation_says():
    terms = catalogue().terms["capacity_block"]
    assert (terms.shortest_days, terms.longest_days) == (1, 182)
    assert (terms.daily_up_to_days, terms.step_days) == (14, 7)
    assert terms.sizes == (1, 2, 4, 8, 16, 32, 64)
    assert terms.start_within_days == 8 * 7
    assert "UserGuide" in terms.provenance.source


def test_a_row_may_state_its_own_terms():
    rows = read_rows()
    price = next(row for row in rows["prices"] if row["kind"] == "capacity_block")
    price["terms"] = {**rows["terms"]["capacity_block"], "sizes": [2]}
    made = parse(rows).prices[rows["prices"].index(price)]
    assert made.terms.sizes == (2,)
