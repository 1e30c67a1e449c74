import os
import re

import pytest

from trnsim.errors import BadInput, SourceLine
from trnsim.reader.document import FileContent, fault, line_in, load, load_documents, parse


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "- {a: x}"),
        ("a.csv", "a\nx\n"),
        ("a.csv", '# a comment\n\n- a: "x"\n'),
        ("a.toml", '[[rows]]\na = "x"'),
        ("a.json", '[{"a": "x"}]'),
        ("a.txt", '[{"a": "x"}]'),
        ("a.jsonl", '{"a": "x"}\n'),
        ("a.json", '{"a": "x"}\n'),
        ("a", "a\nx\n"),
    ],
)
def test_a_table_is_of_the_format_that_its_name_or_its_start_says(written, name, text):
    content = load(written(text, name), is_table=True).parsed.content
    assert (content["rows"] if name.endswith("toml") else content) == [{"a": "x"}]


@pytest.mark.parametrize("name", ["a", "a.json"])
def test_a_mapping_in_json_begins_with_a_bracket(written, name):
    assert load(written('{"a": 1}', name)).parsed.content == {"a": 1}


def test_a_form_may_be_told():
    assert parse(b'{"a": 1}', "standard input", form="json").parsed.content == {"a": 1}


def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(written):
    assert load(written(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")).parsed.content == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ":1: the file is empty"),
        (b" \n\n", ":1: the file is empty"),
        (b"\xff\xfea\x00", ":1: the file is UTF-16"),
        ("a: 1\n".encode("utf-16-le"), ":1: a NUL character, which no text has"),
        (b"a: 1\nb: \x00\n", ":2: a NUL character, which no text has"),
        (b"a: 1\nb: \xe9\n", ":2: byte 0xe9 is no UTF-8 text"),
        (b"a: 1\nb: [\n", ":3: no YAML"),
    ],
)
def test_what_is_no_text_is_named_with_its_line(written, content, said):
    path = written(content)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}{said}")) as refused:
        load(path, "give a file")
    assert refused.value.line.file == str(path)
    assert "fix: " in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"^cannot read .*none\.yaml: No such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match=r"^cannot read .*: Is a directory"):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices of POSIX")
def test_a_file_that_may_never_end_is_refused(tmp_path):
    with pytest.raises(BadInput, match="a device, which may never end"):
        load("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="a pipe, which may never end"):
        load(tmp_path / "pipe")


def test_a_spreadsheet_is_refused(written):
    with pytest.raises(BadInput, match=r"a\.xlsx is a spreadsheet"):
        load(written(b"PK", "a.xlsx"))


def test_an_error_names_line_field_and_what_was_given(written):
    path = written("a:\n- b: 1\n")
    inner = load(path, "look it up").root.inner("a").inner(0)
    error = inner.inner("b").refused("legal: 2")
    assert error.reason == f"{path}:2: a[0].b is '1'; legal: 2"
    assert (error.line, error.fix) == (SourceLine(str(path), 2), "look it up")
    assert inner.inner("c").refused("why", "do").reason == f"{path}:2: a[0].c is missing: why"
    long = FileContent.of({"a": "x" * 1000}, "here").root.inner("a").refused("why")
    assert long.reason == f"here: a is '{'x' * 59}...: why"


def test_a_line_is_found_again_where_the_file_still_has_it(written):
    path = written('{"a": 1,\n"b": {"c": 2}}', "a.json")
    assert line_in(str(path), ("b", "c")) == SourceLine(str(path), 2)
    path = written('{"a": Infinity,\n"b": {"c": 2}}', "config.json")
    assert line_in(str(path), ("b", "c")) == SourceLine(str(path), 2)
    assert line_in("no file", ("b",)) is None


def test_an_error_about_a_whole_file_is_one_of_its_first_line():
    error = fault("a.csv", "no rows", "add one")
    assert (error.reason, error.fix, error.line) == ("a.csv:1: no rows", "add one", ("a.csv", 1))


def test_documents_are_yaml_json_or_a_script(written):
    contents = {
        "a.yaml": ("a: 1\n---\nb: x\n", [{"a": 1}, {"b": "x"}]),
        "a.json": ('{"a": 1.5, "b": [null]}', [{"a": 1.5, "b": [None]}]),
        "a.yaml-template": ("a: $N\n", [{"a": "$N"}]),
        "a.helm": (
            "{{ $x := .Values }}\na: {{ .Values.name }}-b\n{%- if c %}\nc: ['{{ .d }}']\n",
            [{"a": "${ .Values.name }-b", "c": ["${ .d }"]}],
        ),
        "a.sbatch": ("#!/bin/bash\nsrun x\n", ["#!/bin/bash\nsrun x\n"]),
    }
    for name, (text, values) in contents.items():
        documents = load_documents(written(text, name))
        assert [document.parsed.content for document in documents] == values


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"", "the file is empty"),
        (b"---\n# nothing\n", "the file is empty"),
        (b"\xff\xfea", "the file is UTF-16"),
        (b"a: \0", "a NUL character"),
        (b"a: {{ .Values.name\n", "no YAML"),
        (b"a: {{ .a }}\nb: {{ .b }}: c\n", "2: no YAML"),
        (b'{"a": 1,}', "JSON"),
    ],
)
def test_documents_that_cannot_be_read_are_refused(written, stored, why):
    with pytest.raises(BadInput, match=why):
        load_documents(written(stored, "a"))
