import pytest

from trnsim.arch import target
from trnsim.estimate.program import PROGRAM, estimate_program, raise_to_bound

PARTS = {"tensor": 3e-3, "launch": 1e-3}


def test_parts_are_the_time_and_err_together():
    found = estimate_program(target("trn1"), PARTS)
    assert found.time_s == pytest.approx(4e-3)
    assert 0 < found.sigma < 1
    assert set(found.sources) == {PROGRAM}


def test_a_chip_without_rows_errs_more_and_says_so():
    first, later = (estimate_program(target(name), PARTS) for name in ("trn1", "trn2"))
    assert first.sigma < later.sigma
    assert "fitted to times of Trn1 and Inf2 alone" in later.sources[PROGRAM]


@pytest.mark.parametrize(("least_s", "is_raised"), [(3e-3, False), (4e-3, False), (5e-3, True)])
def test_no_time_is_below_its_bound(least_s, is_raised):
    found = raise_to_bound(estimate_program(target("trn1"), PARTS), least_s)
    assert found.time_s == pytest.approx(max(4e-3, least_s))
    assert bool(found.conditions) == is_raised
