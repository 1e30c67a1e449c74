"""Values of JSON as dataclasses: each wrong field is named with its path and what is legal."""

from dataclasses import dataclass, field
from enum import StrEnum

import pytest

from trnsim.decide.reading import made
from trnsim.errors import BadInput


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Leaf:
    size: float
    is_green: bool = True


@dataclass(frozen=True)
class Tree:
    name: str
    age: int | None
    colour: Colour
    leaves: tuple[Leaf, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)


WHOLE = {
    "name": "oak",
    "age": 3,
    "colour": "red",
    "leaves": [{"size": 2}, {"size": 0.5, "is_green": False}],
    "parts": {"bark": 1},
}


def test_all_kinds_of_fields_are_made():
    tree = made(Tree, WHOLE, "f")
    assert tree == Tree("oak", 3, Colour.RED, (Leaf(2.0), Leaf(0.5, False)), {"bark": 1.0})
    assert isinstance(tree.leaves[0].size, float)


def test_null_is_legal_only_where_it_is_said():
    assert made(Tree, {**WHOLE, "age": None}, "f").age is None
    with pytest.raises(BadInput, match=r"^f.name is None; legal: a text"):
        made(Tree, {**WHOLE, "name": None}, "f")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": 1.5}, "f.age is 1.5; legal: a whole number"),
        ({"age": True}, "f.age is True; legal: a whole number"),
        ({"colour": "green"}, "f.colour is 'green'; legal: red, blue"),
        ({"leaves": {}}, "f.leaves is {}; legal: a list"),
        ({"leaves": [{"size": "2"}]}, r"f.leaves\[0\].size is '2'; legal: a finite number"),
        ({"leaves": [{"size": True}]}, r"f.leaves\[0\].size is True; legal: a finite number"),
        ({"leaves": [{"size": float("nan")}]}, r"size is nan; legal: a finite number"),
        ({"leaves": [{"size": 1, "is_green": 1}]}, "is_green is 1; legal: true or false"),
        ({"leaves": [3]}, r"f.leaves\[0\] is 3; legal: a mapping of names to values"),
        ({"parts": {"bark": None}}, "f.parts.bark is None; legal: a finite number"),
        ({"height": 1}, "f: no field 'height'; legal: name, age, colour, leaves, parts"),
    ],
)
def test_a_wrong_field_is_named(change, message):
    with pytest.raises(BadInput, match=message):
        made(Tree, {**WHOLE, **change}, "f")


def test_a_missing_field_is_named():
    with pytest.raises(BadInput, match="f: the field 'colour' is missing"):
        made(Tree, {"name": "oak", "age": 1}, "f")
