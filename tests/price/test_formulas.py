from datetime import date

import pytest

from trnsim.errors import BadInput
from trnsim.price import (
    quote,
    relative_cost,
    usd_per_million_tokens,
)

DAY = date(2026, 10, 15)


def test_usd_per_million_tokens():
    assert usd_per_million_tokens(36.0, 10_000) == pytest.approx(1.0)


def test_usd_per_million_tokens_needs_tokens():
    with pytest.raises(BadInput, match=r"^tokens per second must be positive, not 0"):
        usd_per_million_tokens(36.0, 0)


def test_relative_cost_of_one_kind():
    ours = quote("trn2.48xlarge", "capacity_block", as_of=DAY)
    theirs = quote("p5en.48xlarge", "capacity_block", as_of=DAY)
    assert relative_cost(ours, theirs, 2.0) == pytest.approx(35.7608 / 63.158 / 2)


def test_kinds_are_not_mixed_silently():
    ours = quote("trn2.48xlarge", "capacity_block", as_of=DAY)
    theirs = quote("p5en.48xlarge", "on_demand", as_of=DAY)
    with pytest.raises(
        BadInput,
        match=r"^trn2\.48xlarge capacity_block against p5en\.48xlarge on_demand: "
        r"different purchase kinds do not compare\n  fix: compare one kind",
    ):
        relative_cost(ours, theirs)
    mixed = relative_cost(ours, theirs, is_mixed_on_purpose=True)
    assert mixed == pytest.approx(35.7608 / 63.296)


def test_relative_cost_without_a_public_price_is_none():
    ours = quote("trn2.48xlarge", "on_demand", as_of=DAY)
    theirs = quote("p5en.48xlarge", "on_demand", as_of=DAY)
    assert relative_cost(ours, theirs) is None


NAN = float("nan")


def test_what_is_no_number_is_refused():
    with pytest.raises(BadInput, match=r"must be positive, not nan"):
        usd_per_million_tokens(1.0, NAN)
    ours = quote("trn2.48xlarge", "capacity_block", as_of=DAY)
    for ratio in (0.0, -1.0, NAN):
        with pytest.raises(BadInput, match=r"^the ratio of work must be positive, not "):
            relative_cost(ours, ours, ratio)
