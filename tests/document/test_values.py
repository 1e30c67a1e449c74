import json
from dataclasses import dataclass
from datetime import date
from enum import Enum, StrEnum
from pathlib import Path

import numpy as np
import pytest

from trnsim.document.values import json_line, json_text, picked, plain
from trnsim.facts import Interval, count, feature


class Kind(Enum):
    TRAIN = "train"


class Verdict(StrEnum):
    GO = "go"


@dataclass(frozen=True)
class Answer:
    kind: Kind
    time_s: Interval
    parts: tuple[str, ...] = ()


ANSWER = Answer(Kind.TRAIN, Interval(1.0, 2.0, 3.0), ("a",))


def test_dataclasses_are_their_fields():
    assert plain([ANSWER]) == [
        {"kind": "train", "time_s": {"p10": 1.0, "p50": 2.0, "p90": 3.0}, "parts": ["a"]}
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (float("nan"), None),
        (float("inf"), None),
        (0.0, 0.0),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.True_, True),
        (np.array(2.0), 2.0),
        (np.array([True, False]), [True, False]),
        (np.array([date(2026, 11, 21)]), ["2026-11-21"]),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.array([1.0, np.inf]), [1.0, None]),
        (date(2026, 11, 21), "2026-11-21"),
        (Path("a/b"), "a/b"),
        ({"b", "a"}, ["a", "b"]),
        ({1: {Verdict.GO: Kind.TRAIN}}, {"1": {"go": "train"}}),
        (count(8, "a page"), 8),
        ((), []),
    ],
)
def test_values_are_plain(value, expected):
    made = plain(value)
    assert made == expected
    assert type(made) is type(expected)


def test_another_object_is_no_part_of_an_answer():
    with pytest.raises(TypeError, match="object is no part"):
        plain(object())
    assert plain(feature("a page"))["value"] is True


def test_attributes_are_picked_by_name_or_path():
    assert picked(ANSWER, "kind median_s=time_s.p50", x=1) == {
        "kind": Kind.TRAIN,
        "median_s": 2.0,
        "x": 1,
    }


def test_what_is_none_has_no_attributes():
    assert picked(None, "a b=c.d") == {"a": None, "b": None}


def test_json_can_be_read_by_every_reader():
    said = {"name": "模\x1b</script>", "value": float("nan")}
    assert json.loads(json_text(said), parse_constant=pytest.fail) == {**said, "value": None}
    assert json_text({"a": [1]}) == '{\n "a": [\n  1\n ]\n}'
    assert json_line({"a": [1, None]}) == '{"a": [1, null]}'
    assert json_text(said).isascii()
