"""Rates drawn from the spread of their facts."""

import numpy as np
import pytest

from trnsim.arch.draws import factor, together
from trnsim.facts import Count, Evidence, Rate


def test_a_fact_of_no_spread_stays():
    assert factor(3, "launch_s", 0.0) == 1.0


def test_many_samples_drawn_at_once_are_those_drawn_one_by_one(core):
    at_once, each = core.drawn(5), together([core.sampled(draw) for draw in range(5)])
    for name, fact in core.facts().items():
        found = getattr(at_once, name)
        if isinstance(fact, Count):
            assert found is fact
        else:
            assert found.tolist() == getattr(each, name).tolist(), name


def test_sampling_is_reproducible_and_spread_as_the_kind_says(core_v2, core_v3):
    draws = np.log([core_v2.sampled(draw).launch_s / core_v2.launch_s for draw in range(400)])
    assert draws.std() == pytest.approx(Evidence.ASSUMED.spread, rel=0.15)
    assert abs(draws.mean()) < 0.06
    first, second = (core_v3.sampled(3) for _ in range(2))
    assert first == second
    assert all(isinstance(f, Count | Rate) for f in first.facts().values())
