"""Tables of a user's: whatever is wrong with the file itself is refused with its line."""

from datetime import date

import pytest

from trnsim.cells import read_table
from trnsim.errors import BadInput

FIELDS = ("name", "count", "day")


def table(tmp_path, content, name="table.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, FIELDS, **options)


def test_rows_know_their_line(tmp_path):
    rows = table(tmp_path, 'name,count\n\na, 1\n"b\nc",2\n')
    assert [(row.line, dict(row.values)) for row in rows] == [
        (3, {"name": "a", "count": "1"}),
        (5, {"name": "b\nc", "count": "2"}),
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(tmp_path):
    (row,) = table(tmp_path, b"\xef\xbb\xbfname,count\r\na,1\r\n")
    assert dict(row.values) == {"name": "a", "count": "1"}


def test_cells_are_read_as_what_is_asked(tmp_path):
    (row,) = table(tmp_path, "name,count,day\na,8_000,2026-11-21\n")
    assert row.number("count", above=0) == 8000
    assert row.whole("count", above=0, at_most=8000) == 8000
    assert row.day("day", latest=date(2026, 11, 21)) == date(2026, 11, 21)
    assert row.one_of("name", ["a", "b"]) == "a"
    assert "name" in row


def test_a_name_that_is_not_legal_has_near_ones(tmp_path):
    (row,) = table(tmp_path, "name\ntran\n")
    with pytest.raises(
        BadInput, match=r"name is 'tran': not known; legal: train, serve"
    ) as refused:
        row.one_of("name", ["train", "serve"])
    assert refused.value.fix == "perhaps 'train'"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_refused(tmp_path, encoding):
    with pytest.raises(BadInput, match=r"table\.csv"):
        table(tmp_path, "name,count\na,1\n".encode(encoding))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"table\.csv is empty; legal fields: name, count, day(\n|$)"),
        (b"\xff\xfen\x00", r"table\.csv:1: the file is UTF-16(\n|$)"),
        (b"name\n\xe9t\xe9\n", r"table\.csv:2: byte 0xe9 is no UTF-8 text"),
        ("name;count\na;1\n", r"table\.csv:1: cells are divided by semicolons(\n|$)"),
        ("name\tcount\na\t1\n", r"table\.csv:1: cells are divided by tabs(\n|$)"),
        (
            "name,names\n",
            r"table\.csv:1: the field 'names' is not known; legal: name, count, day(\n|$)",
        ),
        ("name,name\n", r"table\.csv:1: the field 'name' stands twice(\n|$)"),
        ("count\n1\n", r"table\.csv:1: the field 'name' is missing; legal: name, count, day(\n|$)"),
        ("name,count\na,1\nb\n", r"table\.csv:3: 1 cells, and the first line has 2 fields(\n|$)"),
        ("name,count\na,1,2\n", r"table\.csv:2: 3 cells, and the first line has 2 fields(\n|$)"),
        ('name\n"a\n', r"table\.csv:2: no CSV: "),
    ],
)
def test_a_bad_csv_file_is_refused(tmp_path, content, message):
    with pytest.raises(BadInput, match=message):
        table(tmp_path, content, required=["name"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: a\n", r"table\.yaml:1: no list; write one row as"),
        ("- a\n", r"table\.yaml:1: no mapping of fields to values(\n|$)"),
        ("- name: a\n  nme: 1\n", r"table\.yaml:2: the field 'nme' is not known; legal: name"),
        ("- name: a\n  name: b\n", r"table\.yaml:2: name is given twice, first in line 1(\n|$)"),
        ("- name: {a: 1}\n", r"table\.yaml:1: name is no single value(\n|$)"),
        ("- name: [[a]]\n", r"table\.yaml:1: name is no single value(\n|$)"),
        ("- name: 'a\n", r"table\.yaml:2: no YAML: "),
        ("# nothing\n", r"table\.yaml is empty"),
    ],
)
def test_a_bad_yaml_file_is_refused(tmp_path, content, message):
    with pytest.raises(BadInput, match=message):
        table(tmp_path, content, "table.yaml")


def test_yaml_runs_no_code(tmp_path):
    (row,) = table(tmp_path, "- name: !!python/object/apply:os.getcwd []\n", "table.yaml")
    assert "name" not in row


def test_a_day_has_one_spelling(tmp_path):
    (row,) = table(tmp_path, "day\n20261121\n")
    with pytest.raises(BadInput, match=r"day is '20261121': is no day; write it as 2026-11-21"):
        row.day("day")


def test_a_spreadsheet_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"table\.xlsx is a spreadsheet"):
        table(tmp_path, b"PK", "table.xlsx")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"^cannot read .*none\.csv: No such file"):
        read_table(tmp_path / "none.csv", FIELDS)


def test_a_cell_may_hold_several_values(tmp_path):
    (row,) = table(tmp_path, "name,day\n a b ; c;,\n")
    assert row.items("name") == ("a b", "c")
    assert row.items("day") == ()
    (row,) = table(tmp_path, "- name: [a b, c]\n  day: d\n", "table.yaml")
    assert (row.items("name"), row.items("day")) == (("a b", "c"), ("d",))
    assert row.text("name") == "a b c"


def test_a_number_may_have_a_least_value(tmp_path):
    (row,) = table(tmp_path, "name,count\nnan,0\n")
    assert row.number_from("count", 0) == 0
    with pytest.raises(BadInput, match=r"count is '0': legal: a finite number, 1 to 9"):
        row.number_from("count", 1, at_most=9)
    with pytest.raises(BadInput, match=r"name is 'nan': legal: a finite number, 0 or more"):
        row.number_from("name", 0)


def test_a_table_may_be_yaml_whatever_its_name(tmp_path):
    (row,) = table(tmp_path, "- name: a\n", is_yaml=True)
    assert row.text("name") == "a"
    (row,) = table(tmp_path, "name\na\n", "table.yaml", is_yaml=False)
    assert row.text("name") == "a"


def test_a_cell_of_yaml_is_refused_with_its_own_line(tmp_path):
    (row,) = table(tmp_path, "- name: a\n  count: many\n", "table.yaml")
    with pytest.raises(BadInput, match=r"table\.yaml:2: count is 'many'") as refused:
        row.whole("count", above=0)
    assert refused.value.line == (str(tmp_path / "table.yaml"), 2)
    with pytest.raises(BadInput, match=r"table\.yaml:1: day is missing: this field is required"):
        row.day("day")
