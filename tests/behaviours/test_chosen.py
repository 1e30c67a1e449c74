"""Tests of the user's choice of a version of NKI."""

import pytest

from trnsim.behaviours import LATEST, VERSIONS
from trnsim.behaviours.chosen import (
    FRONTEND_VARIABLE,
    VERSION_VARIABLE,
    VersionChoice,
    asked_version,
    choice_of,
    pinned,
)
from trnsim.errors import BadInput

FOUND = VersionChoice(VERSIONS["0.6"], "nl.dynamic_range at k.py:3", is_chosen=False)
MARKED = VersionChoice(VERSIONS["0.3"], "`# nki: 0.3` in k.py", is_chosen=True)


def chosen(marked=None):
    return choice_of(lambda: marked, lambda: FOUND)


def test_a_pin_goes_before_a_marker_that_before_the_variable_and_that_before_what_is_found(
    monkeypatch,
):
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    assert chosen() is FOUND
    monkeypatch.setenv(VERSION_VARIABLE, "0.4")
    assert chosen().version.name == "0.4"
    assert chosen(MARKED) is MARKED
    with pinned("0.5", "--nki"):
        assert chosen(MARKED).version.name == "0.5"
        assert chosen(MARKED).reason == "--nki"
    assert chosen(MARKED) is MARKED


def test_what_is_found_is_not_asked_for_where_somebody_chose():
    with pinned("0.5", "--nki"):
        assert choice_of(lambda: None, lambda: 1 / 0).version.name == "0.5"


def test_without_a_choice_nothing_is_asked(monkeypatch):
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    assert asked_version() is None
    with pinned(None, "--nki"):
        assert asked_version() is None


def test_a_variable_that_names_no_version_is_named(monkeypatch):
    monkeypatch.setenv(VERSION_VARIABLE, "1.0")
    with pytest.raises(BadInput, match=r"\$TRNSIM_NKI names NKI '1.0'"):
        asked_version()


def test_a_note_is_empty_for_the_latest_that_nobody_chose():
    assert VersionChoice(LATEST, "the latest", is_chosen=False).note == ""
    assert VersionChoice(LATEST, "--nki", is_chosen=True).note == "NKI 0.7: --nki"
    assert FOUND.note == "NKI 0.6: nl.dynamic_range at k.py:3"


@pytest.mark.parametrize(
    ("value", "name"), [("custom", "0.6"), ("parser", "0.6"), ("tracer", None)]
)
def test_awss_variable_brings_the_front_end_of_0_6_back(value, name, monkeypatch):
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    monkeypatch.setenv(FRONTEND_VARIABLE, value)
    choice = asked_version()
    assert (choice and choice.version.name) == name
    monkeypatch.setenv(VERSION_VARIABLE, "0.3")
    assert asked_version().version.name == "0.3"


def test_a_front_end_that_does_not_exist_is_named(monkeypatch):
    monkeypatch.delenv(VERSION_VARIABLE, raising=False)
    monkeypatch.setenv(FRONTEND_VARIABLE, "new")
    with pytest.raises(BadInput, match="legal: custom, parser, tracer"):
        asked_version()
