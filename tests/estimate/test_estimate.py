import math

import pytest

from trnsim.estimate.estimate import QUANTILES, Estimate

ONE = Estimate({"products": 3.0, "host": 1.0}, {"rows": 0.3, "host": 0.4}, {"encode": "rows"})


def test_parts_add_up_and_sources_err_in_squares():
    assert ONE.time_s == 4.0
    assert ONE.sigma == pytest.approx(0.5 / 4.0)


def test_p10_and_p90_are_those_of_a_lognormal():
    found = ONE.interval
    assert found.p50 == 4.0
    assert found.p90 / found.p50 == pytest.approx(found.p50 / found.p10)
    assert math.log(found.p90 / 4.0) == pytest.approx(QUANTILES["p90"] * ONE.sigma)


def test_it_is_shown_with_its_interval():
    assert str(Estimate({"a": 0.001}, {})) == "1 ms (1 ms to 1 ms)"
    assert str(Estimate({"a": 0.001}, {"x": 0.0005})) == "1 ms (527 us to 1.9 ms)"


def test_nothing_takes_no_time_and_does_not_err():
    empty = Estimate({}, {})
    assert (empty.time_s, empty.sigma) == (0.0, 0.0)
    assert empty.interval.p90 == 0.0


def test_errors_of_one_source_add_up_and_do_not_average_out():
    assert ONE.scaled(3).sigma == pytest.approx(ONE.sigma)
    assert (ONE + ONE).sigma == pytest.approx(ONE.sigma)
    assert ONE.scaled(3).time_s == 12.0


def test_errors_of_two_sources_are_smaller_together():
    apart = Estimate({"products": 4.0}, {"other": 0.5})
    both = ONE + apart
    assert both.parts_s == {"products": 7.0, "host": 1.0}
    assert both.sigma < (ONE.sigma + apart.sigma) / 2


def test_a_part_errs_by_its_own_source():
    found = ONE.plus("host", 2.0, source="host", spread=0.5)
    assert found.parts_s["host"] == 3.0
    assert found.errors_s == {"rows": 0.3, "host": 1.4}
    assert ONE.plus("hops", 2.0).errors_s == ONE.errors_s


def test_parts_that_err_as_the_others_do_not_change_how_sure_the_time_is():
    found = ONE.with_parts_in_proportion({"optimizer": 3.0, "host": 1.0})
    assert found.parts_s == {"products": 3.0, "host": 2.0, "optimizer": 3.0}
    assert found.errors_s == {"rows": 0.6, "host": 0.8}
    empty = Estimate({}, {}).with_parts_in_proportion({"call": 1.0})
    assert (empty.time_s, empty.sigma) == (1.0, 0.0)


def test_sources_of_one_name_are_told_once():
    same = ONE + Estimate({}, {}, {"encode": "rows"})
    other = ONE + Estimate({}, {}, {"encode": "a table", "decode": "rows"})
    assert same.sources == {"encode": "rows"}
    assert other.sources == {"encode": "rows; a table", "decode": "rows"}


def test_a_file_has_no_parts_of_0():
    found = ONE.plus("bubble", 0.0).as_dict()
    assert found["parts_s"] == {"products": 3.0, "host": 1.0}
    assert found["p10_s"] < found["p50_s"] == 4.0 < found["p90_s"]
