import re

import pytest
import yaml

from trnsim.reader.parsed import Malformed
from trnsim.reader.yaml_text import parse_yaml, parse_yaml_documents


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
        ("[" * 800, 1, "no YAML: "),
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


def test_a_text_without_anchors_may_have_more_values():
    assert len(parse_yaml(f"[{'1,' * 50_001}]").content) == 50_001


def test_documents_are_typed_as_json_is():
    text = (
        "a: 1\nb: '1'\nc: true\nd: yes\ne: -2.5e3\nf: ~\ng: 0x10\n"
        'h: .5\ni: 1e400\n---\n# nothing\n---\n- TRUE\n- ""\n- |\n  two\n  lines\n'
    )
    first, second = (parsed.content for parsed in parse_yaml_documents(text))
    assert first == {
        "a": 1,
        "b": "1",
        "c": True,
        "d": True,
        "e": -2500.0,
        "f": None,
        "g": "0x10",
        "h": 0.5,
        "i": "1e400",
    }
    assert second == [True, "", "two\nlines\n"]


def test_a_local_tag_is_a_mapping_of_it():
    text = "a: !Ref Name\nb: !If [x, !Sub '${y}', 3]\nc: !!int '4'\n"
    (parsed,) = parse_yaml_documents(text)
    assert parsed.content == {
        "a": {"!Ref": "Name"},
        "b": {"!If": ["x", {"!Sub": "${y}"}, 3]},
        "c": "4",
    }
    assert parsed.line_of(("b", "!If", 1, "!Sub")) == 2


def test_lines_of_documents_count_from_the_start_of_the_file():
    first, second = parse_yaml_documents("a: 1\n---\nb:\n  c: 2\n")
    assert first.line_of(("a",)) == 1
    assert second.line_of(("b", "c")) == 4


def test_documents_without_a_value_are_left_out():
    assert parse_yaml_documents("---\n# only a comment\n---\n") == []


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\n---\nb: 1\nb: 2\n", 4, "b is given twice"),
        ("a: {\n", 2, "no YAML"),
        (
            "a: &a [x]\n" + "\n".join(f"{c}: &{c} [*a, *a]" for c in "b") + "\n? [k]\n: 1\n",
            3,
            "key",
        ),
    ],
)
def test_documents_that_are_no_yaml_name_their_line(text, line, why):
    with pytest.raises(Malformed, match=why) as error:
        parse_yaml_documents(text)
    assert error.value.line == line


def test_aliases_that_multiply_are_refused_in_documents():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
    with pytest.raises(Malformed, match="anchors that name anchors multiply"):
        parse_yaml_documents("\n".join(levels))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n",
        "a: &a {x: 1}\nb: &b {x: 2, z: 4}\nc:\n  y: 3\n  <<: [*a, *b]\n",
        "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b, x: ~}\n",
        "a: {<<: []}\nb: [{<<: {}}]\n",
    ],
)
def test_a_merge_key_adds_the_fields_of_other_mappings(text):
    (parsed,) = parse_yaml_documents(text)
    assert parsed.content == yaml.safe_load(text)
    assert parsed.line_of(("b", "x")) >= 2


def test_a_merge_key_of_no_mapping_is_refused_and_a_quoted_one_is_a_name():
    for value in ("1", "[1]", "~", "[{}, 2]"):
        with pytest.raises(Malformed, match="<< is no mapping, and no list of mappings") as refused:
            parse_yaml_documents(f"a:\n  b: 1\n  <<: {value}\n")
        assert refused.value.line == 3
    assert parse_yaml_documents("'<<': 1\n")[0].content == {"<<": 1}
    assert parse_yaml("<<: {a: 1}\n").content == {"<<": {"a": "1"}}
