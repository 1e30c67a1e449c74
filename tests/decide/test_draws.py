"""Draws: of median 1, the same for the same names, with P10 and P90 where they belong."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.decide.draws import DRAWS, Draws, at_quantile, interval_around, is_close


@pytest.mark.slow
@given(st.integers(0, 2**31), st.text(max_size=8), st.floats(0.001, 1))
def test_one_input_has_no_sampling_error(seed, name, sigma):
    found = np.log(Draws(name, seed).factor({"a": sigma}))
    assert np.median(found) == pytest.approx(0, abs=1e-9)
    assert np.quantile(found, 0.9) == pytest.approx(math.log(at_quantile(sigma, "p90")), rel=0.01)


def test_draws_depend_on_names_and_seed_alone():
    one, again, other, reseeded = (
        Draws(name, seed).normal("speed") for name, seed in (("a", 0), ("a", 0), ("b", 0), ("a", 1))
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, reseeded)


def test_any_name_has_draws():
    assert len(Draws("\ud800").normal("speed")) == DRAWS


def test_inputs_are_independent():
    draws = Draws("a")
    correlation = np.corrcoef(draws.normal("one"), draws.normal("two"))[0, 1]
    assert abs(correlation) < 4 / math.sqrt(DRAWS)


def test_two_inputs_add_in_squares():
    found = np.log(Draws("a").factor({"one": 0.3, "two": 0.4}))
    assert found.std() == pytest.approx(0.5, rel=0.03)


def test_the_median_lies_in_its_interval():
    found = interval_around(5.0, np.array([1.0, 2.0, 3.0]))
    assert found.p90 == found.p50 == 5.0


@pytest.mark.parametrize(
    ("share", "is_it"), [(0.5, True), (0.523, True), (0.525, False), (0.477, True), (0.47, False)]
)
def test_a_share_within_three_standard_errors_is_close(share, is_it):
    assert is_close(share, 0.5, 4000) is is_it
