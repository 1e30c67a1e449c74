import re

import pytest

from trnsim.reader.csv_text import parse_csv
from trnsim.reader.parsed import Malformed


def test_rows_are_dicts_that_know_their_line():
    parsed = parse_csv('name, count\r\n\r\na, 1\r\n"b\r\nc",\r\n')
    assert parsed.columns == ("name", "count")
    assert parsed.content == [{"name": "a", "count": "1"}, {"name": "b\r\nc"}]
    assert [parsed.line_of(keys) for keys in [(), ("name",), (0, "count"), (1,)]] == [1, 1, 3, 5]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("name;count\na;1\n", 1, "cells are divided by semicolons"),
        ("name\tcount\na\t1\n", 1, "cells are divided by tabs"),
        ("name,name\n", 1, "the field 'name' stands twice"),
        ("name,count\na,1\nb\n", 3, "1 cells, and the first line has 2 fields"),
        ("name,count\na,1,2\n", 2, "3 cells, and the first line has 2 fields"),
        ('name\n"a\n', 2, "no CSV: "),
        ("name\n" + "a" * 200_000, 2, "no CSV: field larger than field limit"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(text, line, why):
    with pytest.raises(Malformed, match="^" + re.escape(why)) as refused:
        parse_csv(text)
    assert refused.value.line == line


def test_blank_lines_before_the_names_are_passed_over():
    parsed = parse_csv("\n , \na,b\n1,2\n")
    assert parsed.content == [{"a": "1", "b": "2"}]
    assert parsed.line_of((0,)) == 4
    with pytest.raises(Malformed, match="no names of fields"):
        parse_csv(",,\n")


def test_columns_say_where_points_stand_before_fractions():
    """A point before three digits alone may separate thousands."""
    text = "a,b,c,d,e\n1.125,1.125,0.125 s,v1.5,1.5e3\n2.25,12.345,,,\n,1.234.567,,,"
    assert parse_csv(text).fractions == {"a", "c", "e"}
