"""Answers of trnsim's commands, as `--json` prints them: of which command, and about what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trnsim.decide.difference import name_of
from trnsim.decide.why.times import Time, times
from trnsim.document.values import SCHEMA
from trnsim.errors import BadInput

KINDS: Final = {
    "compile": "program_s",
    "plan infer": "items_per_s",
    "plan serve": "ttft_p50_s",
    "plan train": "step_s",
    "plan collective": "bus_bytes_per_s",
    "plan layer": "layer",
    "assess": "verdict",
}
"""Kinds of answers, and the field that only each of them has."""


@dataclass(frozen=True)
class Answer:
    """An answer about one platform or workload.

    Attributes:
        kind: the command that gave it, or the format of a log.
        name: of the platform, chip or workload.
        plain: all that it says.
        times: those that it says, the principal one first.
        options: what its command was given, by option; nothing where that is not known.
        is_measured: whether it is a log.
    """

    kind: str
    name: str
    plain: Mapping[str, Any]
    times: tuple[Time, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_measured: bool = False


def answers(
    given: object, where: str, options: Mapping[str, str] | None = None
) -> dict[str, Answer]:
    """The answers in a JSON value by platform, chip or workload.

    Several about one platform are named with their numbers of instances.

    Raises:
        BadInput: it is no answer of a known command.
    """
    found = given.get("workloads", [given]) if isinstance(given, Mapping) else given
    if not isinstance(found, list) or not found:
        raise _no_answer(where)
    named = _named([_bare(one) for one in found], where)
    made = {}
    for name, plain in named.items():
        kind = _kind(plain, where)
        read = times(kind, plain, where if len(named) == 1 else f"{where}: {name}")
        made[name] = Answer(kind, name, plain, read, options or {})
    return made


def _bare(given: Any) -> Any:
    """An answer without the name of its schema, which is no input."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if name != SCHEMA}


def _named(found: Sequence[Any], where: str) -> dict[str, Mapping[str, Any]]:
    names = [name_of(one) or "" for one in found]
    count = Counter(names)
    full = [
        name if count[name] == 1 else f"{name} x {one.get('instances')}"
        for name, one in zip(names, found, strict=True)
        if name
    ]
    if len(full) < len(found):
        raise _no_answer(where)
    if len(set(full)) < len(full):
        twice = Counter(full).most_common(1)[0][0]
        raise BadInput(
            f"{where} answers twice for {twice}; legal: one answer for each platform or workload",
            fix="leave one out",
        )
    return dict(zip(full, found, strict=True))


def _kind(plain: Mapping[str, Any], where: str) -> str:
    """The command that gave an answer."""
    for kind, key in KINDS.items():
        if key in plain:
            return kind
    legal = ", ".join(f"{kind} (has {key})" for kind, key in KINDS.items())
    raise BadInput(
        f"{where}: no answer of a known command; legal: {legal}",
        fix="write one with `trnsim plan train ... --json > FILE`",
    )


def _no_answer(where: str) -> BadInput:
    return BadInput(
        f"{where} holds no answer of trnsim; legal: the JSON of {', '.join(KINDS)}",
        fix="write one with `trnsim plan train ... --json > FILE`",
    )
