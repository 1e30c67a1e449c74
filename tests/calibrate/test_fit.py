import math
from statistics import fmean, median

import pytest
from row_cases import drawn_rows, estimated, row

from trnsim.calibrate.calibration import sigma_of
from trnsim.calibrate.fit import PRIOR_ERROR, PRIOR_SIGMAS, effects_of, fit
from trnsim.facts import Evidence


def test_twenty_rows_of_a_world_tell_the_others():
    before, after, inside = [], [], []
    for seed in range(12):
        rows = drawn_rows(60, seed)
        fitted, unseen = fit(rows[:20]), rows[20:]
        before += [abs(one.estimated.time_s / one.measured_s - 1) for one in unseen]
        after.append(median(abs(fitted.predicted_s(one) / one.measured_s - 1) for one in unseen))
        inside += [
            abs(math.log(one.measured_s / fitted.predicted_s(one)))
            <= 1.2816 * sigma_of(fitted, one)
            for one in unseen
        ]
    assert median(before) > 0.3
    assert max(after) < 0.12
    assert 0.75 <= fmean(inside) <= 0.9


def test_many_rows_count_alone_and_one_row_is_drawn_to_no_factor():
    many = fit([row(0.02, line=at) for at in range(200)])
    assert many.predicted_s(row(0.02)) == pytest.approx(0.02, rel=0.01)
    single = fit([row(0.02)])
    assert 0.01 < single.predicted_s(row(0.02)) < 0.02


def test_a_chip_without_rows_has_the_effects_of_its_family_with_a_wider_interval():
    fitted = fit([row(0.02, line=at) for at in range(40)])
    other = row(0.02, estimated(chip="trainium2"))
    assert 0.01 < fitted.predicted_s(other) < fitted.predicted_s(row(0.02))
    assert fitted.sigma(other) > fitted.sigma(row(0.02))


def test_a_cause_is_told_from_the_others_by_its_share():
    rows = []
    for at in range(20):
        share = at / 20
        own = estimated(shares={"weights": share, "KV": 1 - share})
        rows.append(row(0.01 * (3 * share + 1 - share), own, line=at))
    fitted = fit(rows)
    factors = [math.exp(fitted.log_factor("trainium1", "decode", c)) for c in ("weights", "KV")]
    assert factors == pytest.approx([3, 1], rel=0.1)


def test_rows_apart_pull_a_robust_fit_less():
    rows = [row(0.02 * math.exp(0.02 * (-1) ** at), line=at) for at in range(18)]
    rows += [row(0.2, line=30), row(0.2, line=31)]
    usual, robust = (fit(rows, is_robust=wanted).predicted_s(row(1.0)) for wanted in (False, True))
    assert abs(robust - 0.02) < abs(usual - 0.02) / 2


def test_without_a_cause_an_effect_is_of_its_group():
    assert len(effects_of("trainium1", "train", "")) == 4
    assert len(effects_of("trainium1", "train", "products")) == 6


def test_priors_say_that_they_are_assumed():
    priors = [*PRIOR_SIGMAS.values(), PRIOR_ERROR]
    assert {fact.provenance.kind for fact in priors} == {Evidence.ASSUMED}
