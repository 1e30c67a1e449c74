import re

import pytest

from trnsim.reader.parsed import Malformed
from trnsim.reader.toml_text import parse_toml

TEXT = """# a comment
name = "x"
list = [
  1,
  2]
[table]
a.b = 1

[[rows]]
c = 1
[[rows]]
c = 2
[rows.inner]
d = 2026-03-02
"""


def test_values_are_plain():
    content = parse_toml(TEXT).content
    assert content["rows"] == [{"c": 1}, {"c": 2, "inner": {"d": "2026-03-02"}}]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ((), 1),
        (("name",), 2),
        (("list", 1), 3),
        (("table",), 6),
        (("table", "missing"), 6),
        (("table", "a", "b"), 7),
        (("rows", 0, "c"), 10),
        (("rows", 1), 11),
        (("rows", 1, "c"), 12),
        (("rows", 1, "inner", "d"), 14),
    ],
)
def test_a_value_has_the_line_of_its_statement_or_of_what_lacks_it(keys, line):
    assert parse_toml(TEXT).line_of(keys) == line


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a = 1\nb = \n", 2, "not TOML: Invalid value"),
        ("a = 1\na = 2\n", 2, "not TOML: Cannot overwrite a value"),
        ("a = '''\n", 2, "not TOML: Expected"),
        ("a = 1\n[b", 2, "not TOML: Expected ']'"),
    ],
)
def test_what_is_no_toml_is_named_with_its_line(text, line, why):
    with pytest.raises(Malformed, match="^" + re.escape(why)) as refused:
        parse_toml(text)
    assert refused.value.line == line
