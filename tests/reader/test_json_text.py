import math
import re

import pytest

from trnsim.reader.json_text import parse_json, parse_json_lines, parse_json_with_infinity
from trnsim.reader.parsed import Malformed

TEXT = """{
  "a": {"b": [1,
    {"c \\" [": null}]},

  "d" :
    2, "d": 2, "e\\n": [
 ], "f":
 [ [], {},
 -1.5e3 , "]"
 , 7 ]}"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ((), 1),
        (("a",), 2),
        (("a", "b", 0), 2),
        (("a", "b", 1, 'c " ['), 3),
        (("a", "b", 1, "missing"), 3),
        (("d",), 5),
        (("missing", "b"), 1),
        (("d", "missing"), 5),
        (("e\n",), 6),
        (("e\n", 0), 6),
        (("f", 1), 8),
        (("f", 1, "missing"), 8),
        (("f", 2), 9),
        (("f", 3), 9),
        (("f", 4), 10),
        (("f", 5), 7),
    ],
)
def test_a_value_has_the_line_of_its_name_or_of_what_lacks_it(keys, line):
    assert parse_json(TEXT).line_of(keys) == line


def test_json_lines_are_values_with_lines():
    parsed = parse_json_lines('{"a": "\u2028"}\r\n\n[1]\n')
    assert parsed.content == [{"a": "\u2028"}, [1]]
    assert [parsed.line_of(keys) for keys in [(), (0, "a"), (1,)]] == [1, 1, 3]
    with pytest.raises(Malformed, match="not JSON") as refused:
        parse_json_lines('{}\n{"a": \n')
    assert refused.value.line == 2


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{"a":\n1,}', 2, "not JSON: Expecting property name"),
        ('{"a": "NaN",\n"b": NaN}', 2, "not JSON: NaN is no number of JSON"),
        ("[1,\n-Infinity]", 2, "not JSON: -Infinity is no number of JSON"),
        ("[1e308,\n1e400]", 2, "not JSON: 1e400 is beyond the numbers of 64 bits"),
        ('{"a":\n\n-1e999}', 3, "not JSON: -1e999 is beyond the numbers of 64 bits"),
        ("[1,\n\n" + "9" * 5000 + "]", 3, "not JSON: Exceeds the limit"),
        ("\n" + "[" * 100_000, 2, "not JSON: maximum recursion depth"),
        ('{"a": 1,\n"b": {"a": 1},\n"a": 2}', 3, "a is given twice, with two values"),
        (r'{"\u0061": 1,' + '\n"b": "a",\n"c": {"a":0},\n"a": 2}', 4, "a is given twice"),
        ("[{},\n{}]\n]", 3, "not JSON: Extra data"),
        ("[123456789012345678901.5, true,\n1e-5, 1E400]", 2, "not JSON: 1E400 is beyond"),
    ],
)
def test_what_is_no_json_is_named_with_its_line(text, line, why):
    with pytest.raises(Malformed, match="^" + re.escape(why)) as refused:
        parse_json(text)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ('{"a": 1,\n}', "take out the comma before the bracket"),
        ("[1,\n]", "take out the comma before the bracket"),
        ("{'a': 1}", "write texts in double quotes"),
        ("[1 2]", "add a comma after the value before it, or close what is open"),
        ('{"a": "b}', "close the quote in the line where it begins"),
        ('{"a": "b\nc"}', "close the quote in the line where it begins"),
        ("{} {}", "write the next JSON text into a file of its own"),
        ('{"a": }', ""),
        ("", ""),
    ],
)
def test_a_usual_fault_has_its_change(text, fix):
    with pytest.raises(Malformed) as refused:
        parse_json(text)
    assert refused.value.fix == fix


def test_a_name_may_stand_twice_with_one_value():
    assert parse_json('{"a": [1], "a": [1]}').content == {"a": [1]}


def test_infinity_is_a_number_where_python_wrote_the_text():
    parsed = parse_json_with_infinity('{"a": [0.0, Infinity],\n"b": -Infinity}')
    assert parsed.content == {"a": [0.0, math.inf], "b": -math.inf}
    assert parsed.line_of(("b",)) == 2
    with pytest.raises(Malformed, match="NaN is no number of JSON") as refused:
        parse_json_with_infinity("[Infinity,\nNaN]")
    assert refused.value.line == 2
