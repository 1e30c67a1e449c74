"""Facts: they behave as numbers, flags and sets, and know where they come from."""

import copy
import pickle

import pytest

from trnsim.facts import (
    Count,
    Evidence,
    Flag,
    Interval,
    Names,
    Provenance,
    Rate,
    assumed,
    count,
    derived,
    documented,
    feature,
    measured,
    missing_feature,
    names,
)

MAKERS = {
    documented: Evidence.DOCUMENTED,
    measured: Evidence.MEASURED,
    derived: Evidence.DERIVED,
    assumed: Evidence.ASSUMED,
}


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_each_maker_gives_a_rate_of_its_kind(make):
    fact = make(2.8e9, "page: 2.8 GHz")
    assert isinstance(fact, Rate)
    assert fact == 2.8e9
    assert fact.provenance == Provenance(MAKERS[make], "page: 2.8 GHz")


def test_a_count_is_documented_unless_said_otherwise():
    assert count(128, "page").provenance.kind is Evidence.DOCUMENTED
    assert count(128, "page", Evidence.DERIVED).provenance.kind is Evidence.DERIVED


def test_a_count_stays_an_integer():
    partitions = count(128, "page")
    assert str(partitions) == "128"
    assert list(range(partitions))[-1] == 127
    assert f"{partitions}" == "128"


@pytest.mark.parametrize("fact", [count(3, "page"), documented(3, "page")], ids=["count", "rate"])
def test_arithmetic_on_facts_gives_plain_numbers(fact):
    for result in (fact + 1, fact * 2, -fact, fact / 2, fact - fact):
        assert not isinstance(result, Count | Rate)


def test_kinds_are_ordered_by_how_far_we_trust_them():
    spreads = [kind.spread for kind in Evidence]
    assert spreads == sorted(spreads)
    assert 0 < spreads[0] < spreads[-1] < 1


@pytest.mark.parametrize(
    "fact",
    [
        count(3, "page"),
        documented(3.5, "page"),
        feature("page"),
        missing_feature("page"),
        names("page", "a"),
    ],
    ids=["count", "rate", "feature", "missing feature", "names"],
)
@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))],  # noqa: S301  our own
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_of_a_fact_keeps_its_provenance(fact, again):
    twin = again(fact)
    assert type(twin) is type(fact)
    assert (twin, twin.provenance) == (fact, fact.provenance)


def test_a_fact_hashes_and_compares_as_its_number():
    assert {count(3, "a"): "x"}[3] == "x"
    assert count(3, "a") == count(3, "b")


def test_a_flag_counts_as_true_or_false():
    assert feature("page")
    assert not missing_feature("page")
    assert isinstance(feature("page"), Flag)
    assert feature("page") != missing_feature("page")


def test_names_are_a_set():
    found = names("page", "b", "a", "a")
    assert isinstance(found, Names)
    assert found == {"a", "b"}
    assert found.provenance == Provenance(Evidence.DOCUMENTED, "page")
    assert not names("page")


def test_the_interval_of_a_rate_is_the_inverse_of_that_of_its_time():
    assert Interval(1.0, 2.0, 4.0).inverse(8.0) == Interval(2.0, 4.0, 8.0)
    assert Interval(1.0, 2.0, 4.0).inverse() == Interval(0.25, 0.5, 1.0)
