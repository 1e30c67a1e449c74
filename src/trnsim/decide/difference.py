"""Differences between two answers of a plan or a decision, and the inputs that explain them.

Answers are JSON as the commands print it. Floating-point numbers and intervals {p10, p50, p90} are
figures; text, whole numbers and flags are inputs and choices. An answer has one of these costs:

    usd                     = price x instances x time_s
    usd_per_million_tokens  = price x instances / output_tokens_per_s
    usd_per_million_items   = price x instances / items_per_s

so the part of a change of cost that neither time nor instances explain is due to the price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_INTERVAL_KEYS: Final = {"p10", "p50", "p90"}
_COSTS: Final = (
    ("usd", "time_s", 1),
    ("usd_per_million_tokens", "output_tokens_per_s", -1),
    ("usd_per_million_items", "items_per_s", -1),
)
"""Cost, the time or rate on which it depends, and the exponent: 1 for a time, -1 for a rate."""
_NAME_FIELDS: Final = ("platform", "name", "target")
"""Fields that may name the subject of an answer; the first that the answer has counts."""
_PART_NAMES: Final = (*_NAME_FIELDS, "instance")
"""Fields that may name a part of an answer, such as a candidate of a decision."""


@dataclass(frozen=True)
class AnswerChange:
    """A value that differs between two answers.

    Attributes:
        path: keys of the value in the JSON, joined by dots.
        old: value in the old answer, the median of an interval; None if missing.
        new: the value in the new answer, the median of an interval; None if missing.
        within: True if the new median lies in the old P10 to P90; None without an interval.
    """

    path: str
    old: Any
    new: Any
    within: bool | None = None

    @property
    def ratio(self) -> float | None:
        """``new / old``; None if either is not a number, or the ratio is not finite."""
        if not (is_number(self.old) and is_number(self.new)) or not self.old:
            return None
        ratio = float(self.new / self.old)
        return ratio if math.isfinite(ratio) else None


@dataclass(frozen=True)
class Difference:
    """Differences between two answers about one platform or workload.

    Attributes:
        name: name of the platform or workload.
        figures: predicted values that differ.
        causes: inputs and choices that differ.
        cost: ratios new / old of the factors of the cost: "price", "instances" and "time".
    """

    name: str
    figures: tuple[AnswerChange, ...]
    causes: tuple[AnswerChange, ...]
    cost: Mapping[str, float]

    @property
    def is_equal(self) -> bool:
        """True if nothing differs."""
        return not self.figures and not self.causes


def difference(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], ignored_fields: Sequence[str] = ()
) -> Difference:
    """Differences between two answers about `name`, except in the top-level `ignored_fields`."""
    sides = [
        {key: answer[key] for key in answer if key not in ignored_fields} for answer in (old, new)
    ]
    changes = list(_changes("", *sides))
    return Difference(
        name,
        tuple(change for change in changes if _is_figure(change)),
        tuple(change for change in changes if not _is_figure(change)),
        _cost(old, new),
    )


def name_of(plain: object, keys: Sequence[str] = _NAME_FIELDS) -> str | None:
    """Name of an answer or a part of an answer; None without a name.

    Args:
        plain: JSON value of the answer or part.
        keys: fields that may hold the name; the first that is present counts.
    """
    if not isinstance(plain, Mapping):
        return None
    name = next((plain[key] for key in keys if key in plain), None)
    return name if isinstance(name, str) else None


def _changes(path: str, old: object, new: object) -> Iterator[AnswerChange]:
    """Differing values below `path`."""
    if _is_interval(old) or _is_interval(new):
        yield from _changed_interval(path, old, new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif _is_list(old) and _is_list(new):
        yield from _changes(path, _by_name(old), _by_name(new))
    elif old != new:
        yield AnswerChange(path, old, new)


def _changed_interval(path: str, old: Any, new: Any) -> Iterator[AnswerChange]:
    """Change of an interval's median; nothing if the median stays.

    A side may be a plain number or None in place of an interval.
    """
    old_median, new_median = (side["p50"] if _is_interval(side) else side for side in (old, new))
    if old_median == new_median:
        return
    within = None
    if _is_interval(old) and is_number(new_median) and is_number(old["p10"]):
        p10, p90 = old["p10"], old["p90"]
        if p90 is None:  # no end, as of months in which a move is never paid back
            within = bool(p10 <= new_median)
        elif is_number(p90):
            within = bool(p10 <= new_median <= p90)
    yield AnswerChange(path, old_median, new_median, within)


def _by_name(members: Any) -> dict[str, Any]:
    """The members of a list by their names, or by their positions.

    In a list of text, ``name = value: source`` is a constant's name and value; a line without a
    value has the value "said".
    """
    if all(isinstance(member, str) for member in members):
        halves = [member.partition(" = ") for member in members]
        return {name: value or "said" for name, _, value in halves}
    names = [name_of(member, _PART_NAMES) for member in members]
    is_named = None not in names and len(set(names)) == len(names)
    keys = names if is_named else range(len(members))
    return {str(key): member for key, member in zip(keys, members, strict=True)}


def _cost(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, float]:
    """Factors of a change of cost, new / old; empty unless both answers have a cost."""
    for cost, speed, exponent in _COSTS:
        cost_ratio, speed_ratio = (
            AnswerChange(key, _p50(old, key), _p50(new, key)).ratio for key in (cost, speed)
        )
        count = AnswerChange("instances", _paid_instances(old), _paid_instances(new)).ratio
        if cost_ratio and speed_ratio and count:
            time = speed_ratio if exponent == 1 else 1 / speed_ratio
            if time * count:
                return {"price": cost_ratio / (time * count), "instances": count, "time": time}
    return {}


def _paid_instances(answer: Mapping[str, Any]) -> Any:
    """The instances of an answer, with those that wait to replace others."""
    count, spares = answer.get("instances", 1), answer.get("spares", 0)
    return count + spares if is_number(count) and is_number(spares) else count


def _p50(answer: Mapping[str, Any], key: str) -> object:
    figure: Any = answer.get(key)
    return figure["p50"] if _is_interval(figure) else figure


def _is_interval(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == _INTERVAL_KEYS


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def is_number(value: Any) -> bool:
    """True for a finite number; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond floating point
        return False


def _is_figure(change: AnswerChange) -> bool:
    """True if the value is a prediction (an interval or a floating-point number), not an input."""
    return change.within is not None or float in (type(change.old), type(change.new))
