import pytest

from trnsim.facts import Interval
from trnsim.formatting import (
    amount,
    amounts,
    clipped,
    durations,
    enumerated,
    markdown_table,
    parse_number,
    parse_whole,
    parse_wholes,
    seconds,
    text_table,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("8000", 8e3), ("8_000", 8e3), ("1e3", 1e3), ("-2.5", -2.5), ("0.125", 0.125), ("1.25", 1.25)],
)
def test_a_number_is_read_as_python_and_json_write_it(given, expected):
    assert parse_number(given) == expected


@pytest.mark.parametrize("given", ["8,000", "8.000,5", "8k", "", "1 000", "1'000", "x"])
def test_what_is_no_number_says_how_to_write_it(given):
    with pytest.raises(ValueError, match="is no number; write it without separators or unit: 8000"):
        parse_number(given)


@pytest.mark.parametrize("given", ["8,000", "8.000", "8000.5", "8k", "", "8e3", "nan", "inf"])
def test_what_is_no_whole_number_says_how_to_write_it(given):
    with pytest.raises(ValueError, match="is no whole number; write it without separators"):
        parse_whole(given)
    assert parse_whole("8_000") == parse_whole(" 8000 ") == 8000


@pytest.mark.parametrize("given", ["8.000", "-1.234", "12.345.678", "999.000", " 8.000 "])
def test_what_may_have_a_separator_of_thousands_is_refused(given):
    with pytest.raises(ValueError, match="may have a separator of thousands"):
        parse_number(given)


def test_columns_are_as_wide_as_their_widest_cell():
    assert text_table(("a", "b"), [("long", "x"), ("s", "y")]) == "a     b\nlong  x\ns     y"


def test_a_markdown_table_is_aligned_too():
    assert markdown_table(("a", "b"), [("long", "x")]).splitlines() == [
        "| a    | b |",
        "| ---- | - |",
        "| long | x |",
    ]
    assert markdown_table(("a",), []) == "| a |\n| - |"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(172800, "2 d"), (5400, "1.5 h"), (90, "1.5 min"), (2, "2 s"), (0.02, "20 ms"), (0, "0 s")],
)
def test_durations_have_a_fitting_unit(value_s, text):
    assert seconds(value_s) == text


def test_amounts_have_three_digits_or_separators():
    assert (amount(0.12345), amount(999.6), amount(1234567)) == ("0.123", "1,000", "1,234,567")


def test_intervals_put_the_median_first():
    assert durations(Interval(60, 120, 180)) == "2 min (1 min to 3 min)"
    assert amounts(Interval(1, 2, 3)) == "2 (1 to 3)"
    assert amounts(None) == "-"


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")]
)
def test_words_stand_in_a_sentence(words, text):
    assert enumerated(words, "or") == text


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("abc", "abc"), ("abcd", "ab…")])
def test_a_text_is_cut_to_its_column(text, shown):
    assert clipped(text, 3) == shown


@pytest.mark.parametrize(("given", "found"), [("8", (8,)), ("8,16", (8, 16)), ("8, 128", (8, 128))])
def test_whole_numbers_are_separated_by_commas(given, found):
    assert parse_wholes(given) == found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("8,128", "'8,128' may be one number or several; write 8128, or 8 and 128 as '8, 128'"),
        ("8,,16", "'' is no whole number"),
        ("8,16,8", "'8,16,8' has a number twice; write each once"),
        ("8,1e3", "'1e3' is no whole number"),
    ],
)
def test_lists_that_may_be_another_number_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parse_wholes(given)
