import re
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Literal

import pytest

from trnsim.errors import BadInput
from trnsim.reader import (
    FileContent,
    FileRecord,
    ForeignRecord,
    Rule,
    declared,
    read,
    read_rows,
    record,
)


@dataclass(frozen=True, kw_only=True)
class Deep(ForeignRecord):
    size: float = declared(help="its size", inside=("a", "b"), alias=("s",))
    more: int | None = declared(None, help="more", inside=("a",))


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Inner(FileRecord):
    size: float = declared(help="its size", unit="W", exclusive_minimum=0, maximum=5)
    steps: tuple[int, ...] = declared((), help="steps", minimum=1, maximum=3, each=Rule(minimum=0))


@dataclass(frozen=True, kw_only=True)
class Kind(FileRecord):
    name: str = declared(help="its name")
    sort: Literal["train", "serve"] = declared("train", help="its sort")
    day: date | None = declared(None, help="a day")
    inner: str | Inner | None = declared(None, help="what it has", alias=("within",))
    counts: dict[str, int] | None = declared(None, help="counts", minimum=1)
    is_open: bool = declared(False, help="open")
    colour: Colour = declared(Colour.RED, help="colour")
    even: int = declared(0, help="even", parse=lambda text: int(text) // 2 * 2, legal="a number")


@dataclass(frozen=True)
class Plain:
    number: float
    text: str
    others: tuple[Inner, ...] = ()
    maybe: float | None = None


@dataclass(frozen=True, kw_only=True)
class Lenient(ForeignRecord):
    size: float = declared(help="its size", unit="s")


@dataclass(frozen=True, kw_only=True)
class Spreadsheet(Lenient):
    has_text_numbers = True


def test_a_file_is_a_record_of_its_kind(written):
    text = "name: a\nday: 2026-03-02\nwithin:\n  size: 2\n  steps: 1; 2\ncounts: {x: 3}\neven: 5"
    found = read(Kind, written(f"{text}\nis_open: yes\n"))
    assert found == Kind(
        name="a",
        day=date(2026, 3, 2),
        inner=Inner(size=2.0, steps=(1, 2)),
        counts={"x": 3},
        is_open=True,
        even=4,
    )
    assert "inner" in found
    assert "sort" not in found
    assert read(Kind, written("name: a\ninner: b\nsort: ''\n")) == Kind(name="a", inner="b")


@pytest.mark.parametrize(
    ("text", "said", "fix"),
    [
        ("sort: train\n", ":1: name is missing; legal: text", ""),
        ("name: ''\n", ":1: name is missing; legal: text", ""),
        ("name: [a]\n", ":1: name is ['a']; legal: text", ""),
        ("- name: a\n", ":1: the file is [{'name': 'a'}]; legal: a mapping of fields: name", ""),
        ("name: a\nsrt: b\n", ":2: the field 'srt' is not known; legal: name, sort", "'sort'"),
        ("name: a\nsort: tran\n", ":2: sort is 'tran'; legal: train, serve", "'train'"),
        ("name: a\nday: 20260302\n", ":2: day is '20260302'; legal: a day as 2026-11-21", ""),
        ("name: a\nday: 2026-02-30\n", ":2: day is '2026-02-30'; legal: a day as", ""),
        ("name: a\ninner:\n  size: 7\n", ":3: inner.size is '7'; legal: a number above 0 and", ""),
        ("name: a\ninner:\n  size: inf\n", ":3: inner.size is 'inf'; legal: a number above", ""),
        ("name: a\ninner: {steps: [1]}\n", ":2: inner.size is missing; legal: a number", ""),
        ("name: a\ninner:\n  size: 1\n  steps: 1;x\n", ":4: inner.steps[1] is 'x': no number", ""),
        ("name: a\ninner:\n  size: 1\n  steps: []\n", ":4: inner.steps is []: 0 items; legal", ""),
        (
            "name: a\ninner:\n  size: 1\n  steps: {}\n",
            ":4: inner.steps is a mapping; legal: a list",
            "",
        ),
        ("name: a\ninner: b\nwithin: c\n", ":3: within is 'c': another name of inner", ""),
        ("name: a\ncounts: {}\n", ":2: counts: 0 items; legal: a mapping of names to", ""),
        ("name: a\ncounts: {x: 8,000}\n", ":2: counts", ""),
        ("name: a\ncounts: 3\n", ":2: counts is '3'; legal: a mapping of names", ""),
        ("name: a\nis_open: on\n", ":2: is_open is 'on'; legal: yes, no, true, false", ""),
        ("name: a\ncolour: blue\n", ":2: colour is 'blue'; legal: red", ""),
        ("name: a\neven: x\n", ":2: even is 'x'; legal: a number", ""),
    ],
)
def test_what_a_field_cannot_be_is_named(written, text, said, fix):
    path = written(text)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}{said}")) as refused:
        read(Kind, path)
    assert refused.value.fix == (f"perhaps {fix}" if fix else "")
    assert refused.value.line.file == str(path)


@pytest.mark.parametrize(
    ("size", "legal"),
    [(1, True), (2.5, True), ("2.5", True), (True, False), ([], False), (10**400, False)],
)
def test_a_number_may_be_a_number_or_its_text(size, legal):
    place = FileContent.of({"size": size}, "here").root
    if legal:
        assert record(Inner, place).size == float(size)
    else:
        with pytest.raises(BadInput, match=r"^here: size is "):
            record(Inner, place)


@pytest.mark.parametrize(("step", "legal"), [(1, True), (2.0, True), (2.5, False), (True, False)])
def test_a_whole_number_may_end_in_a_zero(step, legal):
    place = FileContent.of({"size": 1, "steps": [step]}, "here").root
    if legal:
        assert record(Inner, place).steps == (step,)
    else:
        with pytest.raises(BadInput, match=r"^here: steps\[0\] is .*; legal: a whole number"):
            record(Inner, place)


def test_a_dataclass_without_declarations_is_read_by_its_annotations():
    place = FileContent.of(
        {"number": 1, "text": "", "others": [{"size": 1}], "maybe": None}, "here"
    )
    assert record(Plain, place.root) == Plain(1.0, "", (Inner(size=1.0),))
    with pytest.raises(BadInput, match=r"^here: others\[0\]\.size is missing"):
        record(Plain, FileContent.of({"number": 1, "text": "", "others": [{}]}, "here").root)


@pytest.mark.parametrize("stated", ["20 s", "20"])
def test_a_programs_number_is_no_text(stated):
    place = FileContent.of({"size": stated}, "here").root
    refused = rf"^here: size is '{stated}'; legal: a number \[s\]"
    with pytest.raises(BadInput, match=refused):
        record(Lenient, place)
    if stated == "20":  # as CSV writes it
        assert record(Spreadsheet, place).size == 20
    else:
        with pytest.raises(BadInput, match=refused):
            record(Spreadsheet, place)


@dataclass(frozen=True, kw_only=True)
class Either:
    switch: str | bool | int | float | None = None


@pytest.mark.parametrize("stated", [True, False, 0, 1, 1.5, 2.0, "yes"])
def test_a_union_keeps_what_json_tells_apart(stated):
    content = FileContent.of({"switch": stated}, "either.json")
    read_value = record(Either, content.root).switch
    assert (type(read_value), read_value) == (type(stated), stated)


def test_files_of_other_programs_may_have_more_fields():
    assert record(Lenient, FileContent.of({"size": 1, "more": []}, "here").root) == Lenient(
        size=1.0
    )


def test_a_field_may_stand_within_other_mappings():
    values = {"a": {"b": {"s": 1}, "more": 2}}
    assert record(Deep, FileContent.of(values, "here").root) == Deep(size=1.0, more=2)
    for wrong in ({}, {"a": {}}, {"a": {"b": 3}}):
        with pytest.raises(BadInput, match=r"^here: a\.b\.s is missing; legal: a number"):
            record(Deep, FileContent.of(wrong, "here").root)


def test_a_record_refuses_what_its_fields_mean_together(written):
    found = read(Kind, written("sort: serve\nname: a\nwithin: b\n"))
    assert found.refused("inner", "not with serve").reason.endswith(
        ":3: within is 'b': not with serve"
    )
    assert found.refused("day", "give one").reason.endswith(":1: day is missing: give one")
    assert found.record_error("two things").reason.endswith("file.yaml:1: two things")
    assert found.line.line == 1


def test_a_record_may_be_filled_up(written):
    found = read(Kind, written("name: a\ninner: b\n"))
    assert found.converted(Kind, {"sort": "serve"}, "inner") == Kind(name="a", sort="serve")
    with pytest.raises(BadInput, match=r"file\.yaml:1: sort is 'x'; legal"):
        found.converted(Kind, {"sort": "x"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "name,sort\na,\nb,serve\n"),
        ("a.yaml", "- name: a\n- name: b\n  sort: serve\n"),
        ("a.yaml", "rows:\n- name: a\n- {name: b, sort: serve}\n"),
        ("a.json", '[{"name": "a"}, {"name": "b", "sort": "serve"}]'),
        ("a.jsonl", '{"name": "a"}\n{"name": "b", "sort": "serve"}\n'),
        ("a.toml", '[[k]]\nname = "a"\n[[k]]\nname = "b"\nsort = "serve"\n'),
    ],
)
def test_a_table_is_its_rows(written, name, text):
    assert read_rows(Kind, written(text, name)) == [Kind(name="a"), Kind(name="b", sort="serve")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "sort\n", ":1: the field 'name' is missing; legal: text"),
        ("a.csv", "name,srt\n", ":1: the field 'srt' is not known; legal: name, sort"),
        ("a.csv", "name,sort\na,train\nb,tran\n", ":3: sort is 'tran'; legal: train, serve"),
        ("a.yaml", "- name: a\n- b\n", ":2: the row is 'b'; legal: a mapping of fields"),
        ("a.yaml", "name: a\n", ":1: no list; write one row as"),
        ("a.toml", "[[k]]\nname = 'a'\n[[k]]\n\nname = 1\n", ":5: name is 1; legal: text"),
        ("a.jsonl", '{"name": "a"}\n\n{"sort": "serve"}', ":3: name is missing; legal: text"),
    ],
)
def test_what_a_row_cannot_be_is_named(written, name, text, said):
    path = written(text, name)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path}{said}")):
        read_rows(Kind, path)
