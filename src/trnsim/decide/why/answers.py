"""Answers of trnsim's commands, read from the JSON that `--json` prints, with command and name."""

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
"""Commands, each with the field by which its answer is recognised."""


@dataclass(frozen=True)
class PlanAnswer:
    """Answer of a command about one platform or workload.

    Attributes:
        kind: command of the answer, or format of a log.
        name: name of the platform, chip or workload.
        fields: all fields of the answer.
        times: times of the answer, the principal one first.
        options: options of its command, by name; empty if unknown.
        is_measured: True for a log.
    """

    kind: str
    name: str
    fields: Mapping[str, Any]
    times: tuple[Time, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_measured: bool = False


def answers(
    content: object, source: str, options: Mapping[str, str] | None = None
) -> dict[str, PlanAnswer]:
    """The answers in a JSON value, by name of the platform, chip or workload.

    Several answers about one platform are named "PLATFORM x INSTANCES".

    Args:
        content: the JSON value: an answer, a list of answers, or a decision of `trnsim assess`.
        source: file or command of the answers, for messages.
        options: options of the command, by name; None if unknown.

    Raises:
        BadInput: it is not an answer of a known command.
    """
    items = content.get("workloads", [content]) if isinstance(content, Mapping) else content
    if not isinstance(items, list) or not items:
        raise _no_answer(source)
    by_name = _answers_by_name([_bare(item) for item in items], source)
    answers_by_name = {}
    for name, plain in by_name.items():
        kind = _kind(plain, source)
        answer_times = times(kind, plain, source if len(by_name) == 1 else f"{source}: {name}")
        answers_by_name[name] = PlanAnswer(kind, name, plain, answer_times, options or {})
    return answers_by_name


def _bare(item: Any) -> Any:
    """An answer without the field that names its schema."""
    if not isinstance(item, Mapping):
        return item
    return {name: value for name, value in item.items() if name != SCHEMA}


def _answers_by_name(items: Sequence[Any], source: str) -> dict[str, Mapping[str, Any]]:
    names = [name_of(item) or "" for item in items]
    count = Counter(names)
    full_names = [
        name if count[name] == 1 else f"{name} x {item.get('instances')}"
        for name, item in zip(names, items, strict=True)
        if name
    ]
    if len(full_names) < len(items):
        raise _no_answer(source)
    if len(set(full_names)) < len(full_names):
        repeated_name = Counter(full_names).most_common(1)[0][0]
        raise BadInput(
            f"{source} answers twice for {repeated_name}; legal: one answer for each platform or "
            "workload",
            fix="leave one out",
        )
    return dict(zip(full_names, items, strict=True))


def _kind(plain: Mapping[str, Any], source: str) -> str:
    """Command that gave an answer."""
    for kind, key in KINDS.items():
        if key in plain:
            return kind
    legal = ", ".join(f"{kind} (has {key})" for kind, key in KINDS.items())
    raise BadInput(
        f"{source}: no answer of a known command; legal: {legal}",
        fix="write one with `trnsim plan train ... --json > FILE`",
    )


def _no_answer(source: str) -> BadInput:
    return BadInput(
        f"{source} holds no answer of trnsim; legal: the JSON of {', '.join(KINDS)}",
        fix="write one with `trnsim plan train ... --json > FILE`",
    )
