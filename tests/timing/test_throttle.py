"""The Tensor Engine's utilization limit: half rate after a pause, full after 3 us of work."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import Work, program_of

from trnsim.arch import NEURONCORE_V3
from trnsim.facts import assumed
from trnsim.isa import Engine
from trnsim.timing import choose_order, replay
from trnsim.timing.throttle import UtilizationLimit

US = 1e-6


def finish(limit, pieces):
    """When pieces of (pause, work) that follow each other end, with their times."""
    now, taken = 0.0, []
    for pause, work in pieces:
        now += pause
        taken.append(limit.record_work(now, work))
        now += taken[-1]
    return now, taken


def test_neuroncore_v2_has_no_limit(core_v2):
    assert finish(UtilizationLimit(core_v2), [(0, US), (9 * US, US)])[1] == [US, US]


def test_work_starts_at_half_rate_and_is_at_full_after_three_microseconds(core_v3):
    limit = UtilizationLimit(core_v3)
    assert limit.value_at(0.0) == 0.5
    # A linear ramp from 1/2 to 1 does 3/4 of the work in its 3 us.
    assert limit.record_work(0.0, 0.75 * 3 * US) == pytest.approx(3 * US)
    assert limit.value_at(3 * US) == 1.0
    assert limit.record_work(3 * US, 5 * US) == pytest.approx(5 * US)


def test_small_pieces_ramp_as_one_large_one_does(core_v3):
    whole, _ = finish(UtilizationLimit(core_v3), [(0, 8 * US)])
    parts, _ = finish(UtilizationLimit(core_v3), [(0, 0.05 * US)] * 160)
    assert parts == pytest.approx(whole)


def test_a_window_of_less_than_half_activity_brings_the_limit_back(core_v3):
    def last(pause):
        limit = UtilizationLimit(core_v3)
        return finish(limit, [(0, 6 * US), (pause, 0.1 * US)])[1][-1]

    assert last(1.4 * US) == pytest.approx(0.1 * US)
    assert last(1.6 * US) == pytest.approx(0.1 * US / 0.5, rel=0.05)


def test_each_ramp_is_told_in_steps(core_v3):
    limit = UtilizationLimit(core_v3)
    finish(limit, [(0, 6 * US), (9 * US, US)])
    steps = limit.ramp_steps(2)
    assert [share for _, _, share in steps] == [0.625, 0.875] * 2
    assert [start for start, _, _ in steps[:2]] == [0, pytest.approx(1.5 * US)]
    assert {length for _, length, _ in steps} == {1.5 * US}


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 4)), min_size=1, max_size=20))
def test_work_takes_between_its_time_and_twice_that(pieces):
    limit = UtilizationLimit(NEURONCORE_V3)
    scaled = [(pause * US, work * US) for pause, work in pieces]
    for (_, work), taken in zip(scaled, finish(limit, scaled)[1], strict=True):
        assert work * (1 - 1e-9) <= taken <= 2 * work * (1 + 1e-9)


def test_only_the_tensor_engine_is_limited(core_v3):
    stream = [(Work(engine, 50, 0), [], []) for engine in (Engine.vector, Engine.tensor)]
    programs = [program_of(core_v3, stream)]
    (placed,) = replay(programs, core_v3, choose_order(programs, core_v3))
    took = [b - a for a, b in zip(placed.start_s, placed.busy_until_s, strict=True)]
    costs = [work.price(core_v3, {}).interval_s for work, _, _ in stream]
    assert took[0] == costs[0]
    assert took[1] > 1.5 * costs[1]


def test_without_a_floor_nothing_is_slower(core_v3):
    core = replace(core_v3, tensor_ramp_start=assumed(1.0, "a test"))
    assert UtilizationLimit(core).record_work(0.0, US) == US
