"""Tests of versions of NKI: their names, their order, the behaviours that they follow."""

import pytest

from trnsim.behaviours import LATEST, VERSIONS, Behaviour, version_named
from trnsim.errors import BadInput


def behaviour(since, until):
    return Behaviour(
        name="x", since=since, until=until, rule="x", otherwise="no x", instead="y", source="z"
    )


def test_versions_are_in_the_order_of_their_sdks():
    rows = list(VERSIONS.values())
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    assert [row.released for row in rows] == sorted(row.released for row in rows)
    assert rows[-1] is LATEST
    assert LATEST.name == "0.7"


@pytest.mark.parametrize("name", ["0.4", "0.4.0", " 0.4 "])
def test_a_version_is_named_with_or_without_its_last_zero(name):
    assert version_named(name, "--nki") is VERSIONS["0.4"]


@pytest.mark.parametrize("name", ["0.8", "4", "", "0.4.1", "latest"])
def test_a_version_that_does_not_exist_is_named_with_the_legal_ones(name):
    with pytest.raises(BadInput) as caught:
        version_named(name, "--nki")
    assert "legal: 0.2, 0.3, 0.4, 0.5, 0.6, 0.7" in caught.value.reason
    assert "--nki names NKI" in caught.value.reason


def test_a_version_that_is_a_number_is_refused_with_the_text_to_write():
    with pytest.raises(BadInput, match=r"names NKI by float; legal: a text: 0\.2, ") as caught:
        version_named(0.4, "run(nki=0.4)")
    assert caught.value.fix == 'write it in quotes: nki="0.4"'


def test_the_generation_before_is_named_as_such():
    with pytest.raises(BadInput, match=r"0\.1 is the generation before"):
        version_named("0.1", "--nki")


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [
        ("0.2", None, "0.2 0.3 0.4 0.5 0.6 0.7"),
        ("0.4", None, "0.4 0.5 0.6 0.7"),
        ("0.2", "0.3", "0.2"),
        ("0.3", "0.5", "0.3 0.4"),
        ("0.7", None, "0.7"),
    ],
)
def test_a_behaviour_holds_from_its_first_version_to_the_one_before_its_end(since, until, held):
    row = behaviour(since, until)
    assert [v.name for v in VERSIONS.values() if v.follows(row)] == held.split()
