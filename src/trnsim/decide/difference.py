"""What changed between two answers of a plan or a decision, and which of their inputs explain it.

Answers are JSON as the commands print it. Floating-point numbers and intervals {p10, p50, p90} are
figures; text, whole numbers and flags are inputs and choices. An answer has one figure of cost:

    usd                     = price x instances x time_s
    usd_per_million_tokens  = price x instances / output_tokens_per_s
    usd_per_million_items   = price x instances / items_per_s

so that what neither time nor instances explain of its change is the price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTERVAL: Final = {"p10", "p50", "p90"}
_KINDS: Final = {
    "plan train": "step_s",
    "plan serve": "ttft_p50_s",
    "plan infer": "items_per_s",
    "plan collective": "bus_bytes_per_s",
    "assess": "verdict",
}
"""Kinds of answers, and the field that only each of them has."""

_COSTS: Final = (
    ("usd", "time_s", 1),
    ("usd_per_million_tokens", "output_tokens_per_s", -1),
    ("usd_per_million_items", "items_per_s", -1),
)
"""Figures of cost, the figure of speed that each depends on, and with which power."""

_PARTS: Final = ("parts_s", "prompt_parts_s", "token_parts_s")
"""Times by cause."""

_ASIDE: Final = ("pareto", "searched")
"""What a search looked at besides its answer."""


@dataclass(frozen=True)
class Change:
    """One value that differs; None stands for one that is not there.

    Attributes:
        path: its keys in the JSON, with dots.
        within: whether the new median lies in the old interval; None where there is no interval.
    """

    path: str
    old: Any
    new: Any
    within: bool | None = None

    @property
    def ratio(self) -> float | None:
        """``new / old``, or None where that is no number."""
        if not (_is_number(self.old) and _is_number(self.new)) or not self.old:
            return None
        return float(self.new / self.old)


@dataclass(frozen=True)
class Difference:
    """Two answers about one platform or workload.

    Attributes:
        name: of the platform or workload.
        figures: what was predicted otherwise.
        causes: inputs and choices that differ.
        parts_s: change of each part of the time, in seconds, by table and part; the largest first.
        cost: ratios new to old of the price, the instances and the time that make up the cost.
    """

    name: str
    figures: tuple[Change, ...]
    causes: tuple[Change, ...]
    parts_s: Mapping[str, float]
    cost: Mapping[str, float]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.figures and not self.causes


@dataclass(frozen=True)
class Comparison:
    """All answers of two files.

    Attributes:
        only_old: names that only the old file has.
        only_new: names that only the new file has.
    """

    kind: str
    differences: tuple[Difference, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def compare(old: object, new: object, names: tuple[str, str] = ("OLD", "NEW")) -> Comparison:
    """What changed from the answers `old` to the answers `new`, as `--json` prints them.

    Raises:
        BadInput: one of them is no such answer, they are of two kinds, or they share no name.
    """
    answers = [_answers(given, name) for given, name in zip((old, new), names, strict=True)]
    kinds = [_kind(found, name) for found, name in zip(answers, names, strict=True)]
    if kinds[0] != kinds[1]:
        raise BadInput(
            f"{names[0]} is of trnsim {kinds[0]}, {names[1]} of trnsim {kinds[1]}",
            fix="compare two answers of one command",
        )
    before, after = answers
    shared = [name for name in before if name in after]
    if not shared:
        raise BadInput(
            f"{names[0]} answers for {', '.join(before)}, {names[1]} for {', '.join(after)}",
            fix="give two answers that have a platform or workload in common",
        )
    return Comparison(
        kinds[0],
        tuple(difference(name, before[name], after[name]) for name in shared),
        tuple(name for name in before if name not in after),
        tuple(name for name in after if name not in before),
    )


def difference(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    """What changed between two answers about `name`."""
    kept = [{key: one[key] for key in one if key not in _ASIDE} for one in (old, new)]
    changes = list(_changes("", *kept))
    return Difference(
        name,
        tuple(one for one in changes if _is_figure(one) and not _is_part(one.path)),
        tuple(one for one in changes if not _is_figure(one)),
        _parts(changes),
        _cost(old, new),
    )


def _answers(given: object, name: str) -> dict[str, Mapping[str, Any]]:
    """The answers of a file by platform or workload."""
    found = given.get("workloads", [given]) if isinstance(given, Mapping) else given
    if isinstance(found, Sequence) and not isinstance(found, str):
        keys = [_name(one) for one in found]
        if keys and None not in keys and len(set(keys)) == len(keys):
            return dict(zip((str(key) for key in keys), found, strict=True))
    raise BadInput(
        f"{name} holds no answer of trnsim plan, nor a decision of trnsim assess",
        fix="write one with `trnsim plan train ... --json > FILE`",
    )


def _name(answer: object) -> str | None:
    if not isinstance(answer, Mapping):
        return None
    found = answer.get("platform", answer.get("name"))
    return found if isinstance(found, str) else None


def _kind(answers: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """The command that gave the answers."""
    first = next(iter(answers.values()))
    for kind, field in _KINDS.items():
        if field in first:
            return kind
    raise BadInput(
        f"{name}: no answer of a known command; legal: "
        + ", ".join(f"{kind} (has {field})" for kind, field in _KINDS.items())
    )


def _changes(path: str, old: object, new: object) -> Iterator[Change]:
    """Every value that differs below `path`."""
    if _is_interval(old) or _is_interval(new):
        yield from _changed_interval(path, old, new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changes(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
    elif _is_list(old) and _is_list(new):
        yield from _changes(path, _by_name(old), _by_name(new))
    elif old != new:
        yield Change(path, old, new)


def _changed_interval(path: str, old: Any, new: Any) -> Iterator[Change]:
    """A figure with doubt changes where its median does, or where it comes or goes."""
    before, after = (one["p50"] if _is_interval(one) else one for one in (old, new))
    if before == after:
        return
    is_known = _is_interval(old) and _is_number(after) and _is_number(old["p10"])
    within = None
    if is_known:  # months without an end have no P90
        within = bool(old["p10"] <= after) and (old["p90"] is None or bool(after <= old["p90"]))
    yield Change(path, before, after, within)


def _by_name(found: Any) -> dict[str, Any]:
    """The members of a list by their names, or by their places.

    A line ``name = value: source`` is the constant of that name.
    """
    if all(isinstance(one, str) for one in found):
        halves = [one.partition(" = ") for one in found]
        return {name: value or "said" for name, _, value in halves}
    names = [_name(one) for one in found]
    is_named = None not in names and len(set(names)) == len(names)
    keys = names if is_named else range(len(found))
    return {str(key): one for key, one in zip(keys, found, strict=True)}


def _parts(changes: Sequence[Change]) -> dict[str, float]:
    """Seconds that each part of a time grew by, the largest change first."""
    grown = {one.path: (one.new or 0.0) - (one.old or 0.0) for one in changes if _is_part(one.path)}
    return dict(sorted(grown.items(), key=lambda part: -abs(part[1])))


def _cost(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, float]:
    """The factors of a cost's change; nothing where no cost is known on both sides."""
    for cost, speed, power in _COSTS:
        total, time = (Change(key, _p50(old, key), _p50(new, key)).ratio for key in (cost, speed))
        count = Change("instances", old.get("instances", 1), new.get("instances", 1)).ratio
        if total and time and count:
            factor = time**power
            return {"price": total / (factor * count), "instances": count, "time": factor}
    return {}


def _p50(answer: Mapping[str, Any], key: str) -> object:
    found: Any = answer.get(key)
    return found["p50"] if _is_interval(found) else found


def _is_interval(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == _INTERVAL


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_figure(change: Change) -> bool:
    """Whether a change is one of what is predicted, rather than of what it is predicted from."""
    return change.within is not None or float in (type(change.old), type(change.new))


def _is_part(path: str) -> bool:
    return any(name in _PARTS for name in path.split(".")[:-1])
