import re

import pytest

from trnsim.reader.parsed import Malformed
from trnsim.reader.yaml_text import parse_yaml


def test_values_are_text_and_know_their_lines():
    parsed = parse_yaml("a: 1e9\nb:\n  - no\n  - c: '~'\n    d: ~\n")
    assert parsed.content == {"a": "1e9", "b": ["no", {"c": "~", "d": None}]}
    places = [(), ("a",), ("b",), ("b", 0), ("b", 1, "d"), ("b", 1, "missing"), ("a", "missing")]
    assert [parsed.line_of(keys) for keys in places] == [1, 1, 2, 3, 5, 4, 1]


def test_an_alias_is_what_it_names():
    assert parse_yaml("a: &x [1]\nb: *x\n").content == {"a": ["1"], "b": ["1"]}


def test_no_tag_makes_an_object():
    assert parse_yaml("a: !!python/object/apply:os.getcwd []\n").content == {"a": []}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\nb: [1\n", 3, "no YAML: expected ',' or ']', but got the stream end"),
        ("a: 1\n\tb: 2\n", 2, "no YAML: found character '\\t' that cannot start any token"),
        ("a: *x\n", 1, "no YAML: found undefined alias 'x'"),
        ("a: 1\n---\nb: 2\n", 2, "no YAML: but found another document"),
        ("a: 1\nb: 2\na: 3\n", 3, "a is given twice, first in line 1"),
        ("a: 1\n[b]: 2\n", 2, "a key is text, not a list or a mapping"),
        ("a: 1\nb: \x07\n", 2, "no YAML: unacceptable character #x0007"),
        ("# nothing\n", 1, "the file is empty"),
        ("[" * 2000, 1, "no YAML: "),
        ("&a [*a]", 1, "no YAML: nested too deeply, or within itself"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_line(text, line, why):
    with pytest.raises(Malformed, match="^" + re.escape(why)) as refused:
        parse_yaml(text)
    assert refused.value.line == line


def test_anchors_that_multiply_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(Malformed, match=r"more than 50,000 values; anchors that"):
        parse_yaml("\n".join(lines))
