"""Overviews of commands' answers: time with its interval, bound, parts, advice by its gain.

The source is an answer's JSON, which is read by its schema: of a training step, ranks, a launch, a
compiled graph and plans. A kernel's own report has more, and its own format
(`profile.formats.stored`).

| answer | total | parts |
|---|---|---|
| run-step | device time of the step | phases |
| run-ranks, launch | the slowest rank | work, hidden and exposed exchanges |
| compile | the pass | as estimated |
| plan-train, plan-infer, plan-collective | step, latency, collective | as estimated |
| plan-serve | an output token, at the median; else the first | as estimated |

The saving of advice is an upper bound: the whole of a part that a change removes or hides. Of a
step whose program is stored, gains are timed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trnsim.document.lanes import CurveLane, Lane
from trnsim.formatting import counted
from trnsim.profile.analysis.rank_lanes import stored_rank_lanes
from trnsim.profile.analysis.step_lanes import step_lanes
from trnsim.profile.analysis.step_program import (
    StepGain,
    StepProgram,
    one_launch_gain_s,
    operation_gain_s,
    step_gains,
)
from trnsim.profile.units import bytes_text, time_text

Values = Mapping[str, Any]
_LEAST_SHARE: Final = 0.01
"""Share of the total below which a part is no advice."""
_LONGEST_S: Final = 1e12
"""The longest time that is read, 30,000 years: a longer one is no answer of trnsim."""
_CHANGES: Final = {
    "bubble": "more micro batches in a step, or interleaved stages (--vp)",
    "tensor": "fewer tensor ranks (--tp), or exchanges beside products",
    "context": "fewer ranks for a sequence (--cp)",
    "expert": "fewer ranks for the experts (--ep)",
    "data": "a larger global batch, or a lower stage of ZeRO",
    "optimizer": "an optimizer with less state (--optimizer adamw-bf16)",
    "host": "a larger batch, which the host starts as seldom",
    "fixed": "a larger batch (--batch), which pays fixed times once",
    "launch": "one program for more layers, which is started once",
    "exchanges": "fewer ranks, or exchanges beside independent work",
    "exposed exchanges": "exchanges that start earlier, beside work of the rank",
    "host start": "the collective within a program, which the host does not start",
}
"""Change that shortens or hides a part of a time, by the name of the part."""


@dataclass(frozen=True)
class Action:
    """A change, and the seconds that it saves at most."""

    text: str
    gain_s: float


@dataclass(frozen=True)
class Overview:
    """An answer's time.

    Attributes:
        subject: the subject of the time, in words.
        machine: the chip or platform, by which two answers are compared.
        time_s: median of the answer's time.
        interval_s: P10 and P90 of that time; None if unknown.
        bound: the largest part, or the physical bound, in words.
        parts_s: seconds by part of the time, the longest first.
        actions: advice, the largest gain first.
        groups_s: for each heading, seconds by name: other divisions of the same time.
        lanes: spans over time; empty if the answer does not store them.
        gains: changes that were timed again; empty if the answer stores no program.
        launched_s: the time that gains shorten: from the first launch to the last end.
    """

    subject: str
    machine: str
    time_s: float
    interval_s: tuple[float, float] | None
    bound: str
    parts_s: Mapping[str, float]
    actions: Sequence[Action]
    groups_s: Mapping[str, Mapping[str, float]]
    lanes: Sequence[Lane | CurveLane] = ()
    gains: Sequence[StepGain] = ()
    launched_s: float = 0.0


def is_readable(schema: str) -> bool:
    """True if answers of a schema, such as plan-train/1, have an overview."""
    return schema in _READERS


def readable_schemas() -> list[str]:
    """The schemas of answers that have an overview."""
    return list(_READERS)


def overviews(answers: Sequence[Values]) -> list[Overview]:
    """The overview of each answer.

    Raises:
        KeyError: an answer lacks a field of its schema.
        ValueError: a time is no number of seconds, or a name no text.
    """
    rows = [_READERS[answer["schema"]](answer) for answer in answers]
    for overview in rows:
        _check(overview)
    return rows


def _check(overview: Overview) -> None:
    """Refuse names that are no text and times that are no seconds, which no page can show."""
    low_s, high_s = overview.interval_s or (overview.time_s, overview.time_s)
    tables = {"parts_s": overview.parts_s, **overview.groups_s}
    times_s = {"time": overview.time_s, "P10": low_s, "P90": high_s}
    for table, rows in {"": times_s, **tables}.items():
        for name, time_s in rows.items():
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  of a file
                raise ValueError(  # noqa: TRY004  a value of the file
                    f"a name of {table} is {name!r}; legal: text"
                )
            is_number = isinstance(time_s, int | float)  # pyright: ignore[reportUnnecessaryIsInstance]  of a file
            if not is_number or isinstance(time_s, bool) or not 0 <= time_s <= _LONGEST_S:
                location = f"{name} of {table}" if table else name
                raise ValueError(f"{location} is {time_s!r}; legal: seconds, 0 or more")
    for name in (overview.subject, overview.machine):
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  of a file
            raise ValueError(  # noqa: TRY004  a value of the file
                f"the subject or the machine is {name!r}; legal: text"
            )


def _sort_by_time(parts_s: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(parts_s.items(), key=lambda part: -part[1]))


def _overview(
    subject: str,
    machine: str,
    p50_s: float,
    interval_s: tuple[float, float] | None,
    parts_s: Mapping[str, float],
    *,
    bound: str = "",
    actions: Sequence[Action] | None = None,
    groups_s: Mapping[str, Mapping[str, float]] | None = None,
) -> Overview:
    """An overview; without `actions` it has the advice that its parts give."""
    ordered_parts_s = _sort_by_time(parts_s)
    longest = next((name for name, time_s in ordered_parts_s.items() if time_s), "")
    advice = [
        Action(f"{time_text(time_s)} of {name} of {time_text(p50_s)}: {_CHANGES[name]}", time_s)
        for name, time_s in ordered_parts_s.items()
        if name in _CHANGES and 0 < time_s >= _LEAST_SHARE * p50_s
    ]
    ranked_actions = sorted(
        advice if actions is None else actions, key=lambda action: -action.gain_s
    )
    return Overview(
        subject,
        machine,
        p50_s,
        interval_s,
        bound or longest,
        ordered_parts_s,
        ranked_actions,
        groups_s or {},
    )


def _p10_p90(quantiles: Values, suffix: str = "") -> tuple[float, float]:
    return quantiles[f"p10{suffix}"], quantiles[f"p90{suffix}"]


def step_actions(answer: Values, program: StepProgram | None = None) -> list[Action]:
    """Advice on a step of eager calls: the host is behind where launches outlast the work.

    With its `program` each change is timed again; else its gain is a bound from the sums.
    """
    launch_s, device_s = answer["launch_s"], answer["device_time_s"]
    all_calls = sum(row["calls"] for row in answer["by_phase"])
    actions = []
    bound_s = launch_s - device_s - launch_s / max(all_calls, 1)
    gain_s = bound_s if program is None else one_launch_gain_s(program)
    if bound_s > 0 and gain_s > 0:
        text = f"{time_text(launch_s)} of launches beside {time_text(device_s)} of work: compile"
        actions.append(Action(f"{text} the step (torch.compile, jax.jit, torch_xla)", gain_s))
    for row in answer["by_operation"][:1]:
        operation_s = row["device_time_s"]
        calls = "1 call" if row["calls"] == 1 else f"{row['calls']} calls"
        place = "its" if row["calls"] == 1 else "their"
        text = f"{row['name']} takes {time_text(operation_s)} in {calls}"
        gain_s = operation_s
        if program is not None:  # a kernel has a launch in each call
            gain_s = operation_gain_s(program, row["name"], row["calls"])
        if gain_s > 0:
            actions.append(Action(f"{text}: an NKI kernel in {place} place", gain_s))
    return actions


def _step(answer: Values) -> Overview:
    launch_s, device_s = answer["launch_s"], answer["device_time_s"]
    groups = {
        key.removeprefix("by_"): {row["name"]: row["device_time_s"] for row in rows}
        for key, rows in answer.items()
        if key.startswith("by_")
    }
    bound = "launches of the host" if launch_s > device_s else ""
    program = StepProgram.of_data(answer["program"]) if "program" in answer else None
    overview = _overview(
        "step",
        answer["target"],
        device_s,
        _p10_p90(answer["estimate"], "_s"),
        answer["estimate"]["parts_s"],
        bound=bound,
        actions=step_actions(answer, program),
        groups_s={**groups, "launches": {"launches, hidden if ahead": launch_s}},
    )
    if program is None:
        return overview
    return replace(
        overview,
        lanes=step_lanes(program),
        gains=step_gains(program),
        launched_s=program.total_s,
    )


def _slowest_rank(answer: Values, subject: str, machine: str, time: str) -> Overview:
    """The overview of ranks, whose slowest one decides; `time` is the name of a rank's time."""
    ranks = answer["ranks"]
    slowest = max(ranks, key=lambda rank: rank[time])
    exposed_s = slowest["exposed_s"]
    parts = {"work": slowest[time] - exposed_s, "exposed exchanges": exposed_s}
    by_rank = {f"rank {rank.get('rank', index)}": rank[time] for index, rank in enumerate(ranks)}
    # Answers of an earlier trnsim have no P10 and P90.
    interval_s = None if answer.get("p10_s") is None else _p10_p90(answer, "_s")
    return _overview(subject, machine, slowest[time], interval_s, parts, groups_s={"rank": by_rank})


def _ranks(answer: Values) -> Overview:
    overview = _slowest_rank(answer, answer["title"], "", "total_s")
    return replace(overview, lanes=stored_rank_lanes(answer.get("lanes", ())))


def _launch(answer: Values) -> Overview:
    subject = f"step of {counted(len(answer['ranks']), 'rank')}"
    if not answer["ranks"]:
        return _overview(subject, answer["instance"], 0.0, None, {})
    return _slowest_rank(answer, subject, answer["instance"], "step_s")


def _compile(answer: Values) -> Overview:
    estimate, bound_s = answer["estimate"], answer["bound_s"]
    bound = f"{answer['bound']}, {time_text(bound_s)} at least"
    return _overview(
        answer["subject"],
        answer["target"],
        estimate["p50_s"],
        _p10_p90(estimate, "_s"),
        estimate["parts_s"],
        bound=bound,
    )


def _train(answer: Values) -> Overview:
    step = answer["step_s"]
    return _overview(
        f"step of {answer['model']}",
        answer["platform"],
        step["p50"],
        _p10_p90(step),
        answer["parts_s"],
    )


def _model_prefix(answer: Values) -> str:
    """Words in front of a subject: "llama: ", or "" in answers of an earlier trnsim."""
    model = answer.get("model")
    return "" if model is None else f"{model}: "


def _infer(answer: Values) -> Overview:
    latency = answer["latency_p50_s"]
    number = answer["batch"]
    items = answer["item"] if number == 1 else f"{answer['item']}s"
    subject = f"{_model_prefix(answer)}latency of {number} {items}"
    parts = answer["estimate"]["parts_s"]
    return _overview(subject, answer["platform"], latency["p50"], _p10_p90(latency), parts)


def _serve(answer: Values) -> Overview:
    token = answer["tpot_p50_s"] or answer["ttft_p50_s"]
    subject = "time of an output token" if answer["tpot_p50_s"] else "time to the first token"
    parts = answer["token_parts_s"] if answer["tpot_p50_s"] else {}
    return _overview(
        f"{_model_prefix(answer)}{subject}",
        answer["platform"],
        token["p50"],
        _p10_p90(token),
        parts or {},
    )


def _collective(answer: Values) -> Overview:
    time_s = answer["time_s"]
    parts = {
        "host start": max(answer["time_s"]["p50"] - answer["inside_s"]["p50"], 0.0),
        "latency": answer["latency_s"],
        "bytes": answer["bytes_s"],
    }
    kind, nbytes = answer.get("collective", "collective"), answer.get("bytes")
    size = "" if nbytes is None else f" of {bytes_text(nbytes)}"
    subject = f"{kind}{size} on {answer['ranks']} ranks"
    return _overview(subject, answer["platform"], time_s["p50"], _p10_p90(time_s), parts)


_READERS: Final[dict[str, Callable[[Values], Overview]]] = {
    "run-step/1": _step,
    "run-ranks/1": _ranks,
    "launch/1": _launch,
    "compile/1": _compile,
    "plan-train/1": _train,
    "plan-infer/1": _infer,
    "plan-serve/1": _serve,
    "plan-collective/1": _collective,
}
