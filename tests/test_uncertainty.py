import numpy as np
import pytest

from trnsim.facts import Evidence, Interval, assumed, derived, documented, measured
from trnsim.uncertainty import FactDraws, interval

FACTS = {
    "peak": documented(100.0, "a page"),
    "rate": measured(10.0, "a run"),
    "training efficiency": assumed(0.5, "a guess"),
}


def test_draws_have_the_facts_median_and_its_kinds_spread():
    draws = FactDraws(FACTS).draw("training efficiency")
    assert np.median(draws) == pytest.approx(0.5, rel=0.03)
    assert draws.std() / draws.mean() == pytest.approx(Evidence.ASSUMED.spread, rel=0.1)


def test_a_weaker_kind_spreads_wider():
    inputs = FactDraws(FACTS)
    narrow, wide = interval(inputs.draw("peak")), interval(inputs.draw("training efficiency"))
    assert wide.p90 / wide.p10 > narrow.p90 / narrow.p10


def test_the_same_seed_draws_the_same_and_another_does_not():
    assert (FactDraws(FACTS).draw("peak") == FactDraws(FACTS).draw("peak")).all()
    assert (FactDraws(FACTS, seed=1).draw("peak") != FactDraws(FACTS).draw("peak")).any()


def test_percentiles_are_ordered():
    found = interval(FactDraws(FACTS).draw("rate"))
    assert found.p10 < found.p50 < found.p90
    assert found.scaled(2) == Interval(2 * found.p10, 2 * found.p50, 2 * found.p90)


def test_the_basis_counts_only_what_was_asked_for():
    inputs = FactDraws(FACTS)
    inputs.draw("peak")
    assert str(inputs.basis()) == ("inputs: 1 documented, 0 measured, 0 derived, 0 assumed")
    inputs.draw("training efficiency")
    assert inputs.basis().assumed == ("training efficiency = 0.5: a guess",)


def test_a_fact_with_a_spread_of_its_own_is_drawn_with_that():
    draws = FactDraws({"slope": derived(1.0, "two pages", 0.5)}).draw("slope")
    assert draws.std() / draws.mean() == pytest.approx(0.5, rel=0.1)
