"""Tests of a row of the table of behaviours: its span and its refusal in words."""

from trnsim.behaviours import VERSIONS, Behaviour


def row(since="0.2", until=None):
    return Behaviour(
        name="x", since=since, until=until, rule="x", otherwise="x is gone", instead="y", source="z"
    )


def test_a_span_says_the_versions_in_words():
    assert row("0.5").span == "from NKI 0.5 on"
    assert row("0.2", "0.6").span == "in NKI 0.2 to 0.5"
    assert row("0.3", "0.4").span == "in NKI 0.3"


def test_a_refusal_has_what_was_given_what_is_legal_and_what_to_write():
    error = row("0.2", "0.4").refusal(VERSIONS["0.6"], "f(old=1)")
    assert error.reason == "f(old=1) under NKI 0.6, where x is gone; legal: in NKI 0.2 to 0.3"
    assert error.fix == "y; or run it as NKI 0.3: --nki 0.3"
    assert error.source == "z"


def test_a_refusal_names_the_nearest_version_that_has_it():
    assert row("0.4").refusal(VERSIONS["0.2"], "f()").fix.endswith("--nki 0.4")
    assert row("0.2", "0.6").refusal(VERSIONS["0.7"], "f()").fix.endswith("--nki 0.5")
