import pytest

from trnsim.facts import Interval
from trnsim.formatting import (
    amount,
    amounts,
    clipped,
    counted,
    durations,
    enumerated,
    markdown_table,
    plural,
    seconds,
)


def test_a_markdown_table_is_aligned():
    assert markdown_table(("a", "b"), [("long", "x")]).splitlines() == [
        "| a    | b |",
        "| ---- | - |",
        "| long | x |",
    ]
    assert markdown_table(("a",), []) == "| a |\n| - |"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        *((172800, "2 d"), (5400, "1.5 h"), (90, "1.5 min"), (2, "2 s"), (0.02, "20 ms")),
        *((0, "0 s"), (0.9994, "999 ms"), (0.9996, "1 s"), (59.99, "1 min"), (1e8, "1,157 d")),
        *((-0.002, "-2 ms"), (1e-9, "1e-09 s")),
    ],
)
def test_durations_have_a_fitting_unit(value_s, text):
    assert seconds(value_s) == text


def test_amounts_have_three_digits_or_separators():
    assert (amount(0.12345), amount(999.6), amount(1234567)) == ("0.123", "1,000", "1,234,567")
    assert (amount(-999.4), amount(999.5), amount(-999.6)) == ("-999", "1,000", "-1,000")


def test_amounts_that_are_not_finite_are_words():
    assert (amount(999999999999999.0), amount(1e15), amount(-1e300)) == (
        "999,999,999,999,999", "1e+15", "-1e+300",
    )  # fmt: skip
    assert (amount(float("inf")), amount(float("nan"))) == ("inf", "nan")
    assert seconds(float("inf")) == "inf d"


def test_intervals_put_the_median_first():
    assert durations(Interval(60, 120, 180)) == "2 min (1 min to 3 min)"
    assert amounts(Interval(1, 2, 3)) == "2 (1 to 3)"
    assert amounts(None) == "-"


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_words_stand_in_a_sentence(words, text):
    assert enumerated(words, "or") == text


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 ranks have"), (1, "1 rank has"), (1.0, "1.0 rank has"), (1.5, "1.5 ranks have")],
)
def test_a_noun_has_the_number_of_its_count(count, words):
    assert counted(count, "rank has", "ranks have") == words
    assert counted(count, "rank") == words.rpartition(" ")[0]
    assert plural(count, "rank") == words.split()[1]


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("abc", "abc"), ("abcd", "ab…")])
def test_a_text_is_cut_to_its_column(text, shown):
    assert clipped(text, 3) == shown
