"""Doubts about a time add up to its spread, and are shared where the constants are."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.arch.catalogue import catalogue
from trnsim.decide.times.speed import Speed, phase_sigmas
from trnsim.estimate.choice import DENOISER, NETWORK
from trnsim.estimate.constants import NEURON
from trnsim.workload.operators import Phase

CHIPS = catalogue().chips


def chip(name):
    return catalogue().accelerator(name)


@given(
    st.sampled_from(["trainium1", "trainium2", "h100", "l4"]),
    st.sampled_from([*Phase, NETWORK, DENOISER]),
    st.floats(0.001, 2),
)
def test_doubts_add_up_to_the_spread(name, phase, sigma):
    found = phase_sigmas(chip(name), phase, sigma)
    assert math.hypot(*found.values()) == pytest.approx(sigma)


def test_all_of_aws_chips_share_the_error_of_their_constants():
    one, two = (phase_sigmas(chip(name), Phase.TRAIN, 0.33) for name in ("trainium1", "trainium2"))
    (shared,) = one.keys() & two.keys()
    assert one[shared] == two[shared] == NEURON[Phase.TRAIN].spread


def test_gpus_share_nothing_with_aws_chips():
    one, two = (phase_sigmas(chip(name), Phase.TRAIN, 0.33) for name in ("trainium1", "h100"))
    assert not one.keys() & two.keys()


def test_a_phase_of_half_the_time_has_half_the_doubt():
    whole, half = (phase_sigmas(chip("h100"), Phase.DECODE, 0.3, share) for share in (1.0, 0.5))
    assert half == pytest.approx({name: value / 2 for name, value in whole.items()})


def test_a_group_shares_its_units():
    assert Speed(10.0, 4, {}, "", is_validated=False, error={}).units_per_hour == 9000
