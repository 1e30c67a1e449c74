import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.tools.monitor.periods import early_s, end_s

SECONDS = st.floats(0, 1e6)
PERIODS = st.floats(1e-3, 3600)


@pytest.mark.parametrize(
    ("now_s", "period_s", "expected"),
    [(100.0, 2.0, 102.0), (101.9, 2.0, 102.0), (101.996, 2.0, 104.0), (107.3, 2.0, 108.0)],
)
def test_the_end_of_the_period_that_goes_on(now_s, period_s, expected):
    assert end_s(now_s, 100.0, period_s) == expected


@given(SECONDS, SECONDS, PERIODS)
def test_the_end_is_whole_periods_after_the_beginning_and_ahead(since_s, began_s, period_s):
    now_s = began_s + since_s
    found = end_s(now_s, began_s, period_s)
    assert now_s + early_s(period_s) - 1e-6 <= found <= now_s + early_s(period_s) + period_s + 1e-6
    count = (found - began_s) / period_s
    assert count == pytest.approx(round(count), abs=1e-4)


@given(SECONDS, SECONDS, PERIODS, st.integers(1, 60))
def test_a_longer_period_ends_with_one_of_the_shorter(since_s, began_s, period_s, times):
    end = end_s(began_s + since_s, began_s, period_s * times)
    count = (end - began_s) / period_s
    assert count == pytest.approx(round(count), abs=1e-3)


def test_a_short_period_is_not_over_at_once():
    assert early_s(0.001) == 0.0005
    assert early_s(3600) == 0.005
