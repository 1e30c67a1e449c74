"""Text: every width has every word, no line is wider, and no text of others is a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.document.answer import (
    Column,
    Document,
    Drawing,
    Figure,
    FoldedBlocks,
    Items,
    Mark,
    MonospaceLines,
    Note,
    PageLink,
    Section,
    Table,
    columns,
)
from trnsim.document.text import WIDTH, section_text, text, words_text, wrapped
from trnsim.document.wrapping import Emphasis

PLAN = Table(
    columns("platform | latency P50 (P10 to P90) | items/s"),
    [
        ["inf2.xlarge", Figure(0.0025, "2.5 ms (2.2 ms to 2.8 ms)"), Figure(400.0, "400")],
        ["g5.xlarge", Figure(None, "-"), Figure(0.0, "0")],
    ],
)


def table(block, width=WIDTH):
    return section_text("", [block], width).splitlines()


def test_columns_are_as_wide_as_their_widest_cell():
    assert table(PLAN) == [
        "platform     latency P50 (P10 to P90)   items/s",
        "inf2.xlarge  2.5 ms (2.2 ms to 2.8 ms)  400",
        "g5.xlarge    -                          0",
    ]


def test_a_narrow_table_wraps_its_widest_column():
    assert table(PLAN, 36) == [
        "platform     latency P50     items/s",
        "             (P10 to P90)",
        "inf2.xlarge  2.5 ms (2.2 ms  400",
        "             to 2.8 ms)",
        "g5.xlarge    -               0",
    ]


def test_rows_are_lists_where_no_wrapping_helps():
    assert table(PLAN, 24) == [
        "inf2.xlarge",
        "  latency P50 (P10 to",
        "    P90): 2.5 ms (2.2 ms",
        "    to 2.8 ms)",
        "  items/s: 400",
        "g5.xlarge",
        "  latency P50 (P10 to",
        "    P90): -",
        "  items/s: 0",
    ]


def test_an_empty_table_has_its_header_and_one_without_names_has_none():
    assert table(Table(columns("a | b"), [])) == ["a  b"]
    assert table(Table(columns(" | "), [["x", "y"]])) == ["x  y"]
    assert table(Table(columns("only"), [["x"], ["long"]])) == ["only", "x", "long"]


def test_notes_of_a_row_stand_below_it():
    block = Table(
        columns("a | b"), [["1", "2"], ["3", "4"]], indent=2, row_notes={0: ["mixed prices"]}
    )
    assert table(block) == ["  a  b", "  1  2", "      mixed prices", "  3  4"]


def test_a_cell_has_a_line_for_what_stands_below():
    block = Table(columns("a | b"), [["x", ("one", Mark("and below", is_below=True))], ["y", "z"]])
    assert table(block) == ["a  b", "x  one", "   and below", "y  z"]


def test_a_path_is_broken_rather_than_the_table():
    block = Table(columns("a | source"), [["x", "a/very/long/path/of/some/document.rst"]])
    assert table(block, 30) == ["a  source", "x  a/very/long/path/of/some/do", "   cument.rst"]


def test_numbers_may_stand_at_the_right():
    block = Table((Column("term"), Column("ms", is_right=True)), [["sum", "12.5"], ["x", "0.5"]])
    assert table(block) == ["term    ms", "sum   12.5", "x      0.5"]


def test_wide_characters_take_two_columns():
    block = Table(columns("模型 | b"), [["双塔", "x"], ["abcdef", "y"]])
    assert table(block) == ["模型    b", "双塔    x", "abcdef  y"]
    assert wrapped("双塔模型", 8) == ["双塔模型"]
    assert wrapped("双塔模型双塔", 8) == ["双塔模型", "双塔"]


def test_no_text_commands_the_terminal():
    hostile = "a\x1b[2Jb\nc\u202e"
    block = Table(columns("name"), [[hostile], [Figure(1, hostile)], [Mark(hostile)]])
    shown = section_text(
        hostile, [block, Note(hostile), Items([hostile]), MonospaceLines("\x1b[2J")]
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert table(block)[1] == "a\\x1b[2Jb c\\u202e"


def test_neither_headers_nor_notes_of_a_table_command_the_terminal():
    block = Table(columns("a\x1b[1m"), [["1"]], row_notes={0: ["x = 1  # \x1b[2J"]})
    assert "\x1b" not in "".join(table(block))
    assert table(block)[2].strip() == r"x = 1  # \x1b[2J"


def test_blocks_of_the_page_are_left_out():
    blocks = [
        Note("both"),
        Note("page", place="page"),
        Drawing("<svg></svg>"),
        FoldedBlocks("two more", [Items(["first", ["second ", PageLink("here", "#x")]], indent=2)]),
        FoldedBlocks("hidden", [Note("no")], place="page"),
        Table((Column("a"), Column("b", place="page")), [["1", "2"]]),
    ]
    sections = [Section("head", blocks), Section("page", [Note("x")], place="page")]
    shown = text(Document("title", None, sections))
    assert shown.splitlines() == ["head", "both", "  first", "  second here", "a", "1"]


def test_a_heading_may_be_of_the_page_alone_and_sections_are_apart():
    sections = [
        Section("Layouts", [Note("a")], heading_place="page"),
        Section("", []),
        Section("", [Note("b")]),
    ]
    assert text(Document("title", None, sections)) == "a\n\nb"


def test_lists_may_be_numbered_and_notes_indented():
    assert section_text("", [Items(["one", "two"], is_numbered=True)]) == "[1] one\n[2] two"
    said = Note("a sentence of some length", indent=2, hanging=2)
    assert section_text("", [said], 16).splitlines() == ["  a sentence of", "    some length"]


def test_words_are_one_line():
    assert words_text(["a ", Figure(1.0, "1.0"), [" b", Mark("c", is_below=True)]]) == "a 1.0 b\nc"
    assert words_text(["a", Mark("", is_below=True)]) == "a"
    assert section_text("", [Note(["a", Mark("b", is_below=True)])]) == "a b"
    assert words_text("a\nb") == "a b"


def test_spaces_within_a_line_stay():
    assert wrapped("yes  transformer", 40, 4) == ["    yes  transformer"]
    assert wrapped("") == [""]


@given(
    st.lists(st.lists(st.text("ab -", max_size=30), min_size=3, max_size=3), max_size=4),
    st.integers(20, 120),
)
def test_no_line_is_wider_and_no_letter_is_lost(rows, width):
    lines = table(Table(columns("a | b | c"), rows), width)
    assert all(len(line) <= width for line in lines)
    shown, whole = "".join(lines), "".join("".join(row) for row in rows)
    assert all(shown.count(letter) >= whole.count(letter) for letter in "ab-")


@pytest.mark.parametrize("width", [20, 60, 80])
def test_a_word_longer_than_the_line_is_broken(width):
    lines = wrapped("x" * 150 + " y", width, 2, 2)
    assert max(map(len, lines)) <= width
    assert "".join(line.strip() for line in lines).replace(" ", "") == "x" * 150 + "y"


def test_headings_stand_out_where_that_is_wanted():
    table = Table(columns("a | b"), [["x", "1"]])
    blocks = [Note("strong", kind="strong"), Note("plain"), table]
    document = Document("", {}, [Section("head", blocks)])
    assert text(document, 80, Emphasis("*", "*")) == "*head*\n*strong*\nplain\n*a  b*\nx  1"
    assert text(document, 80) == "head\nstrong\nplain\na  b\nx  1"
