"""Rates drawn from the spread of their facts."""

import numpy as np
import pytest

from trnsim.arch.draws import sample_core, stack_cores
from trnsim.facts import Count, Evidence, Rate


def test_sampling_moves_rates_and_leaves_counts_and_what_no_rate_differs_by(core):
    other_core = sample_core(core, 1)
    assert other_core.name == core.name
    for name, fact in core.facts().items():
        other = getattr(other_core, name)
        assert other.provenance == fact.provenance
        assert type(other) is type(fact)
        is_none = name.endswith(("_speedup", "_slowdown")) and fact == 1
        assert (other == fact) is (is_none or isinstance(fact, Count)), name
        assert other > 0


def test_several_cores_are_one_whose_rates_are_arrays(core):
    cores = [sample_core(core, draw) for draw in range(5)]
    at_once = stack_cores(cores)
    for name, fact in core.facts().items():
        found = getattr(at_once, name)
        if isinstance(fact, Count):
            assert found is fact
        else:
            assert found.tolist() == [getattr(each, name) for each in cores], name


def test_sampling_is_reproducible_and_spread_as_the_kind_says(core_v2, core_v3):
    draws = np.log([sample_core(core_v2, draw).launch_s / core_v2.launch_s for draw in range(400)])
    assert draws.std() == pytest.approx(Evidence.ASSUMED.spread, rel=0.15)
    assert abs(draws.mean()) < 0.06
    first, second = (sample_core(core_v3, 3) for _ in range(2))
    assert first == second
    assert all(isinstance(f, Count | Rate) for f in first.facts().values())
