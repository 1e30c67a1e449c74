from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Literal

import pytest

from trnsim.reader.declaration import (
    Rule,
    between,
    declared,
    fields_of,
    legal_text,
    names_of,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Inner:
    size: int


@pytest.mark.parametrize(
    ("limits", "words", "inside", "outside"),
    [
        ({}, "", [-1e9, 0], []),
        ({"minimum": 1, "maximum": 366}, "from 1 to 366", [1, 366], [0, 367]),
        ({"minimum": 24, "maximum": 24}, "exactly 24", [24], [23, 25]),
        ({"minimum": 1}, "from 1 on", [1, 1e9], [0]),
        ({"exclusive_minimum": 0}, "above 0", [1e-9], [0]),
        ({"exclusive_minimum": 0, "maximum": 1e10}, "above 0 and at most 1e+10", [1e10], [0, 2e10]),
        (
            {"exclusive_minimum": 0, "exclusive_maximum": 100},
            "above 0 and below 100",
            [99],
            [0, 100],
        ),
    ],
)
def test_limits_are_told_as_they_are_checked(limits, words, inside, outside):
    rule = Rule(**limits)
    assert rule.limits == words
    assert all(map(rule.allows, inside))
    assert not any(map(rule.allows, outside))
    assert not limits or not rule.allows(float("nan"))


@pytest.mark.parametrize(
    ("hint", "rule", "said"),
    [
        (int, Rule(minimum=1, unit="days"), "a whole number from 1 on [days]"),
        (float | None, Rule(), "a number"),
        (bool, Rule(), "yes, no, true, false"),
        (date, Rule(), "a day as 2026-11-21"),
        (Literal["a", "b"], Rule(), "a, b"),
        (Colour, Rule(), "red, blue"),
        (str, Rule(legal=("x", "y")), "x, y"),
        (str, Rule(legal=lambda: ["x"]), "x"),
        (str, Rule(legal="a path"), "a path"),
        (str | Inner, Rule(), "text or a mapping of fields: size"),
        (
            tuple[int, ...],
            Rule(minimum=2),
            "a list of from 2 on, in one text with ';' between: a whole number",
        ),
        (tuple[Inner, ...], Rule(), "a list: a mapping of fields: size"),
        (
            dict[str, float],
            Rule(each=Rule(exclusive_minimum=0)),
            "a mapping of names to a number above 0",
        ),
    ],
)
def test_what_is_legal_is_told_in_words(hint, rule, said):
    assert legal_text(hint, rule) == said


def test_a_field_has_its_rule_and_its_default():
    @dataclass(frozen=True, kw_only=True)
    class Kind:
        days: int = declared(help="days", alias=("d",))
        name: str = declared("x", help="name")
        plain: int = 3

    fields = fields_of(Kind)
    assert fields["days"].rule == Rule(help="days", alias=("d",))
    assert fields["plain"].rule == Rule()
    assert [field.is_optional for field in fields.values()] == [False, True, True]
    assert names_of(Kind) == {"days": "days", "d": "days", "name": "name", "plain": "plain"}


def test_limits_may_stand_beside_the_meaning():
    @dataclass(frozen=True, kw_only=True)
    class Kind:
        days: int = between("days", 1, 366, 7, unit="days")

    field = fields_of(Kind)["days"]
    assert (field.rule, field.default) == (
        Rule(help="days", minimum=1, maximum=366, unit="days"),
        7,
    )
