"""The schemas themselves: names, versions, strictness; and the checks of documents by them."""

from importlib import resources

import pytest
from schema_checks import described, occurring, problems

from trnsim.document.values import schema, with_schema

FOLDER = resources.files("trnsim.document") / "schemas"
NAMES = sorted(file.name.removesuffix(".json") for file in FOLDER.iterdir())


def nodes(rules):
    yield rules
    for inner in rules.get("properties", {}).values():
        yield from nodes(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(rules.get(key), dict):
            yield from nodes(rules[key])


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_named_and_closed(name):
    command, _, version = name.rpartition("-")
    found = schema(f"{command}/{version}")
    assert found["$id"] == f"trnsim/{command}/{version}"
    assert found["properties"]["schema"] == {"const": f"{command}/{version}"}
    assert "schema" in found["required"]
    for one in nodes(found):
        assert one.keys() <= {
            *("$schema", "$id", "$ref", "type", "const", "enum", "items"),
            *("properties", "required", "additionalProperties"),
        }
        if "properties" in one:
            assert one["additionalProperties"] is False
            assert set(one["required"]) <= one["properties"].keys()


RULES = {
    "type": "object",
    "properties": {
        "a": {"type": ["number", "null"]},
        "b": {"type": "array", "items": {"enum": ["x"]}},
        "c": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1, "b": ["x"], "c": {"any": 1}}, []),
        ({"a": None}, []),
        ({}, ["/a is missing"]),
        ({"a": True}, ["/a is True, not number or null"]),
        ({"a": 1, "b": ["y"]}, ["/b/0 is 'y', not one of ['x']"]),
        ({"a": 1, "c": {"any": 1.5}}, ["/c/any is 1.5, not integer"]),
        ({"a": 1, "d": 1}, ["/d is unknown"]),
        ([], [" is [], not object"]),
    ],
)
def test_what_is_not_legal_is_named(value, said):
    assert list(problems(value, RULES)) == said


def test_fields_are_found_where_they_occur():
    assert set(described(RULES)) == {"/a", "/a=null", "/b", "/c"}
    assert set(occurring({"a": 1, "c": {"any": 2}}, RULES)) == {"/a", "/c"}
    assert set(occurring({"a": None}, RULES)) == {"/a", "/a=null"}


def test_a_schema_may_refer_to_another():
    rules = {"type": "array", "items": {"$ref": "trnsim/plan-layer/1"}}
    assert "/0/schema is missing" in list(problems([{}], rules))


def test_an_answer_names_its_schema_first():
    assert with_schema([{"a": 1}], "x/1") == [{"schema": "x/1", "a": 1}]
    assert with_schema({"a": 1}, "") == {"a": 1}
