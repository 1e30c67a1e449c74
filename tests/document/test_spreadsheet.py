import csv
import io

from trnsim.document.answer import (
    Column,
    Document,
    Figure,
    FoldedBlocks,
    Mark,
    Note,
    Section,
    Table,
    columns,
)
from trnsim.document.spreadsheet import spreadsheet

ROWS = Table(
    columns("name | ms | note"),
    [
        ["=cmd|' /C calc'!A0", Figure(-0.5, "-500 us"), "a, b"],
        ["+1", Figure(None, "-"), Mark(["of ", Figure(1, "1")])],
        [[Figure(2, "two")], Figure(0.0, "0"), 'say "x"\nand y'],
    ],
)


def read(document):
    return list(csv.reader(io.StringIO(spreadsheet(document), newline="")))


def test_figures_are_values_and_no_cell_is_a_formula():
    assert read(Document("t", None, (), rows=ROWS)) == [
        ["name", "ms", "note"],
        ["'=cmd|' /C calc'!A0", "-0.5", "a, b"],
        ["+1", "", "of 1"],
        ["2", "0.0", 'say "x" and y'],
    ]


def test_without_rows_the_first_table_is_written():
    sections = [Section("", [Note("a")]), Section("", [FoldedBlocks("more", [ROWS])])]
    assert read(Document("t", None, sections))[0] == ["name", "ms", "note"]


def test_a_document_without_a_table_is_empty_and_an_empty_table_a_line():
    assert spreadsheet(Document("t", None, ())) == ""
    assert spreadsheet(Document("t", None, (), rows=Table(columns("a | b"), []))) == "a,b\n"


def test_columns_of_the_text_alone_are_left_out():
    columns = [Column("short", place="text"), Column("name", place="page"), Column("n")]
    table = Table(columns, [("a...", "a name", "1")])
    assert spreadsheet(Document("t", None, [Section("", [table])])) == "name,n\na name,1\n"
