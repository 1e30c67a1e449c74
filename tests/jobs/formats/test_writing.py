import json

import yaml

from trnsim.jobs.formats.writing import in_order, json_spec, with_kept, without_empty, yaml_spec
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
    assert with_kept(document, kept) == {
        "f": "ours",
        "a": {"b": [{"name": "n", "d": {}}, {"c": 5}]},
        "e": ["x", None],
    }


def test_a_kept_field_at_the_place_of_another_kind_is_left_out():
    assert with_kept(
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
