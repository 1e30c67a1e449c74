import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from trnsim.memory.index import VectorIndex
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.kernels.typed_json import field_types, from_json, legal_types, to_json


class Colour(Enum):
    red = 1


@dataclass(frozen=True)
class Inner:
    number: float | None


@dataclass(frozen=True)
class Outer:
    inner: Inner
    pairs: tuple[tuple[int, int], ...]
    colour: Colour
    other: int | tuple[int, ...]
    free: dict[str, Any]


OUTER = Outer(Inner(1.0), ((1, 2), (3, 4)), Colour.red, (5,), {"a": [1]})


def test_a_dataclass_is_what_it_was_after_json():
    again = from_json(Outer, json.loads(json.dumps(to_json(OUTER))), "outer")
    assert again == OUTER
    assert type(again.inner.number) is float


@pytest.mark.parametrize("number", [0.1, -0.0, 1e-40, math.inf, -math.inf, math.nan, 3])
def test_a_number_keeps_its_bits_and_its_type(number):
    again = from_json(float, json.loads(json.dumps(to_json(number))), "x")
    assert (type(again), repr(again)) == (type(number), repr(number))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"inner": {}}, "outer.inner: {}; legal: an object of number"),
        ({"inner": {"number": "a"}}, "outer.inner.number: 'a'; legal: a number or null"),
        ({"inner": {"number": {"number": "1"}}}, "outer.inner.number: '1'; legal: inf, -inf, nan"),
        ({"pairs": [[1, 2, 3]]}, r"outer.pairs\[0\]: 3 values; legal: 2"),
        ({"pairs": [[1, 2.5]]}, r"outer.pairs\[0\]\[1\]: 2.5; legal: a whole number"),
        ({"pairs": {}}, "outer.pairs: {}; legal: a list"),
        ({"colour": "__class__"}, "outer.colour: '__class__'; legal: red"),
        ({"colour": 1}, "outer.colour: 1; legal: one of red"),
        ({"other": True}, "outer.other: True; legal: a whole number or a list"),
        ({"free": []}, r"outer.free: \[\]; legal: an object"),
    ],
)
def test_another_type_is_refused_with_its_field(change, text):
    with pytest.raises(MalformedProgram, match=text):
        from_json(Outer, to_json(OUTER) | change, "outer")


def test_a_member_more_or_less_is_no_such_object():
    for members in (to_json(OUTER) | {"more": 1}, {"inner": None}, [], None):
        with pytest.raises(MalformedProgram, match="legal: an object of inner, pairs, colour"):
            from_json(Outer, members, "outer")


def test_one_type_stands_for_another():
    assert from_json(int | None, "red", "x", {int: Colour}) is Colour.red


def test_the_types_of_a_type_are_those_of_its_parts():
    assert legal_types(tuple[int, ...] | Colour | None) == {int, Colour, type(None)}


def test_an_annotation_of_an_index_is_found():
    assert list(field_types(VectorIndex)) == ["source", "stride_bytes", "limit"]
