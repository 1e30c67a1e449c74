import numpy as np
import pytest

from trnsim.calibrate.shrinkage import shrink


def test_one_effect_is_drawn_to_zero_by_its_prior():
    after = shrink(np.ones((3, 1)), np.full(3, 2.0), np.full(3, 0.3), np.array([0.1]))
    # three rows of variance 0.3 are one of 0.1: half of the way
    assert after.mean[0] == pytest.approx(1.0)
    assert after.covariance[0, 0] == pytest.approx(0.05)


def test_both_forms_agree_at_their_seam():
    drawn = np.random.default_rng(0)
    design, values = drawn.standard_normal((4, 4)), drawn.standard_normal(4)
    priors, errors = np.array([0.1, 0.4, 0.2, 1.0]), np.full(4, 0.2)
    few = shrink(design, values, errors, priors)
    # a fifth row without weight takes the other form
    more = shrink(
        np.vstack([design, np.zeros(4)]), np.append(values, 7.0), np.append(errors, 1.0), priors
    )
    assert more.mean == pytest.approx(few.mean)
    assert more.covariance == pytest.approx(few.covariance)


def test_a_row_without_error_is_met_exactly():
    after = shrink(np.array([[0.3, 0.4]]), np.array([1.0]), np.zeros(1), np.ones(2))
    assert np.array([0.3, 0.4]) @ after.mean == pytest.approx(1.0, abs=1e-12)
    assert np.diag(after.covariance) == pytest.approx([1 - 0.36, 1 - 0.64])
