import json

import yaml

from trnsim.jobs.formats.writing import (
    in_order,
    json_spec,
    with_kept_fields,
    without_empty,
    yaml_spec,
)
from trnsim.jobs.job import KeptField


def test_kept_fields_are_put_at_their_places():
    kept = (
        KeptField(("a", "b", 1, "c"), 5),
        KeptField(("a", "b", 0, "d"), {}),
        KeptField(("e", 0), "x"),
        KeptField(("e", 1), None),
        KeptField(("f",), "kept"),
    )
    document = {"f": "ours", "a": {"b": [{"name": "n"}]}}
    assert with_kept_fields(document, kept) == {
        "f": "ours",
        "a": {"b": [{"name": "n", "d": {}}, {"c": 5}]},
        "e": ["x", None],
    }


def test_a_kept_field_at_the_place_of_another_kind_is_left_out():
    assert with_kept_fields(
        {"a": "text", "b": []}, (KeptField(("a", "b"), 1), KeptField(("b", "c"), 2))
    ) == {
        "a": "text",
        "b": [],
    }


def test_empty_fields_are_left_out_and_zero_is_not():
    fields = {"a": None, "b": "", "c": [], "d": {}, "e": 0, "f": False, "g": "x"}
    assert without_empty(fields) == {"e": 0, "f": False, "g": "x"}


def test_texts_of_documents_are_read_back():
    document = {"b": "1", "a": [True, None, "yes", "ü", 1.5]}
    assert json.loads(json_spec(document)) == document
    assert list(yaml.safe_load_all(yaml_spec(document, {"x": 1}))) == [document, {"x": 1}]
    assert list(document) == ["b", "a"]


def test_kept_fields_have_an_order_of_their_own():
    fields = [KeptField(keys, 1) for keys in (("b",), ("a", 1, "x"), ("a", 0, "y"), ("a", 0, "x"))]
    assert in_order(fields) == in_order(reversed(fields))
    assert [field.name for field in in_order(fields)] == ["a[0].x", "a[0].y", "a[1].x", "b"]


def test_text_that_some_reader_takes_for_a_number_or_a_truth_value_is_quoted():
    texts = ["0E0", "1e9", ".5", "1_000", "0o7", "0x1F", "1:30", "y", "N", "on", "null", "-1", "~"]
    text = yaml_spec(texts)
    assert all(line[2] in "'\"" for line in text.splitlines())
    assert yaml.safe_load(text) == texts
    plain = ["1.2.3.4/16", "0.0.0.0:80", "nodes", "8Gi", "-x"]
    assert yaml_spec(plain) == "".join(f"- {text}\n" for text in plain)


def test_a_value_that_occurs_twice_is_written_twice():
    labels = {"app": "a"}
    assert yaml_spec({"a": labels, "b": labels}) == "a:\n  app: a\nb:\n  app: a\n"
