"""Whole runs: the published rate, the closed form beside a table and beside draws."""

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.system.train.run import (
    CHIP_MTBF_S,
    Reliability,
    best_interval_s,
    goodput,
    kept_fraction,
    straggler_slowdown,
)


def test_the_published_rate_is_one_failure_in_fifty_thousand_hours():
    assert pytest.approx(50_677, rel=1e-3) == CHIP_MTBF_S / 3600


@pytest.mark.parametrize(
    ("chips", "expected"),
    [
        (1_024, (96.9, 99.1, 99.6)),
        (16_384, (83.0, 94.5, 98.1)),
        (65_536, (58.4, 84.5, 95.3)),
        (131_072, (38.5, 74.0, 92.2)),
        (500_000, (4.5, 37.1, 78.7)),
    ],
)
def test_goodput_falls_with_chips_as_in_daly(chips, expected):
    for (stall_s, recovery_s), per_cent in zip(
        [(60, 900), (5, 300), (1, 60)], expected, strict=True
    ):
        given = Reliability(
            checkpoint_s=stall_s, recovery_s=recovery_s, replacement_s=0, straggler_spread=0
        )
        assert 100 * goodput(chips, 1, given).goodput == pytest.approx(per_cent, abs=0.1)


def test_the_closed_form_is_what_draws_of_failures_give():
    mtbf_s, interval_s, stall_s, recovery_s = 3000.0, 400.0, 30.0, 200.0
    random = np.random.default_rng(3)
    elapsed_s = done = 0.0
    for _ in range(20_000):  # each turn: work and a checkpoint, or a failure and its recovery
        failure_s = random.exponential(mtbf_s)
        if failure_s >= interval_s + stall_s:
            elapsed_s, done = elapsed_s + interval_s + stall_s, done + interval_s
            continue
        elapsed_s += failure_s
        while (failure_s := random.exponential(mtbf_s)) < recovery_s:
            elapsed_s += failure_s
        elapsed_s += recovery_s
    assert done / elapsed_s == pytest.approx(
        kept_fraction(mtbf_s, interval_s, stall_s, recovery_s), rel=0.02
    )


def test_the_best_interval_is_youngs_where_failures_are_rare():
    assert best_interval_s(1e6, 5.0) == pytest.approx((2 * 5.0 * 1e6) ** 0.5, rel=0.01)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_no_other_interval_keeps_more(factor):
    best_s = best_interval_s(2000.0, 20.0)
    assert kept_fraction(2000.0, best_s, 20.0, 60.0) > kept_fraction(
        2000.0, factor * best_s, 20.0, 60.0
    )


def test_spares_are_worth_less_each():
    few, some, many = (
        goodput(65_536, 4096, Reliability(spares=n)).kept_fraction for n in (0, 20, 60)
    )
    assert few < some < many
    enough = goodput(65_536, 4096, Reliability(spares=200)).kept_fraction
    assert enough == pytest.approx(
        goodput(65_536, 4096, Reliability(replacement_s=0)).kept_fraction, rel=1e-6
    )


def test_all_wait_for_the_slowest_instance():
    assert straggler_slowdown(1, 0.05) == 1.0
    drawn = np.random.default_rng(0).standard_normal((400, 4096)).max(axis=1).mean()
    assert straggler_slowdown(4096, 0.01) == pytest.approx(1 + 0.01 * drawn, abs=5e-3)


@pytest.mark.parametrize(
    "changed",
    [
        {"chip_mtbf_s": 1e8},
        {"checkpoint_s": 20.0},
        {"recovery_s": 900.0},
        {"replacement_s": 60.0},
        {"straggler_spread": 0.05},
        {"spares": 4},
    ],
)
def test_every_input_moves_the_goodput(changed):
    assert goodput(16_384, 1024).goodput != goodput(16_384, 1024, Reliability(**changed)).goodput


def test_a_job_that_fails_all_the_time_gets_nowhere():
    assert goodput(10**9, 10**7).goodput < 1e-9


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"chip_mtbf_s": 0.0}, "chip_mtbf_s is 0; legal: a positive number"),
        ({"chip_mtbf_s": float("nan")}, "chip_mtbf_s is nan; legal: a positive number"),
        ({"spares": -1}, "spares is -1; legal: zero or a positive number"),
        ({"recovery_s": float("inf")}, "recovery_s is inf; legal: zero or a positive number"),
    ],
)
def test_numbers_that_cannot_be_are_named(changed, said):
    with pytest.raises(BadInput, match=said):
        Reliability(**changed)


@pytest.mark.parametrize(("chips", "hours"), [(1024, 10), (4096, 1), (100_000, 0.01)])
def test_a_job_that_only_recovers_never_ends_and_says_why(chips, hours):
    lost = goodput(chips, chips // 16, Reliability(chip_mtbf_s=3600 * hours))
    assert not lost.can_finish
    assert "goodput 0.0%: a failure every " in lost.why
    assert "1.08 h until training goes on (100% of failures find no spare)" in lost.why
    assert "what helps: --spares, --instances for fewer, --chip-mtbf-hours for" in lost.why


def test_a_job_that_keeps_most_of_its_time_has_nothing_to_explain():
    assert goodput(1024, 64).can_finish
    assert not goodput(1024, 64).why


def test_any_number_of_spares_is_answered_at_once():
    assert goodput(64, 4, Reliability(spares=10**12)) == goodput(64, 4, Reliability(spares=10**3))


def test_spares_that_are_there_already_are_not_named():
    lost = goodput(1024, 64, Reliability(chip_mtbf_s=3600 * 10, spares=200_000))
    assert 0 < lost.goodput < 0.5
    assert "what helps: --instances" in lost.why
